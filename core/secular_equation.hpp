#pragma once

#include <span>
#include <vector>

namespace jnorm {

// A direction that a projection takes out wholly (kept = 0) or in part: it maps the unit vector to kept times itself.
struct ProjectedDirection {
  std::vector<double> unit;  // [n]
  double kept;               // in [0, 1]
};

// The eigenvalues of diag(d) (I - sum over k of (1 - kept_k) e_k e_k^T), in descending order, for at most two
// directions e_k that are orthogonal to each other. They are real, whatever the signs of d are.
//
// Without a matrix: each from a few evaluations of a 2 x 2 one, O(n^2) for all. Where no d is negative, the error is a
// few units in the last place, and for tiny ones besides 1e-31 of the largest, so that their square roots are right to
// 1e-15 of the largest. Derivation: core/secular_equation.md.
//
// Throws Error(non_finite) on a d that isn't finite, and Error(argument) on directions that aren't as said.
std::vector<double> scaled_projection_eigenvalues(std::span<const double> d,
                                                  std::span<const ProjectedDirection> directions);

}  // namespace jnorm
