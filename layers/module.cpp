#include <jnorm/layers/module.hpp>

#include <algorithm>

#include <jnorm/autograd/ops/dtype.hpp>
#include <jnorm/autograd/tape.hpp>
#include <jnorm/core/expect.hpp>

namespace jnorm {

std::vector<std::pair<std::string, Parameter*>> Module::named_parameters() const {
  const std::size_t prefix = path_.empty() ? 0 : path_.size() + 1;
  std::vector<std::pair<std::string, Parameter*>> named;
  for (Parameter* parameter : parameters_) named.emplace_back(parameter->path().substr(prefix), parameter);
  return named;
}

Index Module::parameter_count() const {
  Index count = 0;
  for (const Parameter* parameter : parameters_) count += parameter->value().size();
  return count;
}

NamedTensors Module::state() const {
  const std::size_t prefix = path_.empty() ? 0 : path_.size() + 1;
  NamedTensors state;
  for (const auto& [name, parameter] : named_parameters()) state.emplace_back(name, host_copy(parameter->value()));
  for (const Buffer* buffer : buffers_) state.emplace_back(buffer->path.substr(prefix), host_copy(buffer->value));
  return state;
}

void Module::load_state(const NamedTensors& state) {
  std::vector<Tensor> values = match_state("load_state", this->state(), state);
  const Device here = device();
  auto next = values.begin();
  for (Parameter* parameter : parameters_) parameter->set_value((next++)->to(here));
  for (Buffer* buffer : buffers_) buffer->value = (next++)->to(here);
}

void Module::set_training(bool training) {
  training_ = training;
  for (const auto& child : children_) child->set_training(training);
}

void Module::start_random(const Rng& rng) {
  for (const auto& child : children_) child->start_random(rng.split(child->name()));
}

void Module::to(DType dtype) {
  expect(dtype != DType::int32, "to: parameters are real numbers, so they can't be int32");
  for (Parameter* parameter : parameters_) {
    parameter->set_value(parameter->value().to(dtype));
    parameter->clear_gradient();
  }
  for (Buffer* buffer : buffers_) buffer->value = buffer->value.to(statistics_dtype(dtype));
}

void Module::to(Device device) {
  for (Parameter* parameter : parameters_) {
    parameter->set_value(parameter->value().to(device));
    parameter->clear_gradient();
  }
  for (Buffer* buffer : buffers_) buffer->value = buffer->value.to(device);
}

Device Module::device() const { return parameters_.empty() ? Device::cpu() : parameters_.front()->value().device(); }

Parameter& Module::add_parameter(std::string name, Tensor value) {
  expect_addable(name);
  if (!value.unique()) value = value.clone();  // training changes a parameter in place, and nobody else's tensor
  own_parameters_.push_back(std::make_unique<Parameter>(std::move(name), std::move(value)));
  parameters_.push_back(own_parameters_.back().get());
  return *parameters_.back();
}

Buffer& Module::add_buffer(std::string name, Tensor value) {
  expect_addable(name);
  own_buffers_.push_back(std::make_unique<Buffer>(Buffer{.name = name, .path = name, .value = value.clone()}));
  buffers_.push_back(own_buffers_.back().get());
  return *buffers_.back();
}

void Module::adopt(const std::string& name, std::unique_ptr<Module> child) {
  expect_addable(name);
  expect(child != nullptr, "module: the child '{}' is null", name);
  child->prepend_to_paths(name);
  child->name_ = name;
  parameters_.insert(parameters_.end(), child->parameters_.begin(), child->parameters_.end());
  buffers_.insert(buffers_.end(), child->buffers_.begin(), child->buffers_.end());
  children_.push_back(std::move(child));
}

void Module::expect_addable(const std::string& name) const {
  expect(!name.empty() && name.find('.') == std::string::npos, "module: a name must have letters and no dot, got '{}'",
         name);
  const auto has_name = [&](const auto& part) { return part->name() == name; };
  const bool taken =
      std::any_of(own_parameters_.begin(), own_parameters_.end(), has_name) ||
      std::any_of(own_buffers_.begin(), own_buffers_.end(), [&](const auto& b) { return b->name == name; }) ||
      std::any_of(children_.begin(), children_.end(), has_name);
  expect(!taken, "module: the name '{}' is taken; names of parameters, buffers and children must differ", name);
  if (!path_.empty()) {  // its parent would not learn of it
    fail(ErrorKind::state, "module {}: '{}' was added after the module became part of another; add it before", path_,
         name);
  }
}

void Module::prepend_to_paths(std::string_view parent) {
  path_ = path_.empty() ? std::string(parent) : fmt::format("{}.{}", parent, path_);
  for (const auto& parameter : own_parameters_) parameter->prepend_to_path(parent);
  for (const auto& buffer : own_buffers_) buffer->path = fmt::format("{}.{}", parent, buffer->path);
  for (const auto& child : children_) child->prepend_to_paths(parent);
}

Var Layer::operator()(const Var& x, const Pass& pass, SourceLine line) {
  if (name().empty()) return forward(x, pass, line);  // the outermost module has no name of its own
  ModuleScope scope(x.tape(), name());
  try {
    return scope.report(x, forward(x, pass, line));
  } catch (const DeviceFailure& failure) {
    fail(failure.kind(), "{} ({})", failure.what(), x.tape().path_name(x.tape().current_path()));
  }
}

Var parameter_for(const Var& x, Parameter& parameter, SourceLine line) {
  return to(x.tape().parameter(parameter, line), x.dtype(), line);
}

void Sequence::append(std::unique_ptr<Layer> layer) {
  layers_.push_back(&add(std::to_string(layers_.size()), std::move(layer)));
}

Layer& Sequence::operator[](Index index) const {
  expect(index >= 0 && index < size(), "sequence: it has {} layers, so there is no layer {}", size(), index);
  return *layers_[static_cast<std::size_t>(index)];
}

Var Sequence::forward(const Var& x, const Pass& pass, SourceLine line) {
  Var y = x;
  for (Layer* layer : layers_) y = (*layer)(y, pass, line);
  return y;
}

}  // namespace jnorm
