// What the self-check of the mutation run mutates: y = x^2 + 3 x, dx = dy (2 x + 3).

#include "parabola.hpp"

namespace jnorm {

double Parabola::vjp(double dy, double x) { return dy * (2.0 * x + 3.0); }

}  // namespace jnorm
