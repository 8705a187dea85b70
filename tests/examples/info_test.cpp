#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include <jnorm/core/openblas.hpp>

#include "examples/child_process.hpp"

using namespace jnorm;

TEST_CASE("jnorm info: one fact a line, the BLAS kernels that run among them") {
  const Finished run = run_jnorm({"info"});
  CHECK(run.exit_code == 0);
  CHECK(run.err == "");
  CHECK(run.out.find("\nBLAS       " + blas_description() + "\n") != std::string::npos);
  CHECK(run.out.find("\ndevices    cpu (no cuda: this build has no CUDA)\n") != std::string::npos);
}

TEST_CASE("jnorm info --json: one object with the same facts") {
  const Finished run = run_jnorm({"info", "--json", "--threads", "1"});
  CHECK(run.exit_code == 0);
  const nlohmann::json facts = nlohmann::json::parse(run.out);
  CHECK(facts["threads"] == 1);
  CHECK(facts["blas"]["kernels"] == blas_core_name());
  CHECK(facts["devices"][0]["available"] == true);
  CHECK(facts["devices"][1]["reason"] == "this build has no CUDA");
  CHECK(facts["dtypes"][1]["name"] == "float32");
  CHECK(facts["dtypes"][1]["epsilon"] == 1.1920928955078125e-07);
  CHECK(facts["dtypes"][1]["computes"] == true);
}
