#include <jnorm/layers/probe_input.hpp>

namespace jnorm {

namespace {

Var drawn(Tape& tape, const TransformerConfig& config, Index positions, Rng rng, const char* name) {
  return tape.constant(randn({1, positions, config.dim}, rng, DType::float64).to(config.dtype), name);
}

}  // namespace

Var drawn_input(Tape& tape, const TransformerConfig& config, Index positions, std::uint64_t seed) {
  return drawn(tape, config, positions, Rng(seed).split("probe"), "x0");
}

Pass drawn_pass(Tape& tape, const TransformerConfig& config, Index positions, std::uint64_t seed) {
  if (config.kind != ModelKind::encoder_decoder) return {};
  return {.memory = drawn(tape, config, positions, Rng(seed).split("memory"), "memory")};
}

}  // namespace jnorm
