#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <jnorm/autograd/node.hpp>
#include <jnorm/autograd/operation.hpp>
#include <jnorm/autograd/parameter.hpp>
#include <jnorm/autograd/recomputed_part.hpp>
#include <jnorm/autograd/row_range.hpp>
#include <jnorm/autograd/tape_memory.hpp>
#include <jnorm/autograd/var.hpp>

namespace jnorm {

struct BackwardOptions {
  // The cotangent of y; undefined means 1, for which y must have one element.
  Tensor cotangent = {};
  // Give the recorded values back to the pool as the sweep passes them. The tape can't be swept again then.
  bool free_values = false;
  // Called for every node that has a gradient, in reverse order, when that gradient is complete. It may record on the
  // tape and sweep it; reset() and free_values are refused meanwhile.
  std::function<void(NodeIndex, const Tensor&)> observe = {};
};

// A module's call, from the scope that it opened: which node went in and which came out.
struct ModuleCall {
  std::uint32_t path;
  NodeIndex input;
  NodeIndex output;
};

// A tape: an append-only list of operations in the order in which they were recorded, which is a topological order. A
// reverse sweep is a loop from the end; a forward sweep pushes tangents from the start; both run between any two nodes.
//
// Recording is explicit (no global state), and one tape belongs to one thread at a time: with one exception. While
// nothing is recorded, reset or freed, any number of threads may call what only reads the tape: gradients,
// push_forward, jacobian and linear maps. reset() forgets the nodes and keeps the memory, so that a training loop
// allocates nothing in its steady state.
class Tape {
 public:
  Tape();
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  // Leaves. A variable takes part in backward; a constant doesn't. A parameter has one leaf on a tape, however often it
  // is used.
  Var variable(Tensor value, std::string_view name = "", SourceLine line = SourceLine::here());
  Var constant(Tensor value, std::string_view name = "", SourceLine line = SourceLine::here());
  Var parameter(Parameter& parameter, SourceLine line = SourceLine::here());
  Var leaf_of(const Parameter& parameter);  // undefined if the tape has none

  // Appends a node. `saved` is what the derivative needs beside the inputs' and the output's values.
  template <class Op>
  Var record(const Op& operation, std::initializer_list<Var> inputs, Tensor value, std::initializer_list<Tensor> saved,
             SourceLine line) {
    return record_node(keep(operation), std::span<const Var>(inputs.begin(), inputs.size()), std::move(value),
                       std::span<const Tensor>(saved.begin(), saved.size()), line);
  }
  Var record_node(const Operation* operation, std::span<const Var> inputs, Tensor value, std::span<const Tensor> saved,
                  SourceLine line);
  // A copy of an operation that lives as long as the tape's nodes.
  template <class Op>
  const Operation* keep(const Op& operation) {
    static_assert(std::is_trivially_destructible_v<Op>, "operations live in an arena that runs no destructors");
    if constexpr (std::is_empty_v<Op> || sizeof(Op) == sizeof(Operation)) {
      static constexpr Op shared{};  // no parameters: one object serves all
      return &shared;
    } else {
      return new (allocate_operation(sizeof(Op))) Op(operation);
    }
  }
  // Keeps an object alive until reset: what a custom operation refers to.
  void keep_alive(std::shared_ptr<const void> object) { kept_alive_.push_back(std::move(object)); }

  // J^T applied to the cotangent of y, added to the gradients of the variables and parameters that y depends on.
  // Throws Error(state) before anything is computed if a value that a derivative needs was changed or freed.
  void backward(const Var& y, const BackwardOptions& options = {}, SourceLine line = SourceLine::here());

  // The same for chosen nodes, returned instead of added: no gradient of a variable or parameter changes. An element of
  // the result is undefined where y doesn't depend on that x. The cotangent may have a leading axis of K; so have the
  // results then.
  std::vector<Tensor> gradients(const Var& y, std::span<const Var> xs, const Tensor& cotangent = {},
                                SourceLine line = SourceLine::here());

  // The same as recorded values, which can be differentiated again, right to any order. The cotangent is a node of y's
  // shape; undefined means 1. Throws Error(state) on an operation whose derivative can't be recorded, as a custom one.
  std::vector<Var> recorded_gradients(const Var& y, std::span<const Var> xs, const Var& cotangent = {},
                                      SourceLine line = SourceLine::here());

  // J applied to a tangent of x: what y changes by. Both may have a leading axis of K.
  Tensor push_forward(const Var& y, const Var& x, const Tensor& tangent, SourceLine line = SourceLine::here());

  // While on, the first operation that makes a NaN or an infinity out of finite inputs throws Error(non_finite), and so
  // does the first derivative that does in backward; the message names operation, module path, line, shape and element.
  // It reads every value once more. An infinity in a constant is taken for a mask: operations that pass it on are let
  // be, and only their NaN counts.
  void trace_non_finite(bool on) { traces_non_finite_ = on; }

  // A function runs on this tape to be measured or computed again, not to train: what a module changes in a forward,
  // such as BatchNorm's running statistics, stays as it is. Gradient checks and recompute() say so of their tapes.
  void set_measuring(bool on) { measuring_ = on; }
  bool measuring() const { return measuring_; }

  // What the tape holds now, and the most since reset().
  TapeMemory memory() const;

  // Forgets all nodes and keeps the memory. Gradients of parameters stay. Throws Error(state) from inside a sweep.
  void reset(SourceLine line = SourceLine::here());

  // Modules open a scope around what they record, and report their output; that makes these two exact. A module called
  // more than once needs the call's number, from 0. Throws Error(argument) if there is no such call.
  Var input(std::string_view module_path, int call = -1);
  Var output(std::string_view module_path, int call = -1);

  // Reading the tape.
  NodeIndex size() const { return size_; }
  const Node& node(NodeIndex index) const { return chunks_[index >> kChunkBits][index & kChunkMask]; }
  std::span<const Tensor> saved(const Node& node) const { return {saved_.data() + node.first_saved, node.saved_count}; }
  Var var(NodeIndex index);                         // throws Error(argument) if there is no such node
  std::string path_name(std::uint32_t path) const;  // "blocks.3.ffn.norm"
  const std::string& own_name(std::uint32_t path) const { return paths_[path].name; }  // "norm"
  std::uint32_t parent_path(std::uint32_t path) const { return paths_[path].parent; }
  std::uint32_t current_path() const { return current_path_; }
  std::span<const ModuleCall> module_calls() const { return calls_; }
  // "layer_norm (blocks.3.ffn.norm, at model.cpp:88)", for messages.
  std::string describe(NodeIndex index) const;
  std::string place(const Node& node) const;  // "blocks.3.ffn.norm, at model.cpp:88"
  // The first recorded value that holds a NaN or an infinity, or kNone.
  NodeIndex first_non_finite() const;

 private:
  friend class Var;
  friend class ModuleScope;
  friend class NoRecord;
  friend class RecomputedParts;
  friend class Sweep;
  class Loan;

  static constexpr int kChunkBits = 10;
  static constexpr NodeIndex kChunkMask = (1u << kChunkBits) - 1;

  // A node of the tree of module names; names stay over resets.
  struct Path {
    std::uint32_t parent;
    std::string name;
    std::vector<std::uint32_t> children;
  };

  void* allocate_operation(std::size_t bytes);

  Node& mutable_node(NodeIndex index) { return chunks_[index >> kChunkBits][index & kChunkMask]; }
  Node& append(SourceLine line);
  Var add_leaf(Node::Kind kind, Tensor value, std::string_view name, SourceLine line);
  Var handle(NodeIndex index) { return {this, index, generation_}; }
  void check(const Var& var, const char* what) const {
    if (var.generation_ != generation_) [[unlikely]]
      fail_stale(what);
  }
  [[noreturn]] void fail_stale(const char* what) const;
  void expect_mine(const Var& var, const char* what) const;
  void expect_no_sweep(const char* call, const char* what, SourceLine line) const;
  void forget();
  void expect_finite_value(NodeIndex index) const;
  [[noreturn]] void fail_non_finite_gradient(NodeIndex index, NodeIndex to, const Tensor& gradient) const;
  Tensor hooked_gradient(NodeIndex index, Tensor gradient);
  // Bytes that came to the tape with this node: its value, unless it shares an input's storage, and what it saved.
  Index bytes_of(const Node& node) const;
  void note_peak(Index slot_bytes) { peak_bytes_ = std::max(peak_bytes_, held_bytes_ + slot_bytes); }

  std::uint32_t child_path(std::uint32_t parent, std::string_view name);
  const ModuleCall& find_call(std::string_view module_path, int call) const;
  Tensor& kept_gradient(Node& node);
  std::vector<std::pair<Parameter*, NodeIndex>>::iterator place_of(const Parameter& parameter);

  std::vector<std::unique_ptr<Node[]>> chunks_;
  NodeIndex size_ = 0;
  std::uint32_t generation_ = 0;
  SourceLine reset_at_;
  SourceLine freed_at_;

  std::vector<std::unique_ptr<std::byte[]>> operation_chunks_;
  std::size_t operation_bytes_ = 0;  // used of all chunks together

  std::vector<Tensor> saved_;
  std::vector<Tensor> kept_gradients_;
  std::vector<std::shared_ptr<const void>> kept_alive_;
  std::vector<std::pair<Parameter*, NodeIndex>> parameter_leaves_;  // sorted by address

  bool recording_ = true;
  bool traces_non_finite_ = false;
  bool measuring_ = false;
  std::vector<std::pair<NodeIndex, GradientHook>> hooks_;
  std::vector<RecomputedPart> recomputed_parts_;  // in the order of their nodes
  std::recursive_mutex recomputed_parts_mutex_;   // running a part again may sweep values from before it
  bool inside_recomputed_part_ = false;
  Index held_bytes_ = 0;
  Index peak_bytes_ = 0;

  std::vector<Path> paths_;
  std::uint32_t current_path_ = 0;
  std::vector<ModuleCall> calls_;

  // Working memory of sweeps, kept for the next one; a nested sweep takes another.
  struct SweepMemory {
    std::vector<std::uint8_t> live;
    std::vector<Tensor> slots;
    std::vector<RowRange> rows;  // of the slots, where sweeps keep to rows
  };
  std::unique_ptr<SweepMemory> begin_sweep();
  void end_sweep(std::unique_ptr<SweepMemory> memory);
  std::mutex idle_sweep_memory_mutex_;
  std::vector<std::unique_ptr<SweepMemory>> idle_sweep_memory_;
  std::atomic<int> sweeps_under_way_{0};
};

// While it lives, operations on the tape are computed but not recorded: their results lead nowhere, need no gradient
// and save nothing for one. Scopes nest. The values stay on the tape until reset().
class NoRecord {
 public:
  explicit NoRecord(Tape& tape) : tape_(tape), outer_(std::exchange(tape.recording_, false)) {}
  ~NoRecord() { tape_.recording_ = outer_; }
  NoRecord(const NoRecord&) = delete;
  NoRecord& operator=(const NoRecord&) = delete;

 private:
  Tape& tape_;
  bool outer_;
};

// Names what is recorded while it lives: the path of the enclosing scopes, joined by dots.
class ModuleScope {
 public:
  ModuleScope(Tape& tape, std::string_view name);
  ~ModuleScope();
  ModuleScope(const ModuleScope&) = delete;
  ModuleScope& operator=(const ModuleScope&) = delete;

  // Reports the module's call, for tape.input(path) and tape.output(path); returns the output.
  Var report(const Var& input, const Var& output);

 private:
  Tape& tape_;
  std::uint32_t outer_;
};

}  // namespace jnorm
