#pragma once

#include <string>
#include <string_view>

#include <jnorm/core/random.hpp>
#include <jnorm/core/tensor.hpp>

namespace jnorm {

// How the weights of linear maps start: normal, with mean 0 and this variance.
enum class Initialization {
  xavier,   // 2 / (in + out): Glorot and Bengio 2010; the setting of Xiong et al. 2020
  kaiming,  // 2 / in: He et al. 2015, keeps the scale of what a ReLU follows
};

std::string to_string(Initialization initialization);
Initialization initialization_from_string(std::string_view name);  // throws Error(argument) that lists the names

// The standard deviation for a map from `in` to `out` features, in whatever layout its weight is stored.
double weight_deviation(Initialization initialization, Index in, Index out);

}  // namespace jnorm
