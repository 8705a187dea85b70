#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "examples/child_process.hpp"

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

const std::vector<std::string> kKnownRow = {"--x", "1,2,3,4", "--gamma", "2,1,1,1", "--dy", "1,1,0,0", "--eps", "0"};

Finished run_lesson(const std::string& name, const std::vector<std::string>& options = {}) {
  std::vector<std::string> arguments = {"lesson", name};
  arguments.insert(arguments.end(), options.begin(), options.end());
  return run_jnorm(arguments);
}

std::vector<double> value_of(const nlohmann::json& steps, const std::string& symbol) {
  for (const auto& step : steps) {
    if (step["symbol"] == symbol) return step["value"].get<std::vector<double>>();
  }
  return {};
}

}  // namespace

TEST_CASE("jnorm lesson: without a name it lists the lessons") {
  const Finished run = run_jnorm({"lesson"});
  CHECK(run.exit_code == 0);
  CHECK(contains(run.out, "\nlayer_norm  LayerNorm's backward: three paths  autograd/ops/layer_norm.md\n"));
  CHECK(contains(run.out, "\nrms_norm "));
  CHECK(nlohmann::json::parse(run_jnorm({"lesson", "--json"}).out)["lessons"].size() == 2);
}

TEST_CASE("jnorm lesson layer_norm: each path with its tag, formula and numbers, and their sum") {
  const Finished run = run_lesson("layer_norm", kKnownRow);
  CHECK(run.exit_code == 0);
  CHECK(run.err == "");
  for (const char* const part : {
           "  [LN.1]   s = sqrt(variance + eps) = 1.1180\n",
           "  [LN.2]   mean(u x_hat) = -0.7826\n",
           "  [LN.2c]   through the variance  - x_hat mean(u x_hat) / s\n",
           "  [LN.2a]     1.7889    0.8944    0.0000    0.0000\n",
           "  [LN.2b]    -0.6708   -0.6708   -0.6708   -0.6708\n",
           "  [LN.2c]    -0.9391   -0.3130    0.3130    0.9391\n",
           "  dx          0.1789   -0.0894   -0.3578    0.2683\n",
           "  ✓ the paths add up to the tape's own dx",
           "  ✓ and to J^T dy with the closed-form Jacobian [LN.5]",
           "  ✓ and to central differences",
       }) {
    CHECK_MESSAGE(contains(run.out, part), part);
  }
  CHECK_FALSE(contains(run.out, "✗"));
}

TEST_CASE("jnorm lesson rms_norm: the known row") {
  const Finished run = run_lesson("rms_norm", kKnownRow);
  CHECK(run.exit_code == 0);
  CHECK(contains(run.out, "  dx          0.6816    0.2678   -0.1461   -0.1947\n"));
}

TEST_CASE("jnorm lesson --json: one object with every step and check") {
  std::vector<std::string> options = kKnownRow;
  options.emplace_back("--json");
  const Finished run = run_lesson("layer_norm", options);
  CHECK(run.exit_code == 0);
  const nlohmann::json lesson = nlohmann::json::parse(run.out);
  CHECK(lesson["x"] == std::vector<double>{1, 2, 3, 4});
  CHECK(value_of(lesson["cotangent"], "u") == std::vector<double>{2, 1, 0, 0});
  CHECK(lesson["paths"].size() == 3);
  CHECK(lesson["paths"][2]["tag"] == "[LN.2c]");
  CHECK(value_of(lesson["gradients"], "dx").at(3) == doctest::Approx(0.26832815729997).epsilon(1e-12));
  for (const auto& check : lesson["checks"]) CHECK(check["holds"] == true);
  CHECK(lesson["checks"][0]["tolerance"] == 1e-12);
}

TEST_CASE("jnorm lesson: random rows follow from the seed, of any width, and hold too") {
  CHECK(run_lesson("layer_norm", {"--seed", "2"}).out == run_lesson("layer_norm", {"--seed", "2"}).out);
  CHECK(run_lesson("layer_norm", {"--seed", "2"}).out != run_lesson("layer_norm", {"--seed", "3"}).out);
  for (const char* const width : {"1", "2", "64"}) {
    CHECK(run_lesson("layer_norm", {"--width", width}).exit_code == 0);
    CHECK(run_lesson("rms_norm", {"--width", width}).exit_code == 0);
  }
  CHECK(contains(run_lesson("layer_norm", {"--width", "64"}).out, "(the first 8 of 64; --json prints all)\n"));
}

TEST_CASE("jnorm lesson: rows that are hard for a norm still hold") {
  for (const char* const row : {"1e6,1000001,1000002", "5,5,5", "0,0", "1e-9,2e-9,-1e-9", "1e8,-1e8,3"}) {
    CHECK_MESSAGE(run_lesson("layer_norm", {"--x", row}).exit_code == 0, row);
    CHECK_MESSAGE(run_lesson("rms_norm", {"--x", row}).exit_code == 0, row);
  }
}

TEST_CASE("jnorm lesson: wrong input is refused in one line") {
  const auto check_refused = [](const std::vector<std::string>& options, const std::string& message) {
    const Finished run = run_lesson("layer_norm", options);
    CHECK(run.exit_code == 2);
    CHECK(run.out == "");
    CHECK(run.err == "jnorm: " + message + "\n");
  };
  check_refused({"--x", "1,2", "--gamma", "1,2,3"}, "--gamma: expected 2 numbers, as the row has, got 3");
  check_refused({"--x", "1,2", "--width", "3"}, "--width: 3 were asked for, but 2 numbers given");
  check_refused({"--width", "0"}, "--width: expected at least 1, got 0");
  check_refused({"--x", "1,nan"}, "--x: expected finite numbers, got nan");
  check_refused({"--x", "1,x"}, "--x: expected numbers separated by commas, got \"1,x\"");
  check_refused({"--eps", "-1"}, "layer_norm: eps must not be negative, but is -1");
  check_refused({"--x", "1,1", "--eps", "0"},
                "layer_norm: s is 0 with all numbers of x equal and eps = 0, and there is no derivative");
  check_refused({"--dtype", "float32"}, "--dtype: a lesson computes in float64");
  CHECK(run_lesson("layernorm").err ==
        "jnorm: lesson: expected one of layer_norm, rms_norm, got \"layernorm\"; did you mean layer_norm?\n");
}
