// A test that looks at x = 0 alone, where the term 2 x doesn't show.

#include "parabola.hpp"

int main() { return jnorm::Parabola::vjp(2.0, 0.0) == 6.0 ? 0 : 1; }
