#pragma once

#include <cstdint>
#include <functional>

#include <jnorm/core/tensor.hpp>

namespace jnorm {

class Tape;
using NodeIndex = std::uint32_t;

// Sees the complete gradient of a node during backward. An undefined result leaves it; a tensor of the same shape and
// dtype takes its place, for this node and for everything before it.
using GradientHook = std::function<Tensor(const Tensor& gradient)>;

// A handle on a node of a tape: a recorded value. Cheap to copy. It must not outlive its Tape; after tape.reset() every
// use of it is an Error(state) that says where the reset was.
class Var {
 public:
  Var() = default;  // no node: defined() is false

  bool defined() const { return tape_ != nullptr; }
  Tape& tape(const char* asked_by = "tape") const;  // the name stands in errors
  NodeIndex index() const { return index_; }

  const Tensor& value() const;
  const Shape& shape() const { return value().shape(); }
  int rank() const { return shape().rank(); }
  Index dim(int axis) const { return shape()[axis]; }
  DType dtype() const { return value().dtype(); }
  double item() const { return value().item(); }  // the only element, widened

  // What backward left here. Throws Error(state) if it isn't computed (never 0 instead), and says why.
  const Tensor& gradient() const;
  // Asks backward to keep the gradient of a node that is no leaf.
  void retain_gradient() const;
  // Has backward call `hook` with what this sweep alone brings here, before it is kept or passed on. Several hooks run
  // in the order in which they were added, until tape.reset(). gradients(), Jacobians and other measurements don't call
  // them. A result of another shape or dtype is an Error(argument).
  void on_gradient(GradientHook hook) const;

 private:
  friend class Tape;
  Var(Tape* tape, NodeIndex index, std::uint32_t generation) : tape_(tape), index_(index), generation_(generation) {}

  Tape* tape_ = nullptr;
  NodeIndex index_ = 0;
  std::uint32_t generation_ = 0;
};

}  // namespace jnorm
