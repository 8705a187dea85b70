#include <jnorm/layers/non_finite.hpp>

#include <fmt/format.h>

#include <jnorm/autograd/non_finite.hpp>
#include <jnorm/core/expect.hpp>

namespace jnorm {

std::string describe_non_finite_weight(const NamedTensors& weights) {
  for (const auto& [name, tensor] : weights) {
    const Index element = first_non_finite(tensor);
    if (element >= 0) return fmt::format("weight {} {} is {}", name, tensor.shape(), describe_element(tensor, element));
  }
  return "";
}

}  // namespace jnorm
