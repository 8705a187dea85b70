#include <jnorm/autograd/gradcheck_verdict.hpp>

#include <algorithm>
#include <cmath>

#include <jnorm/autograd/gradcheck_recording.hpp>
#include <jnorm/core/expect.hpp>
#include <jnorm/core/operations.hpp>

namespace jnorm {

namespace {

// How much of the residual a verdict may leave unexplained.
constexpr double kUnexplained = 1e-6;
// What rounding to float32 leaves of a gradient's largest element: half a unit in the last place, or some of them from
// several operations; a single small element may come out ten times better.
constexpr double kLeastFloat32Noise = 0x1p-24 / 16;
constexpr double kMostFloat32Noise = 0x1p-24 * 16;

using Verdict = std::optional<GradientVerdict>;

bool all_finite(const Tensor& x) {
  const std::vector<double> values = x.values();
  return std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); });
}

// Each element replaced by the mean over the axes whose bit is set.
Tensor averaged(const Tensor& x, std::uint32_t axes) {
  Shape kept = x.shape();
  for (int axis = 0; axis < x.rank(); ++axis) {
    if ((axes >> axis & 1u) != 0) kept = kept.with_axis(axis, 1);
  }
  const double count = static_cast<double>(x.size()) / static_cast<double>(kept.size());
  return affine(broadcast_to(reshape(sum_axes(x, axes), kept), x.shape()), 1.0 / count, 0.0);
}

// (x - mean) / standard deviation over the axes.
Tensor normalized(const Tensor& x, std::uint32_t axes) {
  const Tensor centred = subtract(x, averaged(x, axes));
  return multiply(centred, rsqrt(averaged(square(centred), axes)));
}

// The multiple of the term that comes nearest to x, with a coefficient of its own for each place off the axes.
Tensor nearest_multiple(const Tensor& x, const Tensor& term, std::uint32_t axes) {
  const Tensor coefficient = divide(averaged(multiply(x, term), axes), averaged(square(term), axes));
  return multiply(coefficient, term);
}

Tensor swap_last_axes(const Tensor& x) {
  std::vector<int> axes;
  for (int axis = 0; axis < x.rank(); ++axis) axes.push_back(axis);
  std::swap(axes[axes.size() - 2], axes[axes.size() - 1]);
  return permute(x, axes);
}

// 1 at the slices whose indices on the axes set in `axes` are all `index` or, if that is negative, the last; else 0.
Tensor slice_mask(const Shape& shape, std::uint32_t axes, Index index) {
  Tensor mask = ones(shape, DType::float64);
  double* const values = mask.mutable_data<double>();
  for (Index e = 0; e < shape.size(); ++e) {
    Index rest = e;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      const Index at = rest % shape[axis];
      rest /= shape[axis];
      if ((axes >> axis & 1u) != 0 && at != (index < 0 ? shape[axis] - 1 : index)) values[e] = 0.0;
    }
  }
  return mask;
}

class Explanation {
 public:
  explicit Explanation(const GradientEvidence& evidence)
      : evidence_(evidence),
        i_(evidence.input),
        x_(evidence.inputs[i_]),
        name_(evidence.names[i_]),
        u_(evidence.cotangent),
        ours_(evidence.gradients[i_]),
        right_(pulled_back(i_, u_)),
        residual_(subtract(ours_, right_)) {}

  Verdict find() const {
    if (!all_finite(right_)) return {};
    if (!all_finite(ours_)) return non_finite();
    if (Verdict verdict = float32_noise()) return verdict;
    // So near to the differences' own error nothing can be told.
    if (largest_magnitude(residual_) * 1e-3 < evidence_.noise) return {};
    using Try = Verdict (Explanation::*)() const;
    for (const Try attempt : {&Explanation::zero, &Explanation::cotangent_ignored, &Explanation::swapped,
                              &Explanation::factor, &Explanation::operand_left_out, &Explanation::transposed,
                              &Explanation::missing_sum, &Explanation::reduced_too_much, &Explanation::term_dropped}) {
      if (Verdict verdict = (this->*attempt)()) return verdict;
    }
    return {};
  }

 private:
  // J^T u of one input, by differences.
  Tensor pulled_back(std::size_t input, const Tensor& u) const {
    Tensor result = Tensor::uninitialized(evidence_.inputs[input].shape(), DType::float64);
    const std::vector<Tensor>& columns = evidence_.jacobian_columns[input];
    for (std::size_t e = 0; e < columns.size(); ++e) result.output_data<double>()[e] = dot(columns[e], u);
    return result;
  }

  // Whether a wrong way to the gradient gives exactly what was found.
  bool explains(const Tensor& candidate) const { return is(ours_, candidate); }
  bool is(const Tensor& a, const Tensor& b) const {
    const double allowed = kUnexplained * norm(residual_) + evidence_.noise * std::sqrt(static_cast<double>(a.size()));
    return norm(subtract(a, b)) <= allowed;
  }

  template <class... Arguments>
  Verdict say(GradientFault fault, fmt::format_string<Arguments...> text, Arguments&&... arguments) const {
    return GradientVerdict{fault, i_, name_ + ": " + fmt::format(text, std::forward<Arguments>(arguments)...)};
  }

  Verdict non_finite() const {
    return say(GradientFault::non_finite, "its gradient holds a NaN or an infinity where the right one is finite");
  }

  Verdict float32_noise() const {
    const double error = largest_magnitude(residual_) / largest_magnitude(right_);
    if (!(error > kLeastFloat32Noise && error < kMostFloat32Noise)) return {};
    return say(GradientFault::float32_noise,
               "its gradient is right to 7 digits, as a float32 number is: something rounds to float32");
  }

  Verdict zero() const {
    if (largest_magnitude(ours_) > 0.0) return {};
    return say(GradientFault::zero,
               "its gradient is 0 everywhere: nothing is given back to it, or it was used by its "
               "value instead of as a recorded one");
  }

  Verdict cotangent_ignored() const {
    if (norm(subtract(evidence_.vjp(affine(u_, -2.0, 1.0)), ours_)) > 0.0) return {};
    return say(GradientFault::cotangent_ignored,
               "its gradient is the same for every cotangent: the backward doesn't multiply by dy");
  }

  Verdict swapped() const {
    for (std::size_t j = 0; j < evidence_.inputs.size(); ++j) {
      if (j == i_ || evidence_.inputs[j].shape() != x_.shape()) continue;
      if (explains(pulled_back(j, u_))) {
        return say(GradientFault::swapped, "it got the gradient of {}", evidence_.names[j]);
      }
    }
    return {};
  }

  // With fewer than three elements any gradient is nearly some multiple of another, so only telling factors count.
  Verdict factor() const {
    const double factor = dot(ours_, right_) / dot(right_, right_);
    const std::string meaning = meaning_of(factor);
    if (!explains(affine(right_, factor, 0.0)) || (meaning.empty() && x_.size() < 3)) return {};
    return say(GradientFault::factor, "its gradient is off by a factor of {:.6g}{}", factor, meaning);
  }

  std::string meaning_of(double factor) const {
    const auto equals = [&](double value) { return std::fabs(factor - value) < 1e-6 * std::fabs(value); };
    if (equals(-1)) return ": the sign is wrong";
    if (equals(2)) return ": counted twice, or a 1/2 is missing";
    if (equals(0.5)) return ": half of it is lost, or a 2 is missing";
    for (const auto& [count, what] : counts()) {
      if (equals(count)) return fmt::format(", {}: a mean's 1/N is missing, or it was added that often", what);
      if (equals(1.0 / count)) return fmt::format(", 1 over {}: it was divided by N, or only one of N was added", what);
    }
    return "";
  }

  // The sizes that a wrong factor may come from.
  std::vector<std::pair<double, std::string>> counts() const {
    std::vector<std::pair<double, std::string>> result;
    const auto add = [&](const Tensor& tensor, const std::string& of) {
      for (int axis = 0; axis < tensor.rank(); ++axis) {
        result.emplace_back(tensor.dim(axis), fmt::format("the size of axis {} of {}", axis, of));
      }
      result.emplace_back(tensor.size(), fmt::format("the number of elements of {}", of));
      result.emplace_back(tensor.rows(), fmt::format("the number of rows of {}", of));
    };
    add(x_, "it");
    add(evidence_.output, "the output");
    std::erase_if(result, [](const auto& count) { return count.first < 2.0; });
    return result;
  }

  Verdict transposed() const {
    if (x_.rank() >= 2 && x_.dim(-1) == x_.dim(-2) && explains(swap_last_axes(right_))) {
      return say(GradientFault::transposed, "its gradient is the transpose of the right one");
    }
    if (x_.shape() == u_.shape() && explains(pushed_forward(u_))) {
      return say(GradientFault::transposed, "it got J dy instead of J^T dy: a matrix in the backward isn't transposed");
    }
    return {};
  }

  // J v of the input in question, by differences.
  Tensor pushed_forward(const Tensor& v) const {
    Tensor result = zeros(evidence_.output.shape(), DType::float64);
    const std::vector<double> tangent = v.values();
    for (std::size_t e = 0; e < tangent.size(); ++e) {
      result = add(result, affine(evidence_.jacobian_columns[i_][e], tangent[e], 0.0));
    }
    return result;
  }

  // Along each axis of the output, and along all leading ones: a bias of [H] under [B, T, H] sums over B and T.
  Verdict missing_sum() const {
    const Shape& shape = u_.shape();
    for (int axis = 0; axis < 2 * shape.rank(); ++axis) {
      const bool leading = axis >= shape.rank();
      const std::uint32_t axes = leading ? (2u << (axis - shape.rank())) - 1u : 1u << axis;
      for (const Index index : {Index{0}, Index{-1}}) {
        if (!explains(pulled_back(i_, multiply(u_, slice_mask(shape, axes, index))))) continue;
        return say(GradientFault::missing_sum,
                   "its gradient is what the {} slice along {} {} of the output gives: the sum over {} is missing",
                   index == 0 ? "first" : "last", leading ? "the axes up to" : "axis", axis % shape.rank(),
                   leading ? "them" : "it");
      }
    }
    return {};
  }

  Verdict reduced_too_much() const {
    for (std::uint32_t axes = 1; axes < 1u << x_.rank(); ++axes) {
      const Tensor mean = averaged(right_, axes);
      const double count = static_cast<double>(x_.size()) / static_cast<double>(sum_axes(x_, axes).size());
      for (const bool summed : {false, true}) {
        if (!explains(affine(mean, summed ? count : 1.0, 0.0))) continue;
        return say(GradientFault::reduced_too_much, "its gradient is the {} of the right one over {}",
                   summed ? "sum" : "mean", axes_in_words(axes));
      }
    }
    return {};
  }

  std::string axes_in_words(std::uint32_t axes) const {
    std::vector<int> numbers;
    for (int axis = 0; axis < x_.rank(); ++axis) {
      if ((axes >> axis & 1u) != 0) numbers.push_back(axis);
    }
    if (static_cast<int>(numbers.size()) == x_.rank()) return "all elements";
    return fmt::format("{} {}", numbers.size() == 1 ? "axis" : "axes", fmt::join(numbers, ", "));
  }

  // y = gamma * n(x): the right one is n'(x)^T (gamma dy).
  Verdict operand_left_out() const {
    for (std::size_t j = 0; j < evidence_.inputs.size(); ++j) {
      const Tensor& gamma = evidence_.inputs[j];
      if (j == i_ || !u_.shape().has_suffix(gamma.shape())) continue;
      const Tensor without = pulled_back(i_, divide(u_, gamma));
      if (explains(without)) {
        return say(GradientFault::operand_left_out, "its gradient is the right one for dy where dy * {} belongs",
                   evidence_.names[j]);
      }
      if (without.shape().has_suffix(gamma.shape()) && explains(multiply(without, gamma))) {
        return say(GradientFault::operand_left_out,
                   "{} multiplies the result, where it belongs to dy before any mean is taken", evidence_.names[j]);
      }
    }
    return {};
  }

  Verdict term_dropped() const {
    for (const std::uint32_t axes : groups()) {
      for (const auto& [term, what] : terms(axes)) {
        if (!is(residual_, nearest_multiple(residual_, term, axes))) continue;
        return say(GradientFault::term_dropped, "one term is missing or too many: what is left over is {} over {}",
                   what, axes_in_words(axes));
      }
    }
    return {};
  }

  // Sets of axes over which a norm may take its means: all, the last, the first, all but the channels. Sets with fewer
  // than three elements prove nothing.
  std::vector<std::uint32_t> groups() const {
    const int rank = x_.rank();
    std::vector<std::uint32_t> result{(1u << rank) - 1u};
    if (rank >= 2) result.insert(result.end(), {1u << (rank - 1), 1u});
    if (rank >= 3) result.push_back(result[0] & ~2u);
    std::erase_if(result, [&](std::uint32_t axes) { return x_.size() < 3 * sum_axes(x_, axes).size(); });
    return result;
  }

  std::vector<std::pair<Tensor, std::string>> terms(std::uint32_t axes) const {
    std::vector<std::pair<Tensor, std::string>> result{
        {ones(x_.shape(), DType::float64), "constant, as a norm's mean(u) is,"},
        {x_, "proportional to x"},
        {normalized(x_, axes), "proportional to the normalized x, as a norm's x_hat mean(u x_hat) is,"}};
    if (u_.shape() != x_.shape()) return result;
    result.emplace_back(u_, "proportional to dy");
    result.emplace_back(evidence_.output, "proportional to y, as softmax's p sum(p dy) is,");
    result.emplace_back(multiply(x_, u_), "proportional to x dy");
    result.emplace_back(multiply(evidence_.output, u_), "proportional to y dy");
    return result;
  }

  const GradientEvidence& evidence_;
  std::size_t i_;
  const Tensor& x_;
  const std::string& name_;
  const Tensor& u_;
  const Tensor& ours_;
  Tensor right_;
  Tensor residual_;
};

}  // namespace

std::string to_string(GradientFault fault) {
  switch (fault) {
    case GradientFault::non_finite: return "non_finite";
    case GradientFault::zero: return "zero";
    case GradientFault::cotangent_ignored: return "cotangent_ignored";
    case GradientFault::swapped: return "swapped";
    case GradientFault::factor: return "factor";
    case GradientFault::transposed: return "transposed";
    case GradientFault::missing_sum: return "missing_sum";
    case GradientFault::reduced_too_much: return "reduced_too_much";
    case GradientFault::operand_left_out: return "operand_left_out";
    case GradientFault::term_dropped: return "term_dropped";
    case GradientFault::float32_noise: return "float32_noise";
    case GradientFault::wrong_jvp: return "wrong_jvp";
    case GradientFault::wrong_composition: return "wrong_composition";
  }
  return "";
}

std::optional<GradientVerdict> explain(const GradientEvidence& evidence) { return Explanation(evidence).find(); }

}  // namespace jnorm
