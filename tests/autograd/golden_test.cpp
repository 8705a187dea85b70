// Every operation against PyTorch: values, gradients, tangents and second-order values of tests/golden, which says what
// an entry holds.

#include "support/golden.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <optional>
#include <set>
#include <string>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/autograd/ops/masked.hpp>

using namespace jnorm;

namespace {

// The inputs and options of an entry for one call. What is absent is undefined, as optional arguments are; what a call
// doesn't ask for is a fault of the call.
class Arguments {
 public:
  Arguments(const GoldenEntry& entry, Tape& tape, DType dtype) : entry_(entry) {
    for (const auto& [name, tensor] : entry) {
      if (name.starts_with("in.")) variables_[name] = tape.variable(tensor.to(dtype), name);
    }
  }

  Var operator[](const std::string& name) const {
    const auto found = variables_.find("in." + name);
    if (found == variables_.end()) return {};
    asked_.insert(found->first);
    return found->second;
  }
  Tensor tensor(const std::string& name) const {
    const auto found = entry_.find("option." + name);
    if (found == entry_.end()) return {};
    asked_.insert(found->first);
    return found->second;
  }
  double number(const std::string& name, double otherwise) const {
    const Tensor found = tensor(name);
    return found.defined() ? found.item() : otherwise;
  }
  std::optional<double> number(const std::string& name) const {
    const Tensor found = tensor(name);
    return found.defined() ? std::optional(found.item()) : std::nullopt;
  }
  int integer(const std::string& name, int otherwise) const { return static_cast<int>(number(name, otherwise)); }
  bool flag(const std::string& name) const { return number(name, 0.0) != 0.0; }
  template <class Integer = int>
  std::vector<Integer> integers(const std::string& name) const {
    std::vector<Integer> result;
    const Tensor found = tensor(name);
    for (const double value : found.defined() ? found.values() : std::vector<double>{}) {
      result.push_back(static_cast<Integer>(value));
    }
    return result;
  }
  Shape shape(const std::string& name) const { return Shape(integers<Index>(name)); }

  const std::map<std::string, Var>& variables() const { return variables_; }
  std::string not_asked_for() const {
    std::string names;
    for (const auto& [name, tensor] : entry_) {
      if ((name.starts_with("in.") || name.starts_with("option.")) && !asked_.contains(name)) names += name + ' ';
    }
    return names;
  }

 private:
  const GoldenEntry& entry_;
  std::map<std::string, Var> variables_;
  mutable std::set<std::string> asked_;
};

using Call = std::function<Var(const Arguments&)>;

Call of_x(Var (*function)(const Var&, SourceLine)) {
  return [function](const Arguments& in) { return function(in["x"], SourceLine::here()); };
}

Call of_two(Var (*function)(const Var&, const Var&, SourceLine)) {
  return [function](const Arguments& in) { return function(in["a"], in["b"], SourceLine::here()); };
}

Call to_and_back(DType dtype) {
  return [dtype](const Arguments& in) { return to(to(in["x"], dtype), in["x"].dtype()); };
}

// Reductions take their axes as a list in braces.
template <class Reduce>
Call over_axes(Reduce reduce) {
  return [reduce](const Arguments& in) {
    const std::vector<int> axes = in.integers("axes");
    const Keep keep = in.flag("keep") ? Keep::yes : Keep::no;
    switch (axes.size()) {
      case 1: return reduce(in["x"], std::initializer_list<int>{axes[0]}, keep);
      case 2: return reduce(in["x"], std::initializer_list<int>{axes[0], axes[1]}, keep);
      case 3: return reduce(in["x"], std::initializer_list<int>{axes[0], axes[1], axes[2]}, keep);
      default: return reduce(in["x"]);
    }
  };
}

Call cross_entropy_with(Reduction reduction) {
  return [reduction](const Arguments& in) {
    return cross_entropy(in["logits"], in.tensor("targets"),
                         {.ignore_index = in.integer("ignore_index", kIgnoreIndex),
                          .label_smoothing = in.number("label_smoothing", 0.0),
                          .class_weights = in.tensor("class_weights"),
                          .reduction = reduction});
  };
}

// How each entry's operation is called here.
const std::map<std::string, Call>& calls() {
  static const std::map<std::string, Call> table{
      {"add", of_two(add)},
      {"subtract", of_two(subtract)},
      {"multiply", of_two(multiply)},
      {"divide", of_two(divide)},
      {"affine", [](const auto& in) { return affine(in["x"], in.number("scale", 1.0), in.number("shift", 0.0)); }},
      {"negate", of_x(negate)},

      {"exp", of_x(exp)},
      {"log", of_x(log)},
      {"sqrt", of_x(sqrt)},
      {"rsqrt", of_x(rsqrt)},
      {"reciprocal", of_x(reciprocal)},
      {"square", of_x(square)},
      {"tanh", of_x(tanh)},
      {"erf", of_x(erf)},
      {"abs", of_x(abs)},
      {"sign", of_x(sign)},
      {"relu", of_x(relu)},
      {"gelu", of_x(gelu)},
      {"gelu_tanh", of_x(gelu_tanh)},
      {"to float32 and back", to_and_back(DType::float32)},
      {"to float16 and back", to_and_back(DType::float16)},
      {"to bfloat16 and back", to_and_back(DType::bfloat16)},

      {"reshape", [](const auto& in) { return reshape(in["x"], in.shape("shape")); }},
      {"broadcast_to", [](const auto& in) { return broadcast_to(in["x"], in.shape("shape")); }},
      {"permute", [](const auto& in) { return permute(in["x"], in.integers("axes")); }},
      {"transpose", of_x(transpose)},

      {"sum", over_axes([](const Var& x, auto... axes) { return sum(x, axes...); })},
      {"mean", over_axes([](const Var& x, auto... axes) { return mean(x, axes...); })},

      {"matmul",
       [](const auto& in) { return matmul(in["a"], in["b"], in.flag("transpose_a"), in.flag("transpose_b")); }},
      {"linear", [](const auto& in) { return linear(in["x"], in["weight"], in["bias"]); }},
      {"embedding", [](const auto& in) { return embedding(in["table"], in.tensor("tokens")); }},
      {"select", [](const auto& in) { return select(in["x"], in.tensor("mask")); }},
      {"sampled_matmul", [](const auto& in) { return sampled_matmul(in["a"], in["b"], in.tensor("mask")); }},
      {"masked_matmul",
       [](const auto& in) { return masked_matmul(in["a"], in["b"], in.tensor("mask"), in.flag("transpose_a")); }},

      {"softmax", [](const auto& in) { return softmax(in["x"], in.integer("axis", -1)); }},
      {"log_softmax", [](const auto& in) { return log_softmax(in["x"], in.integer("axis", -1)); }},
      {"cross_entropy mean", cross_entropy_with(Reduction::mean)},
      {"cross_entropy sum", cross_entropy_with(Reduction::sum)},
      {"cross_entropy none", cross_entropy_with(Reduction::none)},

      {"attention",
       [](const auto& in) {
         return attention(in["q"], in["k"], in["v"], in.integer("heads", 1),
                          {.causal = in.flag("causal"),
                           .key_mask = in.tensor("key_mask"),
                           .mask = in.tensor("mask"),
                           .scale = in.number("scale")});
       }},
      {"causal_attention",
       [](const auto& in) { return causal_attention(in["q"], in["k"], in["v"], in.integer("heads", 1)); }},

      {"layer_norm",
       [](const auto& in) { return layer_norm(in["x"], in["gamma"], in["beta"], in.number("eps", kNormEps)); }},
      {"rms_norm", [](const auto& in) { return rms_norm(in["x"], in["gamma"], in.number("eps", kNormEps)); }},
  };
  return table;
}

// By name: "softmax/x [2,3], axis 0".
const std::map<std::string, GoldenEntry>& entries() {
  static const auto all = load_golden("operations.safetensors");
  return all;
}

std::string operation_of(const std::string& entry) { return entry.substr(0, entry.find('/')); }

// One entry computed here, in one dtype, and compared.
class Comparison {
 public:
  Comparison(const GoldenEntry& entry, const Call& call, DType dtype, double tolerance)
      : entry_(entry), dtype_(dtype), tolerance_(tolerance), arguments_(entry, tape_, dtype) {
    for (const auto& [name, variable] : arguments_.variables()) {
      names_.push_back(name.substr(3));
      xs_.push_back(variable);
    }
    y_ = call(arguments_);
  }

  void run() {
    CHECK(arguments_.not_asked_for() == "");
    check("y", y_.value());
    if (!entry_.contains("d.y")) return;
    check_gradients();
    if (!entry_.contains("dot.y")) return;
    check_tangent();
    check_second_order();
  }

 private:
  Tensor golden(const std::string& name) const { return entry_.at(name).to(dtype_); }

  void check(const std::string& name, const Tensor& value) const {
    CAPTURE(name);
    CAPTURE(to_string(value));
    CAPTURE(to_string(entry_.at(name)));
    CHECK(golden_error(value, entry_.at(name)) <= tolerance_);
  }
  // Undefined is 0: nothing depends on that input.
  void check(const std::string& name, const Tensor& value, const Var& of) const {
    check(name, value.defined() ? value : zeros(of.shape(), dtype_));
  }

  void check_gradients() {
    const std::vector<Tensor> gradients = tape_.gradients(y_, xs_, golden("d.y"));
    for (std::size_t i = 0; i < xs_.size(); ++i) check("d." + names_[i], gradients[i], xs_[i]);
  }

  void check_tangent() {
    Tensor tangent = zeros(y_.shape(), dtype_);
    for (std::size_t i = 0; i < xs_.size(); ++i) {
      const Tensor part = tape_.push_forward(y_, xs_[i], golden("dot." + names_[i]));
      if (part.defined()) tangent = add(tangent, part);
    }
    check("dot.y", tangent);
  }

  // s = sum over the inputs of <gradient, tangent>, recorded and differentiated by the inputs and the cotangent.
  void check_second_order() {
    const Var dy = tape_.variable(golden("d.y"));
    const std::vector<Var> gradients = tape_.recorded_gradients(y_, xs_, dy);
    Var s = tape_.constant(zeros({}, dtype_));
    for (std::size_t i = 0; i < xs_.size(); ++i) {
      if (gradients[i].defined()) s = s + sum(gradients[i] * golden("dot." + names_[i]));
    }
    std::vector<Var> by = xs_;
    by.push_back(dy);
    const std::vector<Tensor> second = tape_.gradients(s, by, {});
    for (std::size_t i = 0; i < xs_.size(); ++i) check("dd." + names_[i], second[i], xs_[i]);
    check("dot.y", second.back(), y_);
  }

  const GoldenEntry& entry_;
  DType dtype_;
  double tolerance_;
  Tape tape_;
  Arguments arguments_;
  std::vector<std::string> names_;
  std::vector<Var> xs_;
  Var y_;
};

void compare_all(DType dtype, double tolerance) {
  for (const auto& [name, entry] : entries()) {
    CAPTURE(name);
    const auto call = calls().find(operation_of(name));
    if (call == calls().end()) continue;  // a failure of its own, below
    Comparison(entry, call->second, dtype, tolerance).run();
  }
}

}  // namespace

TEST_CASE("golden: each entry has a call and each call an entry") {
  std::set<std::string> without_call;
  std::set<std::string> without_entry;
  for (const auto& [operation, call] : calls()) without_entry.insert(operation);
  for (const auto& [name, entry] : entries()) {
    without_entry.erase(operation_of(name));
    if (!calls().contains(operation_of(name))) without_call.insert(operation_of(name));
  }
  CHECK(without_call == std::set<std::string>{});
  CHECK(without_entry == std::set<std::string>{});
}

// Both sides round, and sum in their own order: a few hundred units of 1.1e-16.
TEST_CASE("golden: every operation agrees with PyTorch in float64, to second order") {
  compare_all(DType::float64, 1e-13);
}

// From the same inputs, which are float32 numbers, and against the same values: 64 units of 6e-8, which second
// derivatives come near to.
TEST_CASE("golden: every operation agrees with PyTorch in float32, to second order") {
  compare_all(DType::float32, 4e-6);
}
