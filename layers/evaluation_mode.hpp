#pragma once

#include <utility>
#include <vector>

#include <jnorm/layers/module.hpp>

namespace jnorm {

// A model in evaluation mode for as long as this lives; then each module is as it was.
class EvaluationMode {
 public:
  explicit EvaluationMode(Module& model);
  ~EvaluationMode();
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  std::vector<std::pair<Module*, bool>> was_training_;  // a module before its children
};

}  // namespace jnorm
