// What holds for every operation, whatever it is called with: checked over random calls, a thousand a family. A failure
// names the seed and the call; `Draw(seed)` draws the same one again.

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include <jnorm/autograd/gradcheck.hpp>
#include <jnorm/core/parallel.hpp>

#include "autograd/random_call_families.hpp"

using namespace jnorm;
using namespace jnorm::test;

namespace {

constexpr std::uint64_t kDraws = 1000;

// Runs check(call, draw) for draws of every family.
template <class Check>
void for_random_calls(std::uint64_t draws, const Check& check, Draw::Sizes sizes = Draw::Sizes::small) {
  for (const CallFamily& family : kCallFamilies) {
    const std::string name = family.name;
    CAPTURE(name);
    for (std::uint64_t seed = 0; seed < draws; ++seed) {
      CAPTURE(seed);
      Draw draw(seed, sizes);
      const RandomCall call = family.draw(draw);
      CAPTURE(to_string(call));
      check(call, draw);
    }
  }
}

// A call with its inputs in one dtype, recorded, and pulled back under a random cotangent.
struct Recorded {
  Tape tape;
  std::vector<Var> xs;
  Var y;
  Tensor u;
  std::vector<Tensor> gradients;  // zeros where y doesn't depend on an input

  Recorded(const RandomCall& call, Draw& draw, DType dtype = DType::float64) {
    for (const Tensor& input : call.inputs) xs.push_back(tape.variable(input.to(dtype).clone()));
    y = call.function(xs);
    u = draw.normal(y.shape()).to(dtype);
    gradients = pull(y, u);
  }

  std::vector<Tensor> pull(const Var& output, const Tensor& cotangent) {
    std::vector<Tensor> result = tape.gradients(output, xs, cotangent);
    const Index copies = cotangent.rank() > output.rank() ? cotangent.dim(0) : -1;
    for (std::size_t i = 0; i < xs.size(); ++i) {
      if (result[i].defined()) continue;
      result[i] = zeros(copies < 0 ? xs[i].shape() : xs[i].shape().with_leading(copies), xs[i].dtype());
    }
    return result;
  }

  // All that a sweep must leave as it was: inputs, values, what the operations saved, the cotangent.
  std::vector<Tensor> recorded_tensors() const {
    std::vector<Tensor> tensors{u};
    for (NodeIndex i = 0; i < tape.size(); ++i) {
      tensors.push_back(tape.node(i).value);
      for (const Tensor& saved : tape.saved(tape.node(i))) tensors.push_back(saved);
    }
    return tensors;
  }

  // The last operation's composed definition, recorded beside it; undefined if it has none.
  Var composed() {
    const Node& node = tape.node(y.index());
    if (node.operation == nullptr || !node.operation->has_composition()) return {};
    std::vector<Var> operands;
    for (std::size_t i = 0; i < node.input_count; ++i) operands.push_back(tape.var(node.inputs[i]));
    return node.operation->composed(operands);
  }
};

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         (a.size() == 0 || std::memcmp(a.raw_data(), b.raw_data(), static_cast<std::size_t>(a.bytes())) == 0);
}

std::vector<Tensor> clones(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> copies;
  for (const Tensor& tensor : tensors) copies.push_back(tensor.clone());
  return copies;
}

bool same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Tensor& x, const Tensor& y) { return same_bits(x, y); });
}

double largest(const Tensor& x) {
  double result = 0.0;
  for (const double value : x.values()) result = std::max(result, std::fabs(value));
  return result;
}

// The largest difference of two elements, relative to the largest element, but not to less than 1. Equal infinities and
// two NaN differ by nothing; all else that isn't finite, and other shapes, by infinity.
double distance(const Tensor& a, const Tensor& b) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (a.shape() != b.shape()) return infinity;
  const std::vector<double> left = a.values(), right = b.values();
  double result = 0.0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (left[i] == right[i] || (std::isnan(left[i]) && std::isnan(right[i]))) continue;
    const double difference = std::fabs(left[i] - right[i]);
    result = std::max(result, std::isfinite(difference) ? difference : infinity);
  }
  return result == 0.0 ? 0.0 : result / std::max(1.0, largest(b));
}

Tensor copy_of(const Tensor& stacked, Index copy) {
  const Shape shape = stacked.shape().without_leading();
  const auto size = static_cast<std::size_t>(shape.size());
  const std::vector<double> values = stacked.values();
  return tensor(shape, std::span(values).subspan(static_cast<std::size_t>(copy) * size, size), stacked.dtype());
}

Tensor stacked(const std::vector<Tensor>& copies) {
  std::vector<double> values;
  for (const Tensor& copy : copies) {
    const std::vector<double> more = copy.values();
    values.insert(values.end(), more.begin(), more.end());
  }
  return tensor(copies.front().shape().with_leading(static_cast<Index>(copies.size())), values, copies.front().dtype());
}

// Two ways through float64, whose largest intermediate numbers stay below 1000 times the largest result.
constexpr double kExact = 1e-11;

// A sum in another order, rounded to the dtype.
double rounding(DType dtype) { return 16 * machine_epsilon(dtype); }

bool is_finite(const Tensor& x) {
  const std::vector<double> values = x.values();
  return std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); });
}

}  // namespace

TEST_CASE("operations: gradients have the inputs' shapes and dtypes, whatever the dtype") {
  for_random_calls(kDraws, [](const RandomCall& call, Draw& draw) {
    const auto dtype = draw.one_of({DType::float64, DType::float32, DType::bfloat16, DType::float16});
    CAPTURE(jnorm::to_string(dtype));
    const Recorded recorded(call, draw, dtype);
    for (std::size_t i = 0; i < recorded.xs.size(); ++i) {
      CHECK(recorded.gradients[i].shape() == recorded.xs[i].shape());
      CHECK(recorded.gradients[i].dtype() == dtype);
    }
  });
}

TEST_CASE("operations: sweeps leave inputs, outputs, saved tensors, cotangents and earlier gradients as they were") {
  for_random_calls(kDraws, [](const RandomCall& call, Draw& draw) {
    Recorded recorded(call, draw);
    const Var twice = recorded.y + call.function(recorded.xs);  // so that a gradient is added to another
    const std::vector<Tensor> tensors = recorded.recorded_tensors(), before = clones(tensors);
    const std::vector<Tensor> gradients_before = clones(recorded.gradients);
    const std::vector<Tensor> sum = recorded.pull(twice, recorded.u);
    for (const Var& x : recorded.xs) recorded.tape.push_forward(twice, x, draw.normal(x.shape()));
    CHECK(same_bits(tensors, before));
    CHECK(same_bits(recorded.gradients, gradients_before));
    for (std::size_t i = 0; i < sum.size(); ++i) {
      CHECK(distance(sum[i], affine(recorded.gradients[i], 2.0, 0.0)) < rounding(DType::float64));
    }
  });
}

TEST_CASE("operations: a gradient can be written without a change of the cotangent or of other gradients") {
  for_random_calls(kDraws, [](const RandomCall& call, Draw& draw) {
    Recorded recorded(call, draw);
    const Tensor cotangent = recorded.u.clone();
    for (std::size_t i = 0; i < recorded.gradients.size(); ++i) {
      Tensor gradient = recorded.gradients[i];
      const std::vector<Tensor> before = clones(recorded.gradients);
      double* const element = gradient.mutable_data<double>();
      std::fill(element, element + gradient.size(), 7.0);
      CHECK(same_bits(recorded.gradients, before));
      CHECK(same_bits(recorded.u, cotangent));
    }
  });
}

TEST_CASE("operations: <u, J v> = <J^T u, v>") {
  for_random_calls(kDraws, [](const RandomCall& call, Draw& draw) {
    Recorded recorded(call, draw);
    if (!is_finite(recorded.y.value())) return;  // a mean over nothing
    for (std::size_t i = 0; i < recorded.xs.size(); ++i) {
      const Tensor v = draw.normal(recorded.xs[i].shape());
      const Tensor jv = recorded.tape.push_forward(recorded.y, recorded.xs[i], v);
      const double scale = 1.0 + norm(recorded.u) * norm(jv) + norm(recorded.gradients[i]) * norm(v);
      CAPTURE(i);
      CHECK(std::fabs(dot(recorded.u, jv) - dot(recorded.gradients[i], v)) <= kExact * scale);
    }
  });
}

TEST_CASE("operations: the fused definition and the composed one agree in values and gradients") {
  for_random_calls(kDraws, [](const RandomCall& call, Draw& draw) {
    Recorded recorded(call, draw);
    const Var composed = recorded.composed();
    if (!composed.defined()) return;
    CHECK(distance(recorded.y.value(), composed.value()) < kExact);
    const std::vector<Tensor> gradients = recorded.pull(composed, recorded.u);
    for (std::size_t i = 0; i < gradients.size(); ++i) CHECK(distance(recorded.gradients[i], gradients[i]) < kExact);
  });
}

TEST_CASE("operations: several cotangents or tangents at once are so many sweeps") {
  for_random_calls(kDraws, [](const RandomCall& call, Draw& draw) {
    const auto dtype = draw.one_of({DType::float64, DType::float64, DType::float32, DType::bfloat16, DType::float16});
    CAPTURE(jnorm::to_string(dtype));
    Recorded recorded(call, draw, dtype);
    const Index copies = draw.between(1, 3);
    std::vector<Tensor> cotangents{recorded.u};
    while (static_cast<Index>(cotangents.size()) < copies) {
      cotangents.push_back(draw.normal(recorded.y.shape()).to(dtype));
    }
    const std::vector<Tensor> together = recorded.pull(recorded.y, stacked(cotangents));
    for (Index copy = 0; copy < copies; ++copy) {
      const std::vector<Tensor> alone = recorded.pull(recorded.y, cotangents[static_cast<std::size_t>(copy)]);
      for (std::size_t i = 0; i < alone.size(); ++i) {
        CHECK(distance(copy_of(together[i], copy), alone[i]) <= rounding(dtype));
      }
    }
    for (const Var& x : recorded.xs) {
      std::vector<Tensor> tangents;
      for (Index copy = 0; copy < copies; ++copy) tangents.push_back(draw.normal(x.shape()).to(dtype));
      const Tensor pushed = recorded.tape.push_forward(recorded.y, x, stacked(tangents));
      for (Index copy = 0; copy < copies; ++copy) {
        const Tensor alone = recorded.tape.push_forward(recorded.y, x, tangents[static_cast<std::size_t>(copy)]);
        CHECK(distance(copy_of(pushed, copy), alone) <= rounding(dtype));
      }
    }
  });
}

TEST_CASE("operations: no bit depends on the number of threads") {
  const auto check = [](const RandomCall& call, Draw& draw) {
    const int threads = thread_count();
    std::vector<std::vector<Tensor>> results;
    for (const int count : {1, 2, 5}) {
      set_thread_count(count);
      Draw same = draw;
      Recorded recorded(call, same);
      results.push_back(recorded.gradients);
      results.back().push_back(recorded.y.value());
    }
    set_thread_count(threads);
    CHECK(same_bits(results[0], results[1]));
    CHECK(same_bits(results[0], results[2]));
  };
  for_random_calls(5, check, Draw::Sizes::large);
}

TEST_CASE("operations: all witnesses agree to third order, at random shapes too") {
  for_random_calls(12, [](const RandomCall& call, Draw&) {
    Index elements = 0;
    for (const Tensor& input : call.inputs) elements += input.size();
    if (elements > 60) return;  // differences cost evaluations for each
    Tape tape;
    std::vector<Var> xs;
    for (const Tensor& input : call.inputs) xs.push_back(tape.variable(input));
    if (!is_finite(call.function(xs).value())) return;
    const GradientReport report = check_gradients(call.function, call.inputs, {.order = 3});
    CHECK_MESSAGE(report.passed(), to_string(report));
  });
}

namespace {

// A call in which one element of one input isn't finite.
struct Poisoned {
  RandomCall call;
  std::size_t input = 0;
  Index element = 0;
  double poison = 0.0;

  Poisoned(const RandomCall& clean, Draw& draw, std::initializer_list<double> poisons) : call(clean) {
    std::vector<std::size_t> choices;
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      if (call.inputs[i].size() > 0) choices.push_back(i);
    }
    if (choices.empty()) return;
    input = choices[static_cast<std::size_t>(draw.between(0, static_cast<Index>(choices.size()) - 1))];
    element = draw.between(0, call.inputs[input].size() - 1);
    poison = draw.one_of(poisons);
    call.inputs[input].mutable_data<double>()[element] = poison;
  }
};

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::initializer_list<double> kNotFinite{kNaN, kInfinity, -kInfinity};
constexpr std::initializer_list<double> kNaNAlone{kNaN};  // its array must live as long: no temporary list

// The elements in whose finiteness two tensors differ.
std::string disagreement(const Tensor& a, const Tensor& b) {
  const std::vector<double> left = a.values(), right = b.values();
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (std::isfinite(left[i]) != std::isfinite(right[i])) {
      return fmt::format("{} and {} at {}", left[i], right[i], i);
    }
  }
  return "";
}

}  // namespace

TEST_CASE("operations: fused and composed definitions agree in what a NaN or an infinity reaches") {
  for_random_calls(kDraws, [](const RandomCall& clean, Draw& draw) {
    const Poisoned poisoned(clean, draw, clean.has_limits ? kNaNAlone : kNotFinite);
    CAPTURE(poisoned.input);
    CAPTURE(poisoned.element);
    CAPTURE(poisoned.poison);
    Recorded recorded(poisoned.call, draw);
    const Var composed = recorded.composed();
    if (!composed.defined() || composed.value().size() == 0) return;  // without elements every gradient is 0
    CHECK(disagreement(recorded.y.value(), composed.value()) == "");
    const std::vector<Tensor> gradients = recorded.pull(composed, recorded.u);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      CAPTURE(i);
      CHECK(disagreement(recorded.gradients[i], gradients[i]) == "");
    }
  });
}

TEST_CASE("operations: a NaN or an infinity changes no other element, or no other row, of what keeps them apart") {
  for_random_calls(kDraws, [](const RandomCall& clean, Draw& draw) {
    const Poisoned poisoned(clean, draw, kNotFinite);
    if (poisoned.input != 0 || clean.reach == Reach::anywhere || clean.inputs[0].size() == 0) return;
    CAPTURE(poisoned.element);
    CAPTURE(poisoned.poison);
    Draw same = draw;
    const Recorded spoiled(poisoned.call, draw), whole(clean, same);
    const auto unit = [&](const Tensor& x) {
      return clean.reach == Reach::element ? 1 : std::max<Index>(x.row_length(), 1);
    };
    const Index where = poisoned.element / unit(clean.inputs[0]);
    const auto check = [&](Tensor ours, const Tensor& right) {
      const Index first = where * unit(right), count = std::min(unit(right), right.size() - first);
      if (count > 0) {
        std::copy_n(right.data<double>() + first, count, ours.mutable_data<double>() + first);
      }
      CHECK(same_bits(ours, right));
    };
    check(spoiled.y.value(), whole.y.value());
    check(spoiled.gradients[0], whole.gradients[0]);
  });
}
