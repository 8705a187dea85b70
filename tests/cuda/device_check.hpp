#pragma once

// What the tests of kernels on a device share.

#include "core/kernel_check.hpp"
#include "cuda/floating_types.hpp"
#include "cuda/test_device.hpp"

namespace jnorm::test {

inline const Kernels& device_kernels() { return test_device().kernels(); }
inline Tensor on_device(const Tensor& x) { return x.to(test_device()); }
// Filled where it is: a device's int32 tensor that was copied from the host keeps the host's values.
inline Tensor garbage_on_device(const Shape& shape, DType dtype) { return full(shape, kNaN, dtype, test_device()); }

}  // namespace jnorm::test
