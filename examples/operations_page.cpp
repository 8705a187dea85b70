#include "operations_page.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <jnorm/autograd/operation_summary.hpp>

namespace jnorm {

namespace {

constexpr const char* kHead = R"(# Operations

Written by `jnorm check --page` from the code; a test fails when this page and the code differ.

A *primitive*'s derivative is written in operations, so it can be differentiated again. A *fused* operation has kernels
of its own for itself and its derivative, and a composition from primitives that higher derivatives take. A *composed*
function records the operations that it names. "Saved" is what the derivative needs from the forward, in any variant;
y is the output. The orders are those at which all witnesses hold: central differences, adjoint, composition and closed
form (`jnorm check --order 3`); "-" where there is nothing for them to check.

| operation | kind | formula | saved | orders | from |
|---|---|---|---|---|---|
)";

// A cell's text: a bar would end the cell.
std::string cell(std::string text) {
  for (std::size_t i = text.find('|'); i != std::string::npos; i = text.find('|', i + 2)) text.insert(i, "\\");
  return text;
}

std::string origin_of(const OperationSummary& summary) {
  // The page lies in autograd/.
  const std::string prefix = "autograd/";
  const std::string link = summary.derivation.rfind(prefix, 0) == 0 ? summary.derivation.substr(prefix.size()) : "";
  if (link.empty()) return summary.source;
  return fmt::format("[derivation]({}){}{}", link, summary.source.empty() ? "" : ", ", summary.source);
}

}  // namespace

std::string operations_page(const std::map<std::string, std::set<int>>& orders) {
  std::string page = kHead;
  for (const OperationSummary& summary : operation_summaries()) {
    const auto held = orders.find(summary.name);
    const std::string checked = held == orders.end() ? "-" : fmt::format("{}", fmt::join(held->second, " "));
    const std::string formula = summary.kind == OperationSummary::Kind::composed
                                    ? fmt::format("by {}", fmt::join(summary.parts, ", "))
                                    : fmt::format("`{}`", summary.formula);
    page += fmt::format("| {} | {} | {} | {} | {} | {} |\n", summary.name, to_string(summary.kind), cell(formula),
                        fmt::join(summary.saved, ", "), checked, origin_of(summary));
  }
  return page;
}

}  // namespace jnorm
