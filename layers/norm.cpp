#include <jnorm/layers/norm.hpp>

#include <cmath>

#include <jnorm/layers/names.hpp>

namespace jnorm {

namespace {

constexpr Named<NormKind> kNorms[] = {{"layer", NormKind::layer}, {"rms", NormKind::rms}, {"none", NormKind::none}};

Index checked_dim(const char* norm, Index dim) {
  expect(dim > 0, "{}: expected a positive width, got {}", norm, dim);
  return dim;
}

double checked_eps(const char* norm, double eps) {
  expect(eps >= 0.0 && std::isfinite(eps), "{}: eps must be finite and not negative, but is {}", norm, eps);
  return eps;
}

}  // namespace

std::string to_string(NormKind kind) { return name_of(kNorms, kind); }

NormKind norm_kind_from_string(std::string_view name) { return value_named("norm", kNorms, name); }

LayerNorm::LayerNorm(Index dim, double eps)
    : gamma_(add_parameter("gamma", ones({checked_dim("layer_norm", dim)}))),
      beta_(add_parameter("beta", zeros({dim}))),
      eps_(checked_eps("layer_norm", eps)) {}

Var LayerNorm::forward(const Var& x, SourceLine line) {
  Tape& tape = x.tape();
  const Var gamma = tape.parameter(gamma_, line);
  const Var beta = tape.parameter(beta_, line);
  return layer_norm(x, gamma, beta, eps_, line);
}

RmsNorm::RmsNorm(Index dim, double eps)
    : gamma_(add_parameter("gamma", ones({checked_dim("rms_norm", dim)}))), eps_(checked_eps("rms_norm", eps)) {}

Var RmsNorm::forward(const Var& x, SourceLine line) {
  return rms_norm(x, x.tape().parameter(gamma_, line), eps_, line);
}

std::unique_ptr<Layer> make_norm(NormKind kind, Index dim, double eps) {
  switch (kind) {
    case NormKind::layer: return std::make_unique<LayerNorm>(dim, eps);
    case NormKind::rms: return std::make_unique<RmsNorm>(dim, eps);
    case NormKind::none: break;
  }
  return std::make_unique<Identity>();
}

}  // namespace jnorm
