#pragma once

#include <string>
#include <string_view>

#include <jnorm/core/tensor.hpp>

namespace jnorm {

// A trainable tensor with its gradient. It outlives the tapes that use it: a tape makes one leaf of it, however often
// it is used, and backward adds to its gradient. An optimizer's step consumes the gradient.
class Parameter {
 public:
  Parameter(std::string name, Tensor value) : name_(std::move(name)), path_(name_), value_(std::move(value)) {}
  Parameter(const Parameter&) = delete;  // tapes know a parameter by its address
  Parameter& operator=(const Parameter&) = delete;

  const std::string& name() const { return name_; }  // its own name, "weight"
  const std::string& path() const { return path_; }  // from the outermost module, "blocks.3.ffn.branch.up.weight"
  void prepend_to_path(std::string_view module) { path_ = std::string(module) + "." + path_; }
  const Tensor& value() const { return value_; }
  const Shape& shape() const { return value_.shape(); }

  // Another value of the same shape. A tape that recorded the old one keeps it. Throws Error(argument) on another
  // shape.
  void set_value(Tensor value);

  bool has_gradient() const { return gradient_.defined(); }
  // Throws Error(state) if no gradient was computed: "not computed" is never 0.
  const Tensor& gradient() const;
  // Adds to the gradient; the first contribution moves in.
  void add_gradient(Tensor gradient);
  void clear_gradient() { gradient_ = Tensor(); }

  bool trainable() const { return trainable_; }
  void set_trainable(bool trainable) { trainable_ = trainable; }

 private:
  friend class Tape;  // sweeps add to the gradient in place

  std::string name_;
  std::string path_;
  Tensor value_;
  Tensor gradient_;
  bool trainable_ = true;
};

}  // namespace jnorm
