// The README's tables say what the code says.

#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <jnorm/core/files.hpp>
#include <jnorm/layers/architecture.hpp>
#include <jnorm/layers/placement.hpp>

using namespace jnorm;

namespace {

std::string readme() { return read_file(JNORM_SOURCE "/README.md"); }

}  // namespace

TEST_CASE("README: its table has every placement with its formula and source") {
  const std::string page = readme();
  for (const Placement* placement : Placement::all()) {
    const std::string row = fmt::format("| `{}` | {} | {} |\n", placement->name, placement->formula, placement->source);
    CAPTURE(row);
    CHECK(page.find(row) != std::string::npos);
  }
}

TEST_CASE("README: its table has every architecture") {
  const std::string page = readme();
  for (const Architecture architecture : architectures()) {
    CAPTURE(to_string(architecture));
    CHECK(page.find(fmt::format("\n| `{}` | ", to_string(architecture))) != std::string::npos);
  }
}
