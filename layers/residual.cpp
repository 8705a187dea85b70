#include <jnorm/layers/residual.hpp>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/core/expect.hpp>

namespace jnorm {

namespace {

ResidualRule checked(const ResidualRule& rule) {
  expect(!rule.norm_branch || !rule.norm_sum, "residual: a norm of the branch and one of the sum exclude each other");
  expect(!rule.norm_skip || rule.norm_input, "residual: norm_skip needs norm_input");
  return rule;
}

Var scaled(const Var& x, double factor) { return factor == 1.0 ? x : factor * x; }

}  // namespace

ResidualSublayer::ResidualSublayer(const ResidualRule& rule, const NormConfig& norm, std::unique_ptr<Layer> branch,
                                   double dropout)
    : rule_(checked(rule)), dim_(norm.dim) {
  if (rule.norm_input) input_norm_ = &add("norm", make_norm(norm));
  if (rule.norm_branch || rule.norm_sum) {
    output_norm_ = &add(input_norm_ != nullptr ? "output_norm" : "norm", make_norm(norm));
  }
  branch_ = &add("branch", std::move(branch));
  if (dropout > 0.0) dropout_ = &add("dropout", std::make_unique<Dropout>(dropout));
  if (rule.gain != ResidualRule::Gain::none) {
    const Shape shape{rule.gain == ResidualRule::Gain::scalar ? 1 : norm.dim};
    lambda_ = &add_parameter("lambda", full(shape, rule.gain_start));
  }
}

Var ResidualSublayer::forward(const Var& x, const Pass& pass, SourceLine line) {
  if (!rule_.two_streams) return join(x, pass).y;
  const Var first = slice(x, -1, {.stop = dim_}, line);  // [..., 2 dim] -> two times [..., dim]
  const Var second = slice(x, -1, {.start = dim_}, line);
  const Joined joined = join(first, pass);
  return concat({joined.y, second + joined.added}, -1, line);
}

ResidualSublayer::Joined ResidualSublayer::join(const Var& x, const Pass& pass) {
  const Var normalized = input_norm_ != nullptr ? (*input_norm_)(x, pass) : x;
  const Var added = added_by_branch(scaled(normalized, rule_.input_scale), pass);
  Var sum = scaled(rule_.norm_skip ? normalized : x, rule_.skip_scale) + added;
  if (rule_.adds_block_input && pass.block_input.defined()) sum = sum + pass.block_input;
  return {.y = rule_.norm_sum ? (*output_norm_)(sum, pass) : sum, .added = added};
}

Var ResidualSublayer::added_by_branch(const Var& x, const Pass& pass) {
  Var f = (*branch_)(x, pass);
  if (rule_.norm_branch) f = (*output_norm_)(f, pass);
  if (dropout_ != nullptr) f = (*dropout_)(f, pass);
  return lambda_ != nullptr ? f * parameter_for(f, *lambda_, SourceLine::here()) : f;
}

}  // namespace jnorm
