#include <jnorm/layers/metrics.hpp>

#include <limits>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <jnorm/core/error.hpp>
#include <jnorm/core/kernels.hpp>

using namespace jnorm;

namespace {

const std::string kLines = "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n";

}  // namespace

TEST_CASE("metrics: a step is one line of JSON whose numbers read back as the same bits") {
  const StepMetrics metrics{.step = 3, .loss = 0.1 + 0.2, .learning_rate = 1e-3, .gradient_norm = 1.0 / 3.0};
  const std::string line = to_json_line(metrics);
  CHECK(line.find('\n') == std::string::npos);
  const auto object = nlohmann::json::parse(line);
  CHECK(object["step"] == 3);
  CHECK(object["loss"].get<double>() == 0.1 + 0.2);
  CHECK(object["gradient_norm"].get<double>() == 1.0 / 3.0);
}

TEST_CASE("metrics: validation figures stand only where the step was evaluated") {
  StepMetrics metrics;
  CHECK_FALSE(nlohmann::json::parse(to_json_line(metrics)).contains("validation_loss"));
  metrics.validation = {.loss = 2.5, .accuracy = 0.25};
  const auto object = nlohmann::json::parse(to_json_line(metrics));
  CHECK(object["validation_loss"] == 2.5);
  CHECK(object["validation_accuracy"] == 0.25);
}

TEST_CASE("metrics: a scaled step has its scale and overflows, and no number for the norm if it was skipped") {
  StepMetrics metrics;
  CHECK_FALSE(nlohmann::json::parse(to_json_line(metrics)).contains("loss_scale"));
  metrics.loss_scaling = {.scale = 0.5, .skipped = true, .overflows = 3};
  metrics.gradient_norm = std::numeric_limits<double>::infinity();
  const auto object = nlohmann::json::parse(to_json_line(metrics));
  CHECK(object["loss_scale"] == 0.5);
  CHECK(object["skipped"] == true);
  CHECK(object["overflows"] == 3);
  CHECK(object["gradient_norm"].is_null());
}

TEST_CASE("metrics: lines after the last step are cut, whole ones and one that was cut off in writing") {
  CHECK(metrics_until(kLines, 2, "m") == "{\"step\":1}\n{\"step\":2}\n");
  CHECK(metrics_until("{\"step\":1}\n{\"st", 1, "m") == "{\"step\":1}\n");
  CHECK(metrics_until(kLines, 0, "m").empty());
}

TEST_CASE("metrics: missing steps are an error that says which are there") {
  CHECK_THROWS_WITH_AS(metrics_until(kLines, 5, "m"), "'m' ends at step 3, but the checkpoint is of step 5", Error);
  CHECK_THROWS_WITH_AS(metrics_until("{\"step\":1}", 1, "m"), "'m' ends at step 0, but the checkpoint is of step 1",
                       Error);
}

TEST_CASE("metrics: a line that isn't its step's object is an error with its number") {
  CHECK_THROWS_WITH_AS(metrics_until("{\"step\":1}\n[]\n", 2, "m"), "'m', line 2: expected an object with \"step\": 2",
                       Error);
  CHECK_THROWS_WITH_AS(metrics_until("{\"step\":2}\n", 1, "m"), "'m', line 1: expected an object with \"step\": 1",
                       Error);
}

TEST_CASE("count_targets: ignored ones don't count") {
  CHECK(count_targets(indices({3}, std::vector<std::int32_t>{0, kIgnoreIndex, 2})) == 2);
}

TEST_CASE("accuracy: the share of targets at which the logits are largest, ignored ones apart") {
  const Tensor logits = tensor({{0, 1, 0}, {2, 1, 0}, {0, 0, 3}, {5, 0, 0}});
  CHECK(accuracy(logits, indices({4}, std::vector<std::int32_t>{1, 1, 2, kIgnoreIndex})) == 2.0 / 3.0);
}

TEST_CASE("accuracy: without targets it is 0") {
  CHECK(accuracy(tensor({{0, 1}}), indices({1}, std::vector<std::int32_t>{kIgnoreIndex})) == 0.0);
}

TEST_CASE("count_tokens: what is read counts, the source too, but not what fills up short sequences") {
  const auto ones_and_zeros = [](std::vector<std::int32_t> values) { return indices({2, 3}, values); };
  const Tensor tokens = ones_and_zeros({5, 5, 5, 5, 5, 5});
  CHECK(count_tokens({.tokens = tokens}) == 6);
  CHECK(count_tokens({.tokens = tokens, .mask = ones_and_zeros({1, 1, 1, 1, 0, 0})}) == 4);
  CHECK(count_tokens({.tokens = tokens, .source = tokens}) == 12);
  CHECK(count_tokens({.tokens = tokens, .source = tokens, .source_mask = ones_and_zeros({1, 0, 0, 1, 1, 0})}) == 9);
}
