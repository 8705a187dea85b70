#include <jnorm/layers/initialization.hpp>

#include <cmath>

#include <jnorm/layers/names.hpp>

namespace jnorm {

namespace {

constexpr Named<Initialization> kInitializations[] = {{"xavier", Initialization::xavier},
                                                      {"kaiming", Initialization::kaiming},
                                                      {"gpt2", Initialization::gpt2},
                                                      {"tfixup", Initialization::tfixup},
                                                      {"deepnorm", Initialization::deepnorm}};

constexpr double kGpt2Deviation = 0.02;

using Side = SublayerPlace::Side;

double tfixup_decoder_gain(Index layers) { return std::pow(9.0 * static_cast<double>(layers), -0.25); }

// Huang et al. 2020, section 3.2; a stack alone has the decoder's gain, which keeps the update of both bounded.
BranchGains tfixup_gains(const SublayerPlace& place) {
  const double gain = place.side == Side::encoder ? 0.67 * std::pow(static_cast<double>(place.layers), -0.25)
                                                  : tfixup_decoder_gain(place.layers);
  return {.inner = gain, .output = gain};
}

}  // namespace

std::string to_string(Initialization initialization) { return name_of(kInitializations, initialization); }

Initialization initialization_from_string(std::string_view name) {
  return value_named("initialization", kInitializations, name);
}

const std::vector<Initialization>& initializations() {
  static const std::vector<Initialization> all = values_of(kInitializations);
  return all;
}

double weight_deviation(Initialization initialization, Index in, Index out) {
  if (initialization == Initialization::gpt2) return kGpt2Deviation;
  const Index features = initialization == Initialization::kaiming ? in : in + out;
  return std::sqrt(2.0 / static_cast<double>(features));
}

BranchGains deepnorm_gains(const SublayerPlace& place) {
  const auto n = static_cast<double>(place.encoder_layers), m = static_cast<double>(place.decoder_layers);
  double beta = std::pow(8.0 * static_cast<double>(place.layers), -0.25);
  if (place.side == Side::encoder) beta = 0.87 * std::pow(n * n * n * n * m, -1.0 / 16.0);
  if (place.side == Side::decoder) beta = std::pow(12.0 * m, -0.25);
  return {.inner = beta, .output = beta};
}

BranchGains gpt2_gains(const SublayerPlace& place) {
  const double additions = static_cast<double>(place.layers) * (place.side == Side::decoder ? 3.0 : 2.0);
  return {.inner = 1.0, .output = 1.0 / std::sqrt(additions)};
}

BranchGains starting_gains(Initialization initialization, const SublayerPlace& place, const BranchGains& placement) {
  switch (initialization) {
    case Initialization::gpt2: return gpt2_gains(place);
    case Initialization::tfixup: return tfixup_gains(place);
    case Initialization::deepnorm: return deepnorm_gains(place);
    default: return placement;
  }
}

// Otherwise the addends of x_0 together have variance 1. That is the setting in which the block Jacobians are derived
// and measured (Xiong et al. 2020), and that of the original Transformer, whose N(0, 1/dim) rows are scaled by
// sqrt(dim). Much smaller ones, as GPT-2's, leave the first blocks of a Pre-Norm model with a branch that outweighs x:
// far from the identity for a reason that has nothing to do with the placement.
double embedding_deviation(Initialization initialization, const EmbeddingStart& start) {
  const double root_of_dim = std::sqrt(static_cast<double>(start.dim));
  if (initialization == Initialization::gpt2) return kGpt2Deviation;
  if (initialization == Initialization::tfixup) return tfixup_decoder_gain(start.layers) / root_of_dim;
  if (start.tied || start.scaled) return 1.0 / root_of_dim;  // logits of x_L ~ N(0, 1) have variance 1
  return 1.0 / std::sqrt(static_cast<double>(start.addends));
}

}  // namespace jnorm
