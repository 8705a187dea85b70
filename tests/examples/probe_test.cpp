#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "examples/child_process.hpp"
#include "examples/refused.hpp"

namespace {

nlohmann::json probe(const std::string& placement) {
  const Finished run = run_jnorm({"probe", "--placement", placement, "--layers", "2", "--dim", "8", "--heads", "2",
                                  "--context", "4", "--json", "--progress", "none"});
  CHECK(run.exit_code == 0);
  CHECK(run.err == "");
  return nlohmann::json::parse(run.out);
}

}  // namespace

TEST_CASE("jnorm probe: the JSON object has what was measured of layers, sublayers and their product") {
  for (const char* placement : {"pre", "post"}) {
    const nlohmann::json report = probe(placement);
    REQUIRE(report["layers"].size() == 2);
    REQUIRE(report["gradient_norms"].size() == 3);
    for (const char* name : {"trace_over_n", "median_sigma", "effective_rank"}) CHECK(report["product"].contains(name));
    for (const auto& layer : report["layers"]) {
      CHECK(layer["sublayers"].size() == 2);
      for (const auto& sublayer : layer["sublayers"]) {
        for (const char* name : {"name", "identity_distance", "sigma_max", "sigma_min", "decomposition_error",
                                 "branch_norm", "norm_sigma_max", "norm_sigma_min"}) {
          CHECK_MESSAGE(sublayer.contains(name), name);
        }
      }
    }
  }
}

TEST_CASE("jnorm probe: the parts make up the whole for both placements") {
  CHECK(probe("pre")["decomposition_error"] < 1e-10);
  CHECK(probe("post")["decomposition_error"] < 1e-10);
}

TEST_CASE("jnorm probe: both placements start with the same weights and differ in their Jacobians") {
  CHECK(probe("pre")["layers"][1]["identity_distance"] != probe("post")["layers"][1]["identity_distance"]);
}

TEST_CASE("jnorm probe: wrong sizes are refused") {
  check_refused({"probe", "--heads", "3"}, "heads: 3 don't divide dim 64");
  check_refused({"probe", "--context", "4", "--tokens", "5"}, "--tokens: the model's context is 4, got 5");
}
