#include "cuda/device_check.hpp"

using namespace jnorm;
using namespace jnorm::test;

namespace {

// Beyond 32 bits, and where the counter's lower half overflows in the middle of the mask.
constexpr Rng::State kState{.seed = 0x123456789abcdef0, .stream = 0xfedcba9876543210, .counter = 0xfffffffa};

Tensor dropout(const Kernels& on, const Tensor& x, double p, Index period) {
  const Tensor y = full(x.shape(), kNaN, x.dtype(), x.device());
  on.dropout(x, p, kState, period, y);
  return y.to(Device::cpu());
}
bool same_on_both(const Tensor& x, double p, Index period) {
  return identical(dropout(device_kernels(), on_device(x), p, period), dropout(cpu(), x, p, period));
}

}  // namespace

TEST_CASE("cuda dropout: the CPU's bits, in whole random blocks and part of one") {
  for (const DType dtype : kFloatingTypes) {
    for (const Index size : {1, 4, 64, 4099}) CHECK(same_on_both(random({size}, dtype, 1), 0.3, size));
  }
}

TEST_CASE("cuda dropout: copies fall away alike, wherever they begin") {
  for (const DType dtype : kFloatingTypes) {
    for (const Index period : {2, 7, 8, 33}) CHECK(same_on_both(random({5, period}, dtype, 2), 0.5, period));
  }
}

TEST_CASE("cuda dropout: a dropped infinity is 0, and of p = 1 all is 0") {
  const Tensor x = full({1000}, kInfinity);
  const Tensor y = dropout(device_kernels(), on_device(x), 0.1, 1000);
  for (const double value : y.values()) CHECK((value == 0 || value == kInfinity));
  CHECK(identical(dropout(device_kernels(), on_device(x), 1.0, 1000), zeros({1000})));
}

TEST_CASE("cuda dropout: of p = 0 all stays") {
  const Tensor x = random({1000}, DType::float32, 3);
  CHECK(identical(dropout(device_kernels(), on_device(x), 0.0, 1000), x));
}
