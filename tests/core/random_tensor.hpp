#pragma once

#include <random>
#include <vector>

#include <jnorm/core/tensor.hpp>

namespace jnorm {

// Elements uniform in [-1, 1), the same for the same seed, already rounded to the dtype.
inline Tensor random_tensor(const Shape& shape, DType dtype, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<double> values(static_cast<std::size_t>(shape.size()));
  for (double& value : values) value = uniform(generator);
  return tensor(shape, values, dtype);
}

}  // namespace jnorm
