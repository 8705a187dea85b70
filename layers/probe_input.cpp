#include <jnorm/layers/probe_input.hpp>

namespace jnorm {

namespace {

Var drawn(Tape& tape, const Transformer& model, Index positions, Rng rng, const char* name) {
  const TransformerConfig& config = model.config();
  return tape.constant(randn({1, positions, config.dim}, rng, DType::float64).to(config.dtype).to(model.device()),
                       name);
}

}  // namespace

Var drawn_input(Tape& tape, const Transformer& model, Index positions, std::uint64_t seed) {
  return drawn(tape, model, positions, Rng(seed).split("probe"), "x0");
}

Pass drawn_pass(Tape& tape, const Transformer& model, Index positions, std::uint64_t seed) {
  if (model.config().kind != ModelKind::encoder_decoder) return {};
  return {.memory = drawn(tape, model, positions, Rng(seed).split("memory"), "memory")};
}

}  // namespace jnorm
