#include <fstream>
#include <iterator>

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "examples/child_process.hpp"
#include "examples/refused.hpp"
#include "temporary_folder.hpp"

TEST_CASE("jnorm check: every operation passes every witness, and the JSON object says so") {
  const Finished run = run_jnorm({"check", "--json", "--progress", "none"});
  CHECK(run.exit_code == 0);
  const auto report = nlohmann::json::parse(run.out);
  CHECK(report["passed"] == true);
  CHECK(report["operations"].size() > 25);
  for (const auto& operation : report["operations"]) {
    CHECK(operation["warnings"].empty());
    for (const auto& witness : operation["witnesses"]) CHECK(witness["error"] <= witness["tolerance"]);
  }
}

TEST_CASE("jnorm check: the norms are also checked against their closed form") {
  const auto report = nlohmann::json::parse(run_jnorm({"check", "--operation", "layer_norm", "--json"}).out);
  const auto& witnesses = report["operations"][0]["witnesses"];
  CHECK(std::any_of(witnesses.begin(), witnesses.end(), [](const auto& w) { return w["name"] == "closed form"; }));
}

TEST_CASE("jnorm check: an unknown operation and an order out of range are refused") {
  check_refused({"check", "--operation", "layernorm"},
                "--operation: there is none called \"layernorm\"; did you mean layer_norm?");
  check_refused({"check", "--operation", "elephant"},
                "--operation: there is none called \"elephant\"; `jnorm check` lists them");
  check_refused({"check", "--order", "4"}, "--order: expected 1, 2 or 3, got 4");
}

TEST_CASE("jnorm check: the committed page of operations is what the code says") {
  const Finished run = run_jnorm({"check", "--page", "--progress", "none"});
  CHECK(run.exit_code == 0);
  std::ifstream committed(JNORM_SOURCE "/autograd/OPERATIONS.md");
  const std::string page{std::istreambuf_iterator<char>(committed), {}};
  CHECK_MESSAGE(run.out == page, "write it again: jnorm check --page > autograd/OPERATIONS.md");
}

TEST_CASE("jnorm check: JSON says of each operation what it computes and saves") {
  const auto report = nlohmann::json::parse(run_jnorm({"check", "--operation", "rms_norm", "--json"}).out);
  const auto& operation = report["operations"][0];
  CHECK(operation["kind"] == "fused");
  CHECK(operation["formula"] == "y = gamma * x / sqrt(mean(x^2) + eps)");
  CHECK(operation["saved"] == nlohmann::json({"x", "gamma", "rstd"}));
}

TEST_CASE("jnorm: a result that exists is refused before anything is computed") {
  const TemporaryFolder folder;
  const auto refuses = [&](const std::vector<std::string>& arguments, const std::string& file) {
    std::ofstream(folder.file(file)) << "mine";
    std::vector<std::string> all = arguments;
    all.insert(all.end(), {"--out", folder.path()});
    // Nothing but the refusal on standard error: no progress was made.
    check_refused(all, "--out: " + folder.file(file) + " exists already; --force replaces it");
  };
  refuses({"check", "--json", "--progress", "lines"}, "check.json");
  refuses({"probe", "--progress", "lines"}, "probe.txt");
  refuses({"graph", "--format", "dot"}, "graph.dot");
}

TEST_CASE("jnorm check: the page is of all operations") {
  check_refused({"check", "--page", "--operation", "exp"}, "--page lists all operations: leave --operation away");
}
