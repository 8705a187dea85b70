#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <jnorm/core/random.hpp>
#include <jnorm/core/tensor.hpp>
#include <jnorm/layers/sublayer_place.hpp>

namespace jnorm {

// How the weights of linear maps start: normal, with mean 0 and this variance. Biases start at 0.
enum class Initialization {
  xavier,    // 2 / (in + out): Glorot and Bengio 2010; the setting of Xiong et al. 2020
  kaiming,   // 2 / in: He et al. 2015, keeps the scale of what a ReLU follows
  gpt2,      // 0.02^2, and what writes into the residual stream divided by sqrt(its additions): Radford et al. 2019
  tfixup,    // Xavier's, with the branches' gains of T-Fixup, which trains without norms: Huang et al. 2020
  deepnorm,  // Xavier's, with the branches' gains of DeepNorm, whatever the placement: Wang et al. 2022
};

std::string to_string(Initialization initialization);
Initialization initialization_from_string(std::string_view name);  // throws Error(argument) that lists the names
const std::vector<Initialization>& initializations();

// The standard deviation for a map from `in` to `out` features, in whatever layout its weight is stored.
double weight_deviation(Initialization initialization, Index in, Index out);

// What the starting weights of a branch are multiplied with.
struct BranchGains {
  double inner = 1.0;   // of the value map, and of the feed-forward branch's maps up
  double output = 1.0;  // of the maps that end a branch
  friend bool operator==(const BranchGains&, const BranchGains&) = default;
};

// beta of DeepNorm, for all of them (Wang et al. 2022, table 2).
BranchGains deepnorm_gains(const SublayerPlace& place);
// 1 / sqrt(a stack's additions to the stream) for the output maps: two additions a block, three in a decoder with
// cross-attention (Radford et al. 2019).
BranchGains gpt2_gains(const SublayerPlace& place);
// The placement's gains, unless the initialization has some of its own.
BranchGains starting_gains(Initialization initialization, const SublayerPlace& place, const BranchGains& placement);

// The standard deviation of the rows of an embedding that adds up with `addends` - 1 others.
struct EmbeddingStart {
  Index dim;
  int addends = 1;
  bool tied = false;    // the table is the map to the logits too
  bool scaled = false;  // rows are multiplied by sqrt(dim)
  Index layers = 1;     // of its stack
};
double embedding_deviation(Initialization initialization, const EmbeddingStart& start);

}  // namespace jnorm
