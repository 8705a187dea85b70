#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace jnorm {

struct TransformerConfig;

// The models that the subject is taught with: each is a set of defaults, any of which can be changed.
enum class Architecture {
  plain,    // a decoder for derivations: ReLU, learned positions, x_0 of variance 1 (Xiong et al. 2020)
  vanilla,  // the first Transformer: encoder and decoder, Post-Norm, sinusoidal positions (Vaswani et al. 2017)
  bert,     // an encoder, Post-Norm, learned positions, masked tokens (Devlin et al. 2019)
  gpt2,     // a decoder, Pre-Norm, learned positions, tied embeddings (Radford et al. 2019)
  llama,    // a decoder, Pre-RMSNorm, rotary positions, SwiGLU, grouped queries (Touvron et al. 2023)
  qwen,     // as llama, with normalized queries and keys (Qwen 3); Qwen 2 has no such norm, but biases on q, k and v
};

std::string to_string(Architecture architecture);
Architecture architecture_from_string(std::string_view name);  // throws Error(argument) that lists the names
const std::vector<Architecture>& architectures();

// Sets everything that the architecture decides; sizes, dtype and dropout stay.
void apply_architecture(TransformerConfig& config, Architecture architecture);
// The same for default sizes.
TransformerConfig default_config(Architecture architecture);

}  // namespace jnorm
