#include <jnorm/layers/optimizer.hpp>

#include <algorithm>
#include <cmath>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/kernels.hpp>

namespace jnorm {

namespace {

void expect_rate(const char* optimizer, const char* option, double value) {
  expect(value >= 0.0 && std::isfinite(value), "{}: {} must be finite and not negative, but is {}", optimizer, option,
         value);
}

// A decay of what is remembered: at 1 or more it would grow without bound.
void expect_decay(const char* optimizer, const char* option, double value) {
  expect(value >= 0.0 && value < 1.0, "{}: {} must be in [0, 1), but is {}", optimizer, option, value);
}

// In a narrow dtype they would lose what a step adds to them.
Tensor moments_of(const Tensor& x) { return zeros(x.shape(), statistics_dtype(x.dtype()), x.device()); }

Tensor step_count(Index steps) {
  Tensor count = Tensor::uninitialized({}, DType::int32);
  *count.output_data<std::int32_t>() = static_cast<std::int32_t>(steps);
  return count;
}

}  // namespace

Optimizer::Optimizer(std::span<Parameter* const> parameters, std::span<const ParameterGroup> groups,
                     double learning_rate, int moments) {
  set_learning_rate(learning_rate);
  for (Parameter* parameter : parameters) {
    expect(parameter != nullptr, "optimizer: got a null pointer for a parameter");
    const auto is_known = [&](const Slot& slot) { return slot.parameter == parameter; };
    if (std::any_of(slots_.begin(), slots_.end(), is_known)) continue;
    Slot slot{.parameter = parameter, .first_moment = {}, .second_moment = {}};
    if (moments > 0) slot.first_moment = moments_of(parameter->value());
    if (moments > 1) slot.second_moment = moments_of(parameter->value());
    slots_.push_back(std::move(slot));
  }
  for (const ParameterGroup& group : groups) apply(group, parameters);
}

void Optimizer::apply(const ParameterGroup& group, std::span<Parameter* const> parameters) {
  const std::string name = fmt::format("optimizer: the group {}", in_quotes(group.pattern));
  expect_rate(name.c_str(), "learning_rate_scale", group.learning_rate_scale.value_or(1.0));
  expect_rate(name.c_str(), "weight_decay", group.weight_decay.value_or(0.0));
  const std::vector<Parameter*> members = parameters_that_fit("optimizer", group.pattern, parameters);
  for (Slot& slot : slots_) {
    if (std::find(members.begin(), members.end(), slot.parameter) == members.end()) continue;
    slot.learning_rate_scale = group.learning_rate_scale.value_or(slot.learning_rate_scale);
    if (group.weight_decay) slot.weight_decay = group.weight_decay;
  }
}

void Optimizer::step() {
  std::vector<Slot*> stepped;
  for (Slot& slot : slots_) {
    if (!slot.parameter->has_gradient()) continue;
    expect_same_dtype(slot);
    stepped.push_back(&slot);
  }
  for (Slot* slot : stepped) ++slot->steps;
  if (!stepped.empty()) update(stepped);
  skip_step();
}

void Optimizer::skip_step() {
  for (const Slot& slot : slots_) slot.parameter->clear_gradient();
}

void Optimizer::expect_same_dtype(const Slot& slot) {
  if (!slot.first_moment.defined()) return;
  const DType dtype = slot.parameter->value().dtype();
  expect(statistics_dtype(dtype) == slot.first_moment.dtype(),
         "optimizer: {} is {}, but was {} when the optimizer was made; convert the model before",
         slot.parameter->path(), dtype, slot.first_moment.dtype());
}

void Optimizer::set_learning_rate(double learning_rate) {
  expect_rate("optimizer", "the learning rate", learning_rate);
  learning_rate_ = learning_rate;
}

NamedTensors Optimizer::state() const {
  NamedTensors state;
  for (const Slot& slot : slots_) {
    const std::string& path = slot.parameter->path();
    if (slot.first_moment.defined()) state.emplace_back(path + ".first_moment", host_copy(slot.first_moment));
    if (slot.second_moment.defined()) state.emplace_back(path + ".second_moment", host_copy(slot.second_moment));
    state.emplace_back(path + ".steps", step_count(slot.steps));
  }
  return state;
}

void Optimizer::load_state(const NamedTensors& given) {
  const std::vector<Tensor> loaded = match_state("optimizer", state(), given);
  auto next = loaded.begin();
  for (Slot& slot : slots_) {
    const Device device = slot.parameter->value().device();
    if (slot.first_moment.defined()) slot.first_moment = (next++)->to(device);
    if (slot.second_moment.defined()) slot.second_moment = (next++)->to(device);
    slot.steps = *(next++)->data<std::int32_t>();
  }
}

Sgd::Sgd(std::span<Parameter* const> parameters, const SgdOptions& options)
    : Optimizer(parameters, options.groups, options.learning_rate, options.momentum == 0.0 ? 0 : 1), options_(options) {
  expect_decay("sgd", "momentum", options.momentum);
  expect_rate("sgd", "weight_decay", options.weight_decay);
}

void Sgd::update(std::span<Slot* const> slots) {
  std::vector<SgdUpdate> updates;
  updates.reserve(slots.size());
  for (const Slot* slot : slots) {
    updates.push_back({.step = {.learning_rate = learning_rate_of(*slot),
                                .momentum = options_.momentum,
                                .weight_decay = slot->weight_decay.value_or(options_.weight_decay)},
                       .gradient = slot->parameter->gradient(),
                       .parameter = slot->parameter->value(),
                       .velocity = slot->first_moment});
  }
  updates.front().parameter.device().kernels().sgd(updates);
}

Adam::Adam(std::span<Parameter* const> parameters, const AdamOptions& options)
    : Adam("adam", parameters, options, WeightDecay{}) {}

Adam::Adam(const char* name, std::span<Parameter* const> parameters, const AdamOptions& options, WeightDecay decay)
    : Optimizer(parameters, options.groups, options.learning_rate, 2), options_(options), decay_(decay) {
  expect_decay(name, "beta1", options.beta1);
  expect_decay(name, "beta2", options.beta2);
  expect_rate(name, "weight_decay", options.weight_decay);
  expect(options.eps > 0.0 && std::isfinite(options.eps), "{}: eps must be positive and finite, but is {}", name,
         options.eps);
}

AdamStep Adam::step_of(const Slot& slot) const {
  const auto t = static_cast<double>(slot.steps);
  const bool decays = decay_.vectors || slot.parameter->value().rank() > 1;
  return {.learning_rate = learning_rate_of(slot),
          .beta1 = options_.beta1,
          .beta2 = options_.beta2,
          .eps = options_.eps,
          .weight_decay = slot.weight_decay.value_or(decays ? options_.weight_decay : 0.0),
          .bias_correction1 = 1.0 - std::pow(options_.beta1, t),
          .bias_correction2 = 1.0 - std::pow(options_.beta2, t),
          .coupled = !decay_.decoupled};
}

void Adam::update(std::span<Slot* const> slots) {
  std::vector<AdamUpdate> updates;
  updates.reserve(slots.size());
  for (const Slot* slot : slots) {
    updates.push_back({.step = step_of(*slot),
                       .gradient = slot->parameter->gradient(),
                       .parameter = slot->parameter->value(),
                       .m = slot->first_moment,
                       .v = slot->second_moment});
  }
  updates.front().parameter.device().kernels().adam(updates);
}

AdamW::AdamW(std::span<Parameter* const> parameters, const AdamWOptions& options)
    : Adam("adamw", parameters,
           AdamOptions{.learning_rate = options.learning_rate,
                       .beta1 = options.beta1,
                       .beta2 = options.beta2,
                       .eps = options.eps,
                       .weight_decay = options.weight_decay,
                       .groups = options.groups},
           WeightDecay{.decoupled = true, .vectors = options.decay_vectors}) {}

}  // namespace jnorm
