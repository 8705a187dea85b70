#include <jnorm/layers/initialization.hpp>

#include <cmath>

#include <jnorm/layers/names.hpp>

namespace jnorm {

namespace {

constexpr Named<Initialization> kInitializations[] = {{"xavier", Initialization::xavier},
                                                      {"kaiming", Initialization::kaiming}};

}  // namespace

std::string to_string(Initialization initialization) { return name_of(kInitializations, initialization); }

Initialization initialization_from_string(std::string_view name) {
  return value_named("initialization", kInitializations, name);
}

double weight_deviation(Initialization initialization, Index in, Index out) {
  const Index features = initialization == Initialization::xavier ? in + out : in;
  return std::sqrt(2.0 / static_cast<double>(features));
}

}  // namespace jnorm
