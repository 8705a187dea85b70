#pragma once

// Trades time for memory: a part of a model whose inner values are dropped after the forward and computed again when a
// sweep comes to it.

#include <functional>
#include <span>

#include <jnorm/autograd/tape.hpp>

namespace jnorm {

class Sweep;

// part(inputs), recorded, with all inner values dropped but the output's. backward() and gradients() run `part` again
// when they reach it, one part at a time, and drop the values behind it; every other sweep (Jacobians, push_forward,
// recorded gradients) brings back the parts whose values it reads, and drops them at its end. The nodes stay, so graphs
// and module paths are complete. A part inside of a part belongs to the outer one.
//
// `part` runs again on another tape, which it finds through its inputs: it must take all recorded values that it reads
// from its inputs and parameters, and throws Error(argument) at once if it doesn't.
//
// `part` must do the same both times. The sweep throws Error(state) if it records other operations, or its output isn't
// equal to the last bit: a parameter was changed meanwhile, or random numbers were drawn from a generator that moved
// on. Its values are not to be read outside; the error says so.
Var recompute(const std::function<Var(std::span<const Var>)>& part, std::span<const Var> inputs,
              SourceLine line = SourceLine::here());
Var recompute(const std::function<Var(const Var&)>& part, const Var& input, SourceLine line = SourceLine::here());

// The dropped values of a tape's parts that a sweep reads: brought back for it, and dropped again when no other sweep
// reads them. Several sweeps may do so at once, in several threads. Private to the tape.
class RecomputedParts {
 public:
  explicit RecomputedParts(Tape& tape) : tape_(tape) {}
  ~RecomputedParts();
  RecomputedParts(const RecomputedParts&) = delete;
  RecomputedParts& operator=(const RecomputedParts&) = delete;

  static Var record(const std::function<Var(std::span<const Var>)>& part, std::span<const Var> inputs, SourceLine line);

  // All that the derivatives of the sweep's operations read.
  void bring_back(const Sweep& sweep);
  // What node i's derivative reads; before another part is brought back, those that it doesn't read are dropped. For a
  // sweep from the end.
  void bring_back_only(NodeIndex i);

 private:
  static void expect_no_other_input(const Tape& tape, const RecomputedPart& part);
  static Index bytes_of(const Tape& tape, const RecomputedPart& part);
  static void drop(Tape& tape, const RecomputedPart& part);
  template <class Visit>
  void for_each_read_by(NodeIndex i, const Visit& visit) const;
  bool reads(NodeIndex i, const RecomputedPart& part) const;
  bool holds(std::size_t number) const;
  void hold(std::size_t number);
  template <class Condition>
  void release_if(const Condition& condition);
  void compute_again(const RecomputedPart& part);

  Tape& tape_;
  std::vector<std::size_t> held_;  // numbers of parts
};

}  // namespace jnorm
