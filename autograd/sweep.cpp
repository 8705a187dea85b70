#include <jnorm/autograd/sweep.hpp>

#include <algorithm>

#include <jnorm/core/expect.hpp>

namespace jnorm {

namespace {

// The i-th of an operation's input names.
std::string_view input_name(const Description& description, std::size_t i) {
  std::string_view names = description.inputs;
  for (; i > 0 && !names.empty(); --i) names.remove_prefix(std::min(names.find(' '), names.size() - 1) + 1);
  return names.substr(0, names.find(' '));
}

void add_to(Tensor& total, Tensor contribution) {
  if (!total.defined()) {
    total = std::move(contribution);
    return;
  }
  if (!total.unique()) total = total.clone();  // somebody else holds it: theirs must not change
  total.device().kernels().accumulate(contribution, 1.0, total);
}

}  // namespace

Sweep::Sweep(Tape& tape, NodeIndex to, std::span<const NodeIndex> sources, const char* what, SourceLine line)
    : tape_(tape), to_(to), what_(what), line_(line) {
  if (tape.idle_sweep_memory_.empty()) {
    memory_ = std::make_unique<Tape::SweepMemory>();
  } else {
    memory_ = std::move(tape.idle_sweep_memory_.back());
    tape.idle_sweep_memory_.pop_back();
  }
  if (!sources.empty()) first_ = std::min(to, *std::min_element(sources.begin(), sources.end()));
  memory_->live.assign(to_ - first_ + 1, 0);
  if (memory_->slots.size() < memory_->live.size()) memory_->slots.resize(memory_->live.size());
  if (sources.empty()) {
    mark_all_that_need_gradients();
  } else {
    mark_between(sources);
  }
  ++tape.sweeps_under_way_;
}

Sweep::~Sweep() {
  --tape_.sweeps_under_way_;
  for (std::size_t i = 0; i < memory_->live.size(); ++i) {
    if (memory_->live[i] != 0) memory_->slots[i] = Tensor();
  }
  tape_.idle_sweep_memory_.push_back(std::move(memory_));
}

void Sweep::mark_all_that_need_gradients() {
  if (!tape_.node(to_).needs_gradient) return;
  flags(to_) = kLive;
  for (NodeIndex i = to_ + 1; i-- > 0;) {
    if (flags(i) == 0) continue;
    const Node& node = tape_.node(i);
    for (std::size_t j = 0; j < node.input_count; ++j) {
      if (tape_.node(node.inputs[j]).needs_gradient) flags(node.inputs[j]) = kLive;
    }
  }
}

void Sweep::mark_between(std::span<const NodeIndex> sources) {
  constexpr std::uint8_t depends = 4;
  for (const NodeIndex source : sources) {
    if (source <= to_) flags(source) = depends | kSource;
  }
  for (NodeIndex i = first_; i <= to_; ++i) {
    const Node& node = tape_.node(i);
    for (std::size_t j = 0; j < node.input_count; ++j) {
      if (node.inputs[j] >= first_ && (flags(node.inputs[j]) & depends) != 0) flags(i) |= depends;
    }
  }
  // Of the nodes that depend on a source, those that lead to `to` are live.
  if ((flags(to_) & depends) != 0) flags(to_) |= kLive;
  for (NodeIndex i = to_ + 1; i-- > first_;) {
    if ((flags(i) & kLive) == 0) {
      flags(i) = 0;
      continue;
    }
    const Node& node = tape_.node(i);
    for (std::size_t j = 0; j < node.input_count; ++j) {
      if (node.inputs[j] >= first_ && (flags(node.inputs[j]) & depends) != 0) flags(node.inputs[j]) |= kLive;
    }
  }
}

void Sweep::check_saved_values() const {
  for (NodeIndex i = to_ + 1; i-- > first_;) {
    if ((flags(i) & kLive) == 0) continue;
    const Node& node = tape_.node(i);
    if (node.freed) {
      fail(ErrorKind::state,
           "{} (at {}): the values of {} were freed by backward at {}; record again, or call backward without "
           "free_values",
           what_, line_, tape_.describe(i), tape_.freed_at_);
    }
    if (node.operation == nullptr || !any_input_live(node)) continue;
    const Description& description = node.operation->description();
    for (std::size_t j = 0; j < node.input_count; ++j) {
      if ((description.saved_inputs >> j & 1u) == 0) continue;
      const Node& input = tape_.node(node.inputs[j]);
      if (input.freed || input.value.version() == node.input_versions[j]) continue;
      fail(ErrorKind::state,
           "{}: {} saved {} at version {}, but {} is now at version {}: it was changed in place at {} before {}; copy "
           "it first, or change it afterwards ({})",
           what_, description.name, input_name(description, j), node.input_versions[j], input_name(description, j),
           input.value.version(), input.value.changed_at(), what_, tape_.place(node));
    }
    if (description.saves_output && node.value.version() != node.output_version) {
      fail(ErrorKind::state,
           "{}: {} saved its output at version {}, but it is now at version {}: it was changed in place at {} before "
           "{}; copy it first ({})",
           what_, description.name, node.output_version, node.value.version(), node.value.changed_at(), what_,
           tape_.place(node));
    }
  }
}

bool Sweep::any_input_live(const Node& node) const {
  for (std::size_t j = 0; j < node.input_count; ++j) {
    if (contains(node.inputs[j])) return true;
  }
  return false;
}

void Sweep::free_node(NodeIndex index) {
  Node& node = tape_.mutable_node(index);
  node.value = Tensor();
  for (std::size_t i = 0; i < node.saved_count; ++i) tape_.saved_[node.first_saved + i] = Tensor();
  node.freed = true;
  tape_.freed_at_ = line_;
}

void Sweep::reverse(Tensor cotangent, Index copies, const std::function<void(NodeIndex, const Tensor&)>& observe,
                    bool free_values) {
  if (!contains(to_)) return;
  add_to(slot(to_), std::move(cotangent));
  for (NodeIndex i = to_ + 1; i-- > first_;) {
    if ((flags(i) & kLive) == 0 || !slot(i).defined()) continue;
    const Node& node = tape_.node(i);
    if (observe) observe(i, slot(i));
    if (node.operation == nullptr) continue;  // a leaf keeps what it got
    const bool stays = (flags(i) & kSource) != 0 || node.gradient_slot != kNone;
    const Tensor dy = stays ? slot(i) : std::move(slot(i));
    if (any_input_live(node)) {
      Pullback back(*this, i, dy, copies);
      node.operation->vjp(back);
      back.finish();
    }
    if (free_values && i != to_) free_node(i);
  }
}

void Sweep::forward(Index copies) {
  for (NodeIndex i = first_; i <= to_; ++i) {
    const Node& node = tape_.node(i);
    if ((flags(i) & kLive) == 0 || (flags(i) & kSource) != 0 || node.operation == nullptr) continue;
    Pushforward push(*this, i, copies);
    node.operation->jvp(push);
    slot(i) = std::move(push.result());
  }
}

void Pullback::give(std::size_t i, Tensor gradient) { add_to(sweep_.slot(node_.inputs[i]), std::move(gradient)); }

Destination Pullback::into(std::size_t i) {
  if (!wants(i)) return {};
  Tensor& slot = stands_before(i) ? aside_[i] : sweep_.slot(node_.inputs[i]);
  if (!slot.defined()) {
    const Tensor& primal = input(i);
    slot = Tensor::uninitialized(shaped(primal.shape()), primal.dtype(), primal.device());
    return {slot, false};
  }
  if (!slot.unique()) slot = slot.clone();
  return {slot, true};
}

bool Pullback::stands_before(std::size_t i) const {
  const auto* const begin = node_.inputs.begin();
  return std::find(begin, begin + i, node_.inputs[i]) != begin + i;
}

void Pullback::finish() {
  for (std::size_t i = 1; i < node_.input_count; ++i) {
    if (aside_[i].defined()) give(i, std::move(aside_[i]));
  }
}

void Pushforward::give(Tensor tangent) { add_to(result_, std::move(tangent)); }

}  // namespace jnorm
