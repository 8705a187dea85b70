// Every operation against PyTorch: values, gradients, tangents and second-order values of tests/golden, which says what
// an entry holds.

#include "support/golden.hpp"

#include <doctest/doctest.h>

#include <array>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include <jnorm/autograd/catalogue.hpp>
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
  std::vector<Var> all() const {  // by name
    std::vector<Var> result;
    for (const auto& [name, variable] : variables_) result.push_back((*this)[name.substr(3)]);
    return result;
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
  std::size_t place(const std::string& name) const { return static_cast<std::size_t>(integer(name, 0)); }
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

// Reductions take their axes as a list in braces; between list and keep stand `settings`.
template <class Reduce, class... Settings>
Var reduced(const Arguments& in, Reduce reduce, Settings... settings) {
  using Axes = std::initializer_list<int>;
  const std::vector<int> axes = in.integers("axes");
  const Keep keep = in.flag("keep") ? Keep::yes : Keep::no;
  switch (axes.size()) {
    case 1: return reduce(in["x"], Axes{axes[0]}, settings..., keep);
    case 2: return reduce(in["x"], Axes{axes[0], axes[1]}, settings..., keep);
    case 3: return reduce(in["x"], Axes{axes[0], axes[1], axes[2]}, settings..., keep);
    default: return reduce(in["x"], settings...);
  }
}

template <class Reduce>
Call over_axes(Reduce reduce) {
  return [reduce](const Arguments& in) { return reduced(in, reduce); };
}

template <class Reduce>
Call with_correction(Reduce reduce) {
  return [reduce](const Arguments& in) { return reduced(in, reduce, in.integer("correction", 0)); };
}

Range range_of(const Arguments& in) {
  const auto end = [&](const char* name) {
    const std::optional<double> value = in.number(name);
    return value ? std::optional(static_cast<Index>(*value)) : std::nullopt;
  };
  return {.start = end("start"), .stop = end("stop"), .step = in.integer("step", 1)};
}

ChannelNormOptions channel_options(const Arguments& in) {
  return {.eps = in.number("eps", kNormEps), .channel_axis = in.integer("channel_axis", -1)};
}

NormalizedBatch batch_norm_of(const Arguments& in) {
  return batch_norm(
      in["x"], in["gamma"], in["beta"],
      {.eps = in.number("eps", kNormEps), .channel_axis = in.integer("channel_axis", -1), .mask = in.tensor("mask")});
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
      {"expm1", of_x(expm1)},
      {"log", of_x(log)},
      {"log1p", of_x(log1p)},
      {"sqrt", of_x(sqrt)},
      {"rsqrt", of_x(rsqrt)},
      {"reciprocal", of_x(reciprocal)},
      {"square", of_x(square)},
      {"tanh", of_x(tanh)},
      {"erf", of_x(erf)},
      {"sigmoid", of_x(sigmoid)},
      {"abs", of_x(abs)},
      {"sign", of_x(sign)},
      {"relu", of_x(relu)},
      {"gelu", of_x(gelu)},
      {"gelu_tanh", of_x(gelu_tanh)},
      {"silu", of_x(silu)},
      {"pow", of_two(pow)},
      {"pow by a number", [](const auto& in) { return pow(in["x"], in.number("p", 1.0)); }},
      {"maximum", [](const auto& in) { return maximum(in["a"], in["b"]); }},
      {"minimum", [](const auto& in) { return minimum(in["a"], in["b"]); }},
      {"maximum with a number", [](const auto& in) { return maximum(in["x"], in.number("number", 0.0)); }},
      {"minimum with a number", [](const auto& in) { return minimum(in["x"], in.number("number", 0.0)); }},
      {"clamp", [](const auto& in) { return clamp(in["x"], in.number("low"), in.number("high")); }},
      {"where", [](const auto& in) { return where(in.tensor("condition"), in["a"], in["b"]); }},
      {"to float32 and back", to_and_back(DType::float32)},
      {"to float16 and back", to_and_back(DType::float16)},
      {"to bfloat16 and back", to_and_back(DType::bfloat16)},

      {"reshape", [](const auto& in) { return reshape(in["x"], in.shape("shape")); }},
      {"broadcast_to", [](const auto& in) { return broadcast_to(in["x"], in.shape("shape")); }},
      {"permute", [](const auto& in) { return permute(in["x"], in.integers("axes")); }},
      {"transpose", of_x(transpose)},
      {"transpose of two axes",
       [](const auto& in) { return transpose(in["x"], in.integers("axes")[0], in.integers("axes")[1]); }},
      {"unsqueeze", [](const auto& in) { return unsqueeze(in["x"], in.integer("axis", 0)); }},
      {"squeeze", [](const auto& in) { return squeeze(in["x"], in.integer("axis", 0)); }},
      {"flatten", [](const auto& in) { return flatten(in["x"], in.integer("first", 0), in.integer("last", -1)); }},

      {"slice", [](const auto& in) { return slice(in["x"], in.integer("axis", 0), range_of(in)); }},
      {"slice [1:3, :, ::2]",
       [](const auto& in) {
         return slice(in["x"], {{1, 3}, {}, {.step = 2}});
       }},
      {"place at [1:3, ::2] of [4, 5]",
       [](const auto& in) {
         const std::array<Range, 2> ranges{Range{1, 3}, Range{.step = 2}};
         return place(in["x"], part_of({4, 5}, ranges), {4, 5});
       }},
      {"concat", [](const auto& in) { return concat(in.all(), in.integer("axis", 0)); }},
      {"stack", [](const auto& in) { return stack(in.all(), in.integer("axis", 0)); }},
      {"split into [1, 3, 2]",
       [](const auto& in) {
         return split(in["x"], {1, 3, 2}, in.integer("axis", 0)).at(in.place("index"));
       }},
      {"split into 3", [](const auto& in) { return split(in["x"], 3, in.integer("axis", 0)).at(in.place("index")); }},

      {"index_select", [](const auto& in) { return index_select(in["x"], in.integer("axis", 0), in.tensor("index")); }},
      {"gather", [](const auto& in) { return gather(in["x"], in.integer("axis", 0), in.tensor("index")); }},
      {"index_add",
       [](const auto& in) { return index_add(in["x"], in.integer("axis", 0), in.tensor("index"), in.shape("whole")); }},
      {"scatter_add",
       [](const auto& in) {
         return scatter_add(in["x"], in.integer("axis", 0), in.tensor("index"), in.shape("whole"));
       }},

      {"sum", over_axes([](const Var& x, auto... axes) { return sum(x, axes...); })},
      {"mean", over_axes([](const Var& x, auto... axes) { return mean(x, axes...); })},
      {"max", over_axes([](const Var& x, auto... axes) { return max(x, axes...); })},
      {"min", over_axes([](const Var& x, auto... axes) { return min(x, axes...); })},
      {"logsumexp", over_axes([](const Var& x, auto... axes) { return logsumexp(x, axes...); })},
      {"l1_norm", over_axes([](const Var& x, auto... axes) { return l1_norm(x, axes...); })},
      {"l2_norm", over_axes([](const Var& x, auto... axes) { return l2_norm(x, axes...); })},
      {"max_norm", over_axes([](const Var& x, auto... axes) { return max_norm(x, axes...); })},
      {"variance", with_correction([](const Var& x, auto... axes) { return variance(x, axes...); })},
      {"standard_deviation",
       with_correction([](const Var& x, auto... axes) { return standard_deviation(x, axes...); })},

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
                           .scale = in.number("scale"),
                           .key_heads = in.integer("key_heads", 0)});
       }},
      {"causal_attention",
       [](const auto& in) { return causal_attention(in["q"], in["k"], in["v"], in.integer("heads", 1)); }},
      {"rotary",
       [](const auto& in) {
         return rotary(in["x"], in.integer("heads", 1),
                       {.base = in.number("base", 10000.0), .first_position = in.integer("first_position", 0)});
       }},

      {"layer_norm",
       [](const auto& in) { return layer_norm(in["x"], in["gamma"], in["beta"], in.number("eps", kNormEps)); }},
      {"rms_norm", [](const auto& in) { return rms_norm(in["x"], in["gamma"], in.number("eps", kNormEps)); }},
      {"scale_norm", [](const auto& in) { return scale_norm(in["x"], in["g"], in.number("eps", kNormEps)); }},
      {"dynamic_tanh", [](const auto& in) { return dynamic_tanh(in["x"], in["alpha"], in["gamma"], in["beta"]); }},
      {"group_norm",
       [](const auto& in) {
         return group_norm(in["x"], in.integer("groups", 1), in["gamma"], in["beta"], channel_options(in));
       }},
      {"batch_norm", [](const auto& in) { return batch_norm_of(in).y; }},
      {"batch_norm's mean", [](const auto& in) { return in["x"].tape().constant(batch_norm_of(in).mean); }},
      {"batch_norm's variance", [](const auto& in) { return in["x"].tape().constant(batch_norm_of(in).variance); }},
      {"batch_norm_evaluation",
       [](const auto& in) {
         return batch_norm_evaluation(in["x"], in.tensor("running_mean"), in.tensor("running_variance"), in["gamma"],
                                      in["beta"], channel_options(in));
       }},
  };
  return table;
}

// By name: "softmax/x [2,3], axis 0".
const std::map<std::string, GoldenEntry>& entries() {
  static const auto all = load_golden("operations.safetensors");
  return all;
}

std::string operation_of(const std::string& entry) { return entry.substr(0, entry.find('/')); }

std::string joined(const std::set<std::string>& names) {
  std::string result;
  for (const std::string& name : names) result += name + ' ';
  return result;
}

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
  for (const auto& named : entries()) {
    const auto& name = named.first;
    CAPTURE(name);
    const auto call = calls().find(operation_of(name));
    if (call == calls().end()) continue;  // a failure of its own, below
    Comparison(named.second, call->second, dtype, tolerance).run();
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
  CHECK(joined(without_call) == "");
  CHECK(joined(without_entry) == "");
}

// Dropout is random, and its test is of its statistics.
TEST_CASE("golden: no operation of the catalogue is left out; tests/golden/operations.py has a place for a new one") {
  std::set<std::string> left_out;
  for (const OperationCase& operation : operation_cases(1)) left_out.insert(operation.operation);
  for (const auto& [name, entry] : entries()) {
    left_out.erase(operation_of(name));
    Tape tape;
    calls().at(operation_of(name))(Arguments(entry, tape, DType::float64));
    for (NodeIndex i = 0; i < tape.size(); ++i) {
      if (tape.node(i).operation != nullptr) left_out.erase(tape.node(i).operation->description().name);
    }
  }
  CHECK(joined(left_out) == "dropout ");
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
