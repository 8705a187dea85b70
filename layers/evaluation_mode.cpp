#include <jnorm/layers/evaluation_mode.hpp>

namespace jnorm {

namespace {

void append_modes(Module& module, std::vector<std::pair<Module*, bool>>& modes) {
  modes.emplace_back(&module, module.training());
  for (const auto& child : module.children()) append_modes(*child, modes);
}

}  // namespace

EvaluationMode::EvaluationMode(Module& model) {
  append_modes(model, was_training_);
  model.set_training(false);
}

EvaluationMode::~EvaluationMode() {
  for (const auto& [module, training] : was_training_) module->set_training(training);
}

}  // namespace jnorm
