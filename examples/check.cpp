// `jnorm check`: every operation's derivative under every witness.

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <jnorm/autograd/catalogue.hpp>
#include <jnorm/autograd/operation_summary.hpp>
#include <jnorm/core/expect.hpp>
#include <jnorm/core/nearest_word.hpp>

#include "commands.hpp"
#include "operations_page.hpp"

namespace jnorm {

namespace {

// The worst of one witness at one order over all of an operation's cases.
struct Verdict {
  GradientWitness witness;
  std::string variant;  // the case where it was worst
};

struct OperationResult {
  std::string operation;
  Index cases = 0;
  std::vector<Verdict> verdicts;      // in the order in which the witnesses were first heard
  std::vector<std::string> warnings;  // with the case

  bool passed() const {
    return std::all_of(verdicts.begin(), verdicts.end(), [](const Verdict& v) { return v.witness.holds(); });
  }

  // The orders at which every witness of every case holds.
  std::set<int> orders() const {
    std::set<int> held;
    for (const Verdict& verdict : verdicts) held.insert(verdict.witness.order);
    for (const Verdict& verdict : verdicts) {
      if (!verdict.witness.holds()) held.erase(verdict.witness.order);
    }
    return held;
  }

  const Verdict* find(const std::string& witness, int order) const {
    for (const Verdict& verdict : verdicts) {
      if (verdict.witness.name == witness && verdict.witness.order == order) return &verdict;
    }
    return nullptr;
  }

  void add(const OperationCase& operation_case, const GradientReport& report) {
    ++cases;
    for (const std::string& warning : report.warnings) {
      warnings.push_back(fmt::format("{}: {}", operation_case.variant, warning));
    }
    for (const GradientWitness& witness : report.witnesses) {
      const auto same = std::find_if(verdicts.begin(), verdicts.end(), [&](const Verdict& v) {
        return v.witness.name == witness.name && v.witness.order == witness.order;
      });
      if (same == verdicts.end()) {
        verdicts.push_back({witness, operation_case.variant});
      } else if (witness.worse_than(same->witness)) {
        *same = {witness, operation_case.variant};
      }
    }
  }
};

OperationResult& result_of(const std::string& operation, std::vector<OperationResult>& results) {
  const auto same = std::find_if(results.begin(), results.end(),
                                 [&](const OperationResult& result) { return result.operation == operation; });
  if (same != results.end()) return *same;
  results.push_back({.operation = operation, .cases = 0, .verdicts = {}, .warnings = {}});
  return results.back();
}

std::string failure_text(const OperationResult& result, const Verdict& verdict, const Style& style) {
  const GradientWitness& witness = verdict.witness;
  std::string text = style.red("FAILS ") + fmt::format("{} {}: {} at order {}, {:.1e} is more than {:.0e}; {}\n",
                                                       result.operation, verdict.variant, witness.name, witness.order,
                                                       witness.error, witness.tolerance, witness.worst);
  if (witness.verdict) text += "  verdict: " + witness.verdict->sentence + "\n";
  if (witness.sweep) text += to_string(*witness.sweep) + "\n";
  return text;
}

// One row an operation, one column a witness at an order; what doesn't hold is listed below.
std::string text_of(const std::vector<OperationResult>& results, Index order, const Style& style) {
  std::vector<std::pair<std::string, int>> witnesses;
  for (const char* name : {"central differences", "adjoint"}) {
    for (int k = 1; k <= order; ++k) witnesses.emplace_back(name, k);
  }
  witnesses.emplace_back("composed", 1);
  witnesses.emplace_back("closed form", 1);

  std::vector<Table::Column> columns{{"operation"}, {"cases", Align::right}};
  for (const auto& [name, k] : witnesses) {
    columns.push_back({k == 1 ? name : fmt::format("order {}", k), Align::right});
  }
  Table table(std::move(columns));
  std::string findings;
  bool passed = true;
  for (const OperationResult& result : results) {
    std::vector<std::string> row{style.bold(result.operation), std::to_string(result.cases)};
    for (const auto& [name, k] : witnesses) {
      const Verdict* const verdict = result.find(name, k);
      if (verdict == nullptr) {
        row.emplace_back("-");
        continue;
      }
      const GradientWitness& witness = verdict->witness;
      const std::string error = fmt::format("{:.1e}", witness.error);
      row.push_back(witness.holds() ? error : style.red(error));
      if (!witness.holds()) findings += failure_text(result, *verdict, style);
    }
    table.add(std::move(row));
    for (const std::string& warning : result.warnings) {
      findings += style.bold("warning ") + fmt::format("{} {}\n", result.operation, warning);
    }
    passed = passed && result.passed();
  }
  const GradientCheckOptions tolerances;
  return fmt::format(
      "{}\nWorst relative errors; allowed: for differences ten times their own error, from a sweep over steps, "
      "between\n"
      "{:.0e} and {:.0e}; {:.0e} for the others.\n{}{}",
      table.text(style), tolerances.difference_floor, tolerances.difference_cap, tolerances.exact_tolerance, findings,
      passed ? style.green("All witnesses agree.") + "\n" : "");
}

nlohmann::ordered_json json_of(const DifferenceSweep& sweep) {
  nlohmann::ordered_json steps = nlohmann::ordered_json::array();
  for (const DifferenceStep& step : sweep.steps) {
    steps.push_back({{"step", step.step}, {"value", step.value}, {"disagreement", step.disagreement}});
  }
  return steps;
}

nlohmann::ordered_json json_of(const Verdict& verdict) {
  const GradientWitness& witness = verdict.witness;
  nlohmann::ordered_json json{{"name", witness.name},     {"order", witness.order},
                              {"error", witness.error},   {"tolerance", witness.tolerance},
                              {"holds", witness.holds()}, {"worst_case", verdict.variant},
                              {"worst", witness.worst}};
  if (witness.verdict) {
    json["verdict"] = {{"fault", to_string(witness.verdict->fault)}, {"sentence", witness.verdict->sentence}};
  }
  if (witness.sweep) json["steps"] = json_of(*witness.sweep);
  return json;
}

nlohmann::ordered_json json_of(const std::vector<OperationResult>& results) {
  std::map<std::string, OperationSummary> summaries;
  for (const OperationSummary& summary : operation_summaries()) summaries[summary.name] = summary;
  nlohmann::ordered_json operations = nlohmann::ordered_json::array();
  bool passed = true;
  for (const OperationResult& result : results) {
    nlohmann::ordered_json witnesses = nlohmann::ordered_json::array();
    for (const Verdict& verdict : result.verdicts) witnesses.push_back(json_of(verdict));
    passed = passed && result.passed();
    const OperationSummary& summary = summaries.at(result.operation);
    operations.push_back({{"operation", result.operation},
                          {"kind", to_string(summary.kind)},
                          {"formula", summary.formula},
                          {"records", summary.parts},
                          {"saved", summary.saved},
                          {"cases", result.cases},
                          {"passed", result.passed()},
                          {"witnesses", std::move(witnesses)},
                          {"warnings", result.warnings}});
  }
  return {{"passed", passed}, {"operations", std::move(operations)}};
}

class Check final : public Command {
 public:
  std::string name() const override { return "check"; }
  std::string summary() const override { return "every operation's derivative under every witness"; }
  std::string details() const override {
    return "The hand-written vjp of each operation against central differences in float64, its jvp (adjoint), "
           "the same function composed from primitives, and for the norms the closed-form Jacobian. The "
           "derivatives of the derivative are checked the same way up to --order. Exits with 3 if a witness "
           "doesn't agree.";
  }
  void add_flags(Flags& flags) override {
    flags.group("What is checked");
    flags.add("--order", order_, "1|2|3", "the highest derivative", 1);
    flags.add("--operation", operation_, "NAME", "only this one");
    flags.toggle("--page", page_, "print autograd/OPERATIONS.md: every operation with its formula, to third order");
  }

  void run(const Session& session) override {
    expect(order_ <= 3, "--order: expected 1, 2 or 3, got {}", order_);
    expect(!page_ || operation_.empty(), "--page lists all operations: leave --operation away");
    if (page_) order_ = 3;
    const char* const file = page_ ? "OPERATIONS.md" : "check.txt";
    session.expect_free(file);
    const std::vector<OperationResult> results = check_all(session);
    session.show(
        file, [&](const Style& style) { return page_ ? page_of(results) : text_of(results, order_, style); },
        [&] { return json_of(results); });
    for (const OperationResult& result : results) {
      if (!result.passed()) fail(ErrorKind::check, "check: the derivative of {} isn't right", result.operation);
    }
  }

 private:
  std::vector<OperationResult> check_all(const Session& session) const {
    const std::vector<OperationCase> cases = operation_cases(session.common().seed);
    if (!operation_.empty()) expect_known(cases);
    std::vector<OperationResult> results;
    Progress progress =
        session.progress({.what = "checking", .total = static_cast<Index>(cases.size()), .unit = "cases"});
    Index done = 0;
    for (const OperationCase& operation_case : cases) {
      progress.update(++done);
      if (!operation_.empty() && operation_case.operation != operation_) continue;
      result_of(operation_case.operation, results)
          .add(operation_case,
               check_operation(operation_case, {.seed = session.common().seed, .order = static_cast<int>(order_)}));
    }
    progress.finish();
    return results;
  }

  void expect_known(const std::vector<OperationCase>& cases) const {
    std::vector<std::string> names;
    for (const OperationCase& operation_case : cases) names.push_back(operation_case.operation);
    std::string hint = did_you_mean(operation_, names);
    if (hint.empty()) hint = "; `jnorm check` lists them";
    expect(std::find(names.begin(), names.end(), operation_) != names.end(), "--operation: there is none called {}{}",
           in_quotes(operation_), hint);
  }

  static std::string page_of(const std::vector<OperationResult>& results) {
    std::map<std::string, std::set<int>> orders;
    for (const OperationResult& result : results) orders[result.operation] = result.orders();
    return operations_page(orders);
  }

  Index order_ = 2;
  bool page_ = false;
  std::string operation_;
};

}  // namespace

std::unique_ptr<Command> check_command() { return std::make_unique<Check>(); }

}  // namespace jnorm
