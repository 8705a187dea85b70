#pragma once

#include <functional>
#include <vector>

#include <jnorm/layers/transformer.hpp>

namespace jnorm {

// What stacks of blocks do to values and to derivatives before any training, by placement and depth. Jacobians aren't
// formed but multiplied with vectors, so a stack of 48 blocks takes a fraction of a second.

struct SurveyedPlacement {
  Placement placement;
  bool qk_norm;
};

// All placements as they are, and before those with a QK-norm of their own the same without it.
std::vector<SurveyedPlacement> surveyed_placements();

struct InitialSurveyOptions {
  TransformerConfig model = {};  // but for its placement, QK-norm and layers, which the survey sets
  std::vector<SurveyedPlacement> placements = surveyed_placements();
  std::vector<Index> depths = {6, 12, 24, 48};
  Index seeds = 5;  // of weights, inputs and cotangents: first_seed, first_seed + 1, ...
  std::uint64_t first_seed = 1;
  Index tokens = 16;      // positions of x_0 ~ N(0, 1), the same for all placements
  Index cotangents = 32;  // of each seed
  std::function<void(Index done)> on_stack =
      {};  // called when one of all the stacks is measured, by one thread at a time
};

// A figure of every seed.
struct SeededFigure {
  std::vector<double> values;

  double geometric_mean() const;
  // The factor by which a seed is off as a rule: exp of the standard deviation of log(value). 1 of a single seed.
  double spread() const;
};

struct InitialFigures {
  SurveyedPlacement placement;
  Index layers;
  SeededFigure mean_square;  // q_L = ||x_L||^2 / N
  // The gradient at the input over that at the output: the root mean square of ||J^T u|| over cotangents u of norm 1,
  // J = d x_L / d x_0. It estimates ||J||_F / sqrt(N).
  SeededFigure gradient_ratio;
};

// One for each placement and depth, in that order. Runs on all threads; its results don't depend on their number.
// Throws Error(argument) on sizes that can't be, and Error(non_finite) where a stack's values aren't finite.
std::vector<InitialFigures> survey_at_initialization(const InitialSurveyOptions& options);

}  // namespace jnorm
