#include <jnorm/autograd/sweep.hpp>

#include <algorithm>
#include <mutex>

#include <jnorm/autograd/recompute.hpp>
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

// The cotangents [K, own, length] with zeros in the other rows of `rows`.
Tensor widened(Tensor cotangents, RowRange own, RowRange rows, Index length) {
  if (own == rows) return cotangents;
  const Index copies = cotangents.dim(0);
  Tensor wide = zeros({copies, rows.count(), length}, cotangents.dtype(), cotangents.device());
  wide.device().kernels().copy_block(cotangents,
                                     {.count = copies,
                                      .length = own.count() * length,
                                      .from_stride = own.count() * length,
                                      .to = (own.begin - rows.begin) * length,
                                      .to_stride = rows.count() * length},
                                     wide);
  return wide;
}

// Where a device fails, the error says in which node's derivative.
template <class Compute>
void in_derivative_of(const Tape& tape, NodeIndex i, const Compute& compute) {
  try {
    compute();
  } catch (const DeviceFailure& failure) {
    fail(failure.kind(), "{}, in the derivative of {}", failure.what(), tape.describe(i));
  }
}

}  // namespace

Sweep::Sweep(Tape& tape, NodeIndex to, std::span<const NodeIndex> sources, const char* what, SourceLine line)
    : tape_(tape), to_(to), what_(what), line_(line) {
  memory_ = tape.begin_sweep();
  if (!sources.empty()) first_ = std::min(to, *std::min_element(sources.begin(), sources.end()));
  memory_->live.assign(to_ - first_ + 1, 0);
  if (memory_->slots.size() < memory_->live.size()) memory_->slots.resize(memory_->live.size());
  if (sources.empty()) {
    mark_all_that_need_gradients();
  } else {
    mark_between(sources);
  }
}

Sweep::~Sweep() {
  for (std::size_t i = 0; i < memory_->live.size(); ++i) {
    if (memory_->live[i] != 0) memory_->slots[i] = Tensor();
  }
  tape_.end_sweep(std::move(memory_));
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
  // Another thread's sweep may be bringing values back.
  std::unique_lock lock(tape_.recomputed_parts_mutex_, std::defer_lock);
  if (!tape_.recomputed_parts_.empty()) lock.lock();
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
      if (!input.value.defined() || input.value.version() == node.input_versions[j]) continue;
      fail(ErrorKind::state,
           "{}: {} saved {} at version {}, but {} is now at version {}: it was changed in place at {} before {}; copy "
           "it first, or change it afterwards ({})",
           what_, description.name, input_name(description, j), node.input_versions[j], input_name(description, j),
           input.value.version(), input.value.changed_at(), what_, tape_.place(node));
    }
    if (description.saves_output && node.value.defined() && node.value.version() != node.output_version) {
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
  tape_.held_bytes_ -= tape_.bytes_of(node);
  node.value = Tensor();
  for (std::size_t i = 0; i < node.saved_count; ++i) tape_.saved_[node.first_saved + i] = Tensor();
  node.freed = true;
  tape_.freed_at_ = line_;
}

void Sweep::reverse(Tensor cotangent, Index copies, const SweepOptions& options) {
  if (!contains(to_)) return;
  RecomputedParts parts(tape_);
  add_to(slot(to_), std::move(cotangent));
  slot_bytes_ = slot(to_).bytes();
  for (NodeIndex i = to_ + 1; i-- > first_;) {
    if ((flags(i) & kLive) == 0 || !slot(i).defined()) continue;
    const Node& node = tape_.node(i);
    if (options.adds_to_leaves) complete_gradient(i);
    if (options.observe) options.observe(i, slot(i));
    if (node.operation == nullptr) continue;  // a leaf keeps what it got
    parts.bring_back_only(i);
    const bool stays = (flags(i) & kSource) != 0 || node.gradient_slot != kNone;
    const Tensor dy = stays ? slot(i) : std::move(slot(i));
    if (any_input_live(node)) {
      Pullback back(*this, i, dy, copies);
      in_derivative_of(tape_, i, [&] { node.operation->vjp(back); });
      back.finish();
    }
    if (!stays) slot_bytes_ -= dy.bytes();
    if (options.adds_to_leaves) tape_.note_peak(slot_bytes_ + dy.bytes());
    if (options.free_values && i != to_) free_node(i);
  }
}

void Sweep::complete_gradient(NodeIndex i) {
  if (tape_.node(i).hooked) slot(i) = tape_.hooked_gradient(i, std::move(slot(i)));
  if (!tape_.traces_non_finite_) return;
  Index element = -1;
  slot(i).device().kernels().first_non_finite(slot(i), element);
  if (element >= 0) tape_.fail_non_finite_gradient(i, to_, slot(i));
}

void Sweep::reverse_rows(Tensor cotangents, RowRange rows) {
  if (!contains(to_)) return;
  if (memory_->rows.size() < memory_->live.size()) memory_->rows.resize(memory_->live.size());
  const Index copies = cotangents.dim(0);
  add_rows(to_, rows, std::move(cotangents));
  for (NodeIndex i = to_ + 1; i-- > first_;) {
    if ((flags(i) & kLive) == 0 || !slot(i).defined()) continue;
    const Node& node = tape_.node(i);
    if (node.operation == nullptr || !any_input_live(node)) continue;
    const RowRange live = this->rows(i);
    const RowWindows windows(tape_, node, live);
    const bool stays = (flags(i) & kSource) != 0;
    Tensor dy = widened(stays ? slot(i) : std::move(slot(i)), live, windows.output_rows(), node.value.row_length());
    dy = dy.reshape(windows.output_shape().with_leading(copies));
    Pullback back(*this, i, dy, copies, &windows);
    in_derivative_of(tape_, i, [&] { node.operation->vjp(back); });
    back.finish();
  }
}

void Sweep::add_rows(NodeIndex index, RowRange rows, Tensor cotangents) {
  Tensor& total = slot(index);
  RowRange& total_rows = this->rows(index);
  if (!total.defined()) {
    total = std::move(cotangents);
    total_rows = rows;
    return;
  }
  const RowRange both = hull(total_rows, rows);
  if (rows == both && total_rows != both) {  // the fewer rows are added to the more
    std::swap(total, cotangents);
    std::swap(total_rows, rows);
  }
  const Index length = tape_.node(index).value.row_length();
  total = widened(std::move(total), total_rows, both, length);
  total_rows = both;
  if (rows == both) return add_to(total, std::move(cotangents));
  if (!total.unique()) total = total.clone();
  total.device().kernels().copy_block(cotangents,
                                      {.count = cotangents.dim(0),
                                       .length = rows.count() * length,
                                       .from_stride = rows.count() * length,
                                       .to = (rows.begin - both.begin) * length,
                                       .to_stride = both.count() * length,
                                       .add = true},
                                      total);
}

void Sweep::forward(Index copies) {
  for (NodeIndex i = first_; i <= to_; ++i) {
    const Node& node = tape_.node(i);
    if ((flags(i) & kLive) == 0 || (flags(i) & kSource) != 0 || node.operation == nullptr) continue;
    Pushforward push(*this, i, copies);
    in_derivative_of(tape_, i, [&] { node.operation->jvp(push); });
    slot(i) = std::move(push.result());
  }
}

void Pullback::give(std::size_t i, Tensor gradient) {
  const NodeIndex input = node_.inputs[i];
  if (windows_ != nullptr) return sweep_.add_rows(input, windows_->input_rows(i), std::move(gradient));
  Tensor& slot = sweep_.slot(input);
  if (!slot.defined()) sweep_.note_new_slot(gradient);
  add_to(slot, std::move(gradient));
}

Destination Pullback::into(std::size_t i) {
  if (!wants(i)) return {};
  const bool aside = stands_before(i) || (windows_ != nullptr && holds_other_rows(i));
  Tensor& slot = aside ? aside_[i] : sweep_.slot(node_.inputs[i]);
  if (!slot.defined()) {
    const Tensor& primal = input(i);
    slot = Tensor::uninitialized(shaped(primal.shape()), primal.dtype(), primal.device());
    if (windows_ != nullptr && !aside) sweep_.rows(node_.inputs[i]) = windows_->input_rows(i);
    if (!aside) sweep_.note_new_slot(slot);
    return {slot, false};
  }
  if (!slot.unique()) slot = slot.clone();
  return {windows_ == nullptr ? slot : slot.reshape(shaped(input(i).shape())), true};
}

bool Pullback::holds_other_rows(std::size_t i) const {
  const NodeIndex input = node_.inputs[i];
  return sweep_.slot(input).defined() && sweep_.rows(input) != windows_->input_rows(i);
}

bool Pullback::stands_before(std::size_t i) const {
  const auto* const begin = node_.inputs.begin();
  return std::find(begin, begin + i, node_.inputs[i]) != begin + i;
}

void Pullback::finish() {
  for (std::size_t i = 0; i < node_.input_count; ++i) {
    if (aside_[i].defined()) give(i, std::move(aside_[i]));
  }
}

void Pushforward::give(Tensor tangent) { add_to(result_, std::move(tangent)); }

}  // namespace jnorm
