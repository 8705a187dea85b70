#pragma once

// What an operation sees of a sweep: the cotangent or the tangents on one side, the recorded values on the other.

#include <functional>
#include <span>
#include <vector>

#include <jnorm/autograd/row_windows.hpp>
#include <jnorm/autograd/tape.hpp>

namespace jnorm {

struct SweepOptions {
  // Called for each node whose cotangent is complete.
  std::function<void(NodeIndex, const Tensor&)> observe = {};
  bool free_values = false;
  // It is backward(), which hooks and the tracing of non-finite values belong to, and not a measurement.
  bool adds_to_leaves = false;
};

// The part of a tape that a sweep visits: the nodes that lead from the sources to `to`. Without sources: all that need
// a gradient. Holds one slot a node for the cotangents or tangents; slots live here and not in the nodes, so that
// several sweeps can share a tape, in several threads too.
class Sweep {
 public:
  Sweep(Tape& tape, NodeIndex to, std::span<const NodeIndex> sources, const char* what, SourceLine line);
  ~Sweep();
  Sweep(const Sweep&) = delete;
  Sweep& operator=(const Sweep&) = delete;

  Tape& tape() const { return tape_; }
  NodeIndex first() const { return first_; }  // no node before it is visited
  NodeIndex to() const { return to_; }
  bool contains(NodeIndex index) const { return index >= first_ && index <= to_ && (flags(index) & kLive) != 0; }
  Tensor& slot(NodeIndex index) { return memory_->slots[index - first_]; }

  // Throws Error(state) if a value that a derivative on the way reads was changed in place or freed.
  void check_saved_values() const;

  // Carries the cotangent of `to` backwards. A leaf's, a source's and a retained node's stays in its slot.
  void reverse(Tensor cotangent, Index copies, const SweepOptions& options = {});
  // The same for cotangents that are zero outside of some rows, [K, rows, H], of which only the live rows are carried.
  // Afterwards a source's slot holds the rows that rows() says; its gradient is zero in the others.
  void reverse_rows(Tensor cotangents, RowRange rows);
  RowRange& rows(NodeIndex index) { return memory_->rows[index - first_]; }
  // Adds to a slot that may hold other rows.
  void add_rows(NodeIndex index, RowRange rows, Tensor cotangents);
  // Counts what a slot holds that was empty, for the tape's peak.
  void note_new_slot(const Tensor& gradient) { slot_bytes_ += gradient.bytes(); }
  // Carries the tangents that the caller put into slots forwards, up to `to`'s slot.
  void forward(Index copies);

 private:
  static constexpr std::uint8_t kLive = 1, kSource = 2;

  std::uint8_t& flags(NodeIndex index) const { return memory_->live[index - first_]; }
  void mark_all_that_need_gradients();
  void mark_between(std::span<const NodeIndex> sources);
  bool any_input_live(const Node& node) const;
  void free_node(NodeIndex index);
  void complete_gradient(NodeIndex i);

  Tape& tape_;
  NodeIndex first_ = 0;
  NodeIndex to_;
  const char* what_;
  SourceLine line_;
  Index slot_bytes_ = 0;
  std::unique_ptr<Tape::SweepMemory> memory_;
};

// One operation's part of a reverse sweep.
class Pullback {
 public:
  // With windows, the recorded values are cut to the rows of the cotangent.
  Pullback(Sweep& sweep, NodeIndex index, const Tensor& cotangent, Index copies, const RowWindows* windows = nullptr)
      : sweep_(sweep), node_(sweep.tape().node(index)), cotangent_(cotangent), copies_(copies), windows_(windows) {}

  const Tensor& cotangent() const { return cotangent_; }
  Index copies() const { return copies_; }  // K, or 0 if the cotangent has no leading axis
  const Tensor& input(std::size_t i) const {
    return windows_ == nullptr ? sweep_.tape().node(node_.inputs[i]).value : windows_->input(i);
  }
  const Tensor& output() const { return windows_ == nullptr ? node_.value : windows_->output(); }
  const Tensor& saved(std::size_t i) const {
    return windows_ == nullptr ? sweep_.tape().saved(node_)[i] : windows_->saved(i);
  }
  bool has_input(std::size_t i) const { return i < node_.input_count; }

  bool wants(std::size_t i) const { return i < node_.input_count && sweep_.contains(node_.inputs[i]); }
  // A primal shape as the cotangents have it: with the leading axis, if there is one.
  Shape shaped(const Shape& shape) const { return copies_ > 0 ? shape.with_leading(copies_) : shape; }
  // A primal axis as the cotangents have it.
  int axis(int primal) const { return copies_ > 0 ? primal + 1 : primal; }

  // Adds to the gradient of input i. The first contribution moves in.
  void give(std::size_t i, Tensor gradient);
  // Where a kernel shall leave the gradient of input i: unwanted, overwritten, or added to.
  Destination into(std::size_t i);
  // Adds what the kernels left aside. Called after vjp.
  void finish();

 private:
  bool stands_before(std::size_t i) const;
  bool holds_other_rows(std::size_t i) const;

  Sweep& sweep_;
  const Node& node_;
  const Tensor& cotangent_;
  Index copies_;
  const RowWindows* windows_;
  // Of an input that stands twice (attention of x, x, x), the later gradients: a kernel that fills two destinations at
  // once must not get one buffer for both. And those of an input whose slot holds other rows.
  std::array<Tensor, Node::kMaxInputs> aside_;
};

// One operation's part of a reverse sweep that is itself recorded. The interface is Pullback's, in Vars.
class RecordedPullback {
 public:
  RecordedPullback(Tape& tape, NodeIndex index, const Var& cotangent, std::function<bool(NodeIndex)> wanted,
                   std::function<void(NodeIndex, Var)> give)
      : tape_(tape), index_(index), cotangent_(cotangent), wanted_(std::move(wanted)), give_(std::move(give)) {}

  const Var& cotangent() const { return cotangent_; }
  Var input(std::size_t i) const { return tape_.var(node().inputs[i]); }
  Var output() const { return tape_.var(index_); }
  bool wants(std::size_t i) const { return i < node().input_count && wanted_(node().inputs[i]); }
  static const Shape& shaped(const Shape& shape) { return shape; }
  static int axis(int primal) { return primal; }
  void give(std::size_t i, const Var& gradient) { give_(node().inputs[i], gradient); }

  Tape& tape() const { return tape_; }
  const Node& node() const { return tape_.node(index_); }

 private:
  Tape& tape_;
  NodeIndex index_;
  Var cotangent_;
  std::function<bool(NodeIndex)> wanted_;
  std::function<void(NodeIndex, Var)> give_;
};

// One operation's part of a forward sweep.
class Pushforward {
 public:
  Pushforward(Sweep& sweep, NodeIndex index, Index copies)
      : sweep_(sweep), node_(sweep.tape().node(index)), copies_(copies) {}

  Index copies() const { return copies_; }
  const Tensor& input(std::size_t i) const { return sweep_.tape().node(node_.inputs[i]).value; }
  const Tensor& output() const { return node_.value; }
  const Tensor& saved(std::size_t i) const { return sweep_.tape().saved(node_)[i]; }
  bool has_input(std::size_t i) const { return i < node_.input_count; }

  bool has(std::size_t i) const { return i < node_.input_count && tangent_slot(i) != nullptr; }
  const Tensor& tangent(std::size_t i) const { return *tangent_slot(i); }
  Shape shaped(const Shape& shape) const { return copies_ > 0 ? shape.with_leading(copies_) : shape; }
  int axis(int primal) const { return copies_ > 0 ? primal + 1 : primal; }

  // Adds to the output's tangent.
  void give(Tensor tangent);
  Tensor& result() { return result_; }

 private:
  const Tensor* tangent_slot(std::size_t i) const {
    const NodeIndex input = node_.inputs[i];
    if (!sweep_.contains(input)) return nullptr;
    const Tensor& slot = sweep_.slot(input);
    return slot.defined() ? &slot : nullptr;
  }

  Sweep& sweep_;
  const Node& node_;
  Index copies_;
  Tensor result_;
};

}  // namespace jnorm
