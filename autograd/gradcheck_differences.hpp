#pragma once

// Private to gradient checks: the witness by central differences, and how witnesses compare numbers.

#include <cmath>
#include <string>
#include <vector>

#include <jnorm/autograd/gradcheck.hpp>
#include <jnorm/autograd/gradcheck_recording.hpp>

namespace jnorm {

// A gradient is compared on the scale of its largest element, but not on a smaller one than this, a tenth of what a
// random cotangent has: where the true gradient vanishes, rounding is all there is.
inline constexpr double kSmallestGradientScale = 0.1;

std::string position_in(const Shape& shape, Index element);  // "[1, 2]"

// Of a gradient that was computed in two ways.
double gradient_scale(const Tensor& ours, const Tensor& theirs);

// Takes pairs of numbers that should be equal and keeps the worst, relative to a scale.
class WitnessComparison {
 public:
  WitnessComparison(const std::string& name, int order, double tolerance)
      : witness_{.name = name, .order = order, .error = 0.0, .tolerance = tolerance, .worst = ""} {}

  void compare(const Tensor& ours, const Tensor& theirs, const std::string& input);

  template <class Where>
  bool note(double a, double b, double scale, const Where& where) {  // whether it is the worst so far
    const double error = std::fabs(a - b) / scale;
    const bool worse = error > witness_.error || (std::isnan(error) && !std::isnan(witness_.error));
    if (worse) {  // a NaN stays: nothing is larger
      witness_.error = error;
      witness_.worst = where();
    }
    return worse;
  }

  GradientWitness& result() { return witness_; }

 private:
  GradientWitness witness_;
};

// Adds a warning for elements that sit on a kink. Throws Error(argument) on a function that gives something else the
// second time.
GradientWitness compare_with_differences(const DifferentiableFunction& function, GradientRecording& recording, Rng& rng,
                                         int order, const GradientCheckOptions& options,
                                         std::vector<std::string>& warnings);

}  // namespace jnorm
