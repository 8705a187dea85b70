#include <jnorm/layers/feed_forward.hpp>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/layers/names.hpp>

namespace jnorm {

namespace {

constexpr Named<Activation> kActivations[] = {{"relu", Activation::relu},
                                              {"gelu", Activation::gelu},
                                              {"gelu_tanh", Activation::gelu_tanh},
                                              {"silu", Activation::silu}};

}  // namespace

std::string to_string(Activation activation) { return name_of(kActivations, activation); }

Activation activation_from_string(std::string_view name) { return value_named("activation", kActivations, name); }

const std::vector<Activation>& activations() {
  static const std::vector<Activation> all = values_of(kActivations);
  return all;
}

Var activate(Activation activation, const Var& x, SourceLine line) {
  switch (activation) {
    case Activation::relu: return relu(x, line);
    case Activation::gelu: return gelu(x, line);
    case Activation::gelu_tanh: return gelu_tanh(x, line);
    case Activation::silu: return silu(x, line);
  }
  fail(ErrorKind::argument, "activate: there is no activation {}", static_cast<int>(activation));
}

FeedForward::FeedForward(const FeedForwardConfig& config, const Rng& rng)
    : activation_(config.activation),
      up_(add_random<Linear>("up", rng, config.dim, config.ffn,
                             LinearOptions{config.bias, config.initialization, config.gains.inner})),
      down_(add_random<Linear>("down", rng, config.ffn, config.dim,
                               LinearOptions{config.bias, config.initialization, config.gains.output})) {
  if (!config.gated) return;
  gate_ = &add_random<Linear>("gate", rng, config.dim, config.ffn,
                              LinearOptions{config.bias, config.initialization, config.gains.inner});
}

Var FeedForward::forward(const Var& x, const Pass& /*pass*/, SourceLine /*line*/) {
  if (gate_ == nullptr) return down_(activate(activation_, up_(x)));
  return down_(activate(activation_, (*gate_)(x)) * up_(x));
}

}  // namespace jnorm
