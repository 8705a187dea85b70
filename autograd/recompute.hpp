#pragma once

// Trades time for memory: a part of a model whose inner values are dropped after the forward and computed again when a
// sweep comes to it.

#include <functional>
#include <span>

#include <jnorm/autograd/tape.hpp>

namespace jnorm {

// part(inputs), recorded, with all inner values dropped but the output's. backward() runs `part` again when it reaches
// it, one part at a time, and drops the values behind it; every other sweep (gradients, Jacobians, push_forward) brings
// back the parts that it crosses, and drops them at its end. The nodes stay, so graphs and module paths are complete.
// A part inside of a part belongs to the outer one.
//
// `part` must do the same both times. The sweep throws Error(state) if it records other operations, or its output isn't
// equal to the last bit: a parameter was changed meanwhile, or random numbers were drawn from a generator that moved
// on. Its values are not to be read outside; the error says so.
Var recompute(const std::function<Var(std::span<const Var>)>& part, std::span<const Var> inputs,
              SourceLine line = SourceLine::here());
Var recompute(const std::function<Var(const Var&)>& part, const Var& input, SourceLine line = SourceLine::here());

// The dropped values of a tape's parts, brought back for a sweep and dropped again in the end. Private to the tape.
class RecomputedParts {
 public:
  explicit RecomputedParts(Tape& tape) : tape_(tape) {}
  ~RecomputedParts();
  RecomputedParts(const RecomputedParts&) = delete;
  RecomputedParts& operator=(const RecomputedParts&) = delete;

  static Var record(const std::function<Var(std::span<const Var>)>& part, std::span<const Var> inputs, SourceLine line);

  // All parts that have nodes in [first, to].
  void bring_back(NodeIndex first, NodeIndex to);
  // The part that node i belongs to, if it belongs to one; the parts behind it are dropped. For a sweep from the end.
  void bring_back_only(NodeIndex i);

 private:
  static void drop(Tape& tape, const RecomputedPart& part);
  static bool is_dropped(const Tape& tape, const RecomputedPart& part);
  void compute_again(const RecomputedPart& part);

  Tape& tape_;
  std::vector<std::size_t> brought_back_;  // numbers of parts
};

}  // namespace jnorm
