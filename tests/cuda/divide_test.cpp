#include <doctest/doctest.h>

#include <jnorm/cuda/divide.cuh>

using namespace jnorm;
using cuda::Divisor;

TEST_CASE("cuda divisor: quotients are those of integer division, at and around multiples") {
  constexpr Index below_32_bits = (Index{1} << 31) - 1;
  for (const Index d : {Index{1}, Index{2}, Index{3}, Index{7}, Index{641}, Index{4093}, Index{65536}, Index{131071},
                        below_32_bits - 1, below_32_bits, below_32_bits + 1, Index{1} << 40}) {
    const Divisor divisor(d);
    for (const Index multiple : {Index{0}, d, 3 * d, below_32_bits / d * d, (Index{1} << 33) / d * d}) {
      for (const Index n : {multiple - 1, multiple, multiple + 1}) {
        if (n < 0) continue;
        CAPTURE(n);
        CAPTURE(d);
        CHECK(divisor.quotient(n) == n / d);
        CHECK(divisor.remainder(n) == n % d);
      }
    }
  }
}
