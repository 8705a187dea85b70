#include <jnorm/layers/metrics.hpp>

#include <algorithm>

#include <nlohmann/json.hpp>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/kernels.hpp>

namespace jnorm {

namespace {

// The value of "step", or 0 if the line is no object that has one.
Index step_of(std::string_view line) {
  const auto object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object() || !object.contains("step") || !object["step"].is_number_integer()) return 0;
  return object["step"].get<Index>();
}

Index count_where(const Tensor& mask, const Tensor& tokens) {
  if (!tokens.defined()) return 0;
  if (!mask.defined()) return tokens.size();
  const Tensor here = mask.on_host();
  const auto* const counts = here.data<std::int32_t>();
  return std::count(counts, counts + mask.size(), 1);
}

}  // namespace

std::string to_json_line(const StepMetrics& metrics) {
  nlohmann::ordered_json object{{"step", metrics.step},
                                {"loss", metrics.loss},
                                {"learning_rate", metrics.learning_rate},
                                {"gradient_norm", metrics.gradient_norm},
                                {"seconds", metrics.seconds},
                                {"tokens_per_second", metrics.tokens_per_second}};
  if (metrics.loss_scaling) {
    object["loss_scale"] = metrics.loss_scaling->scale;
    object["skipped"] = metrics.loss_scaling->skipped;
    object["overflows"] = metrics.loss_scaling->overflows;
  }
  if (metrics.validation) {
    object["validation_loss"] = metrics.validation->loss;
    object["validation_accuracy"] = metrics.validation->accuracy;
  }
  return object.dump();
}

std::string_view metrics_until(std::string_view lines, Index last_step, std::string_view name_for_errors) {
  std::size_t begin = 0;
  for (Index step = 1; step <= last_step; ++step) {
    const std::size_t end = lines.find('\n', begin);
    if (end == std::string_view::npos) {
      fail(ErrorKind::file, "'{}' ends at step {}, but the checkpoint is of step {}", name_for_errors, step - 1,
           last_step);
    }
    if (step_of(lines.substr(begin, end - begin)) != step) {
      fail(ErrorKind::file, "'{}', line {}: expected an object with \"step\": {}", name_for_errors, step, step);
    }
    begin = end + 1;
  }
  return lines.substr(0, begin);
}

Index count_tokens(const ModelInput& input) {
  return count_where(input.mask, input.tokens) + count_where(input.source_mask, input.source);
}

Index count_targets(const Tensor& targets) {
  const Tensor here = targets.on_host();
  const auto* const target = here.data<std::int32_t>();
  return targets.size() - std::count(target, target + targets.size(), kIgnoreIndex);
}

double accuracy(const Tensor& logits, const Tensor& targets) {
  expect(targets.shape().rank() + 1 == logits.rank() && targets.size() == logits.rows(),
         "accuracy: expected logits of one more axis than targets, got {} and {}", logits.shape(), targets.shape());
  const Tensor targets_here = targets.on_host();
  const auto* target = targets_here.data<std::int32_t>();
  const Index classes = logits.row_length();
  Index right = 0;
  const Tensor wide = (logits.dtype() == DType::float64 ? logits : logits.to(DType::float32)).on_host();
  dispatch_wide("accuracy", wide.dtype(), [&](auto tag) {
    const auto* row = wide.data<typename decltype(tag)::type>();
    for (Index i = 0; i < targets.size(); ++i, row += classes) {
      if (target[i] == kIgnoreIndex) continue;
      right += std::max_element(row, row + classes) - row == target[i] ? 1 : 0;
    }
  });
  const Index counted = count_targets(targets);
  return counted == 0 ? 0.0 : static_cast<double>(right) / static_cast<double>(counted);
}

}  // namespace jnorm
