#include <jnorm/autograd/norm_paths.hpp>

#include <cmath>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/operations.hpp>

namespace jnorm {

namespace {

Tensor scalar(double value) { return full({}, value, DType::float64); }
Tensor scaled(const Tensor& x, double scale) { return affine(x, scale, 0.0); }

double mean(const Tensor& x) {
  double sum = 0.0;
  for (const double value : x.values()) sum += value;
  return sum / static_cast<double>(x.size());
}

struct Row {
  Tensor x, gamma, dy;  // [H], float64
};

Row checked_row(const char* norm, const Tensor& x, const Tensor& gamma, const Tensor& dy, double eps) {
  expect(x.defined() && x.rank() == 1 && x.size() > 0, "{}: one row of at least one number is expected, got {}", norm,
         x.defined() ? to_string(x.shape()) : "an undefined tensor");
  expect(gamma.defined() && gamma.shape() == x.shape(), "{}: x has {} numbers, but gamma has {}", norm, x.size(),
         gamma.defined() ? gamma.size() : 0);
  expect(dy.defined() && dy.shape() == x.shape(), "{}: x has {} numbers, but dy has {}", norm, x.size(),
         dy.defined() ? dy.size() : 0);
  expect(eps >= 0.0, "{}: eps must not be negative, but is {}", norm, eps);
  return {x.to(DType::float64), gamma.to(DType::float64), dy.to(DType::float64)};
}

// A norm divides by this.
void expect_divisor(const char* norm, const char* symbol, double divisor, const char* reason) {
  expect(divisor > 0.0, "{}: {} is 0 with {} and eps = 0, and there is no derivative", norm, symbol, reason);
  expect(std::isfinite(divisor), "{}: {} is {}: the numbers are too large or not finite", norm, symbol, divisor);
}

}  // namespace

const Tensor& NormPaths::value(std::string_view symbol) const {
  for (const auto* const steps : {&forward, &cotangent, &paths, &gradients}) {
    for (const DerivationStep& step : *steps) {
      if (step.symbol == symbol) return step.value;
    }
  }
  fail(ErrorKind::argument, "a norm's derivation has no step '{}'", symbol);
}

NormPaths layer_norm_backward_paths(const Tensor& row, const Tensor& row_gamma, const Tensor& row_dy, double eps) {
  const auto [x, gamma, dy] = checked_row("layer_norm", row, row_gamma, row_dy, eps);

  const double m = mean(x);
  const Tensor centred = affine(x, 1.0, -m);
  const double variance = mean(square(centred));
  const double s = std::sqrt(variance + eps);
  expect_divisor("layer_norm", "s", s, "all numbers of x equal");
  const Tensor x_hat = divide(centred, full(x.shape(), s, DType::float64));

  const Tensor u = multiply(gamma, dy);
  const double mean_u = mean(u);
  const double mean_u_x_hat = mean(multiply(u, x_hat));

  const Tensor direct = scaled(u, 1.0 / s);                                  // [LN.2a]
  const Tensor through_mean = full(x.shape(), -mean_u / s, DType::float64);  // [LN.2b]
  const Tensor through_variance = scaled(x_hat, -mean_u_x_hat / s);          // [LN.2c]
  const Tensor dx = add(add(direct, through_mean), through_variance);        // [LN.2]

  return {.forward = {{"[LN.1]", "m", "mean(x)", scalar(m)},
                      {"[LN.1]", "variance", "mean((x - m)^2)", scalar(variance)},
                      {"[LN.1]", "s", "sqrt(variance + eps)", scalar(s)},
                      {"[LN.1]", "x_hat", "(x - m) / s", x_hat},
                      {"[LN.1]", "y", "gamma x_hat", multiply(gamma, x_hat)}},
          .cotangent = {{"[LN.2]", "u", "gamma dy", u},
                        {"[LN.2]", "mean(u)", "", scalar(mean_u)},
                        {"[LN.2]", "mean(u x_hat)", "", scalar(mean_u_x_hat)}},
          .paths = {{"[LN.2a]", "directly", "u / s", direct},
                    {"[LN.2b]", "through the mean", "- mean(u) / s", through_mean},
                    {"[LN.2c]", "through the variance", "- x_hat mean(u x_hat) / s", through_variance}},
          .gradients = {{"[LN.2]", "dx", "(u - mean(u) - x_hat mean(u x_hat)) / s", dx},
                        {"[LN.3]", "dgamma", "dy x_hat", multiply(dy, x_hat)},
                        {"[LN.3]", "dbeta", "dy", dy}}};
}

NormPaths rms_norm_backward_paths(const Tensor& row, const Tensor& row_gamma, const Tensor& row_dy, double eps) {
  const auto [x, gamma, dy] = checked_row("rms_norm", row, row_gamma, row_dy, eps);

  const double mean_square = mean(square(x));
  const double r = std::sqrt(mean_square + eps);
  expect_divisor("rms_norm", "r", r, "all numbers of x 0");
  const Tensor x_hat = divide(x, full(x.shape(), r, DType::float64));

  const Tensor u = multiply(gamma, dy);
  const double mean_u_x_hat = mean(multiply(u, x_hat));

  const Tensor direct = scaled(u, 1.0 / r);                   // [RMS.2a]
  const Tensor through_r = scaled(x_hat, -mean_u_x_hat / r);  // [RMS.2b]
  const Tensor dx = add(direct, through_r);                   // [RMS.2]

  return {.forward = {{"[RMS.1]", "mean(x^2)", "", scalar(mean_square)},
                      {"[RMS.1]", "r", "sqrt(mean(x^2) + eps)", scalar(r)},
                      {"[RMS.1]", "x_hat", "x / r", x_hat},
                      {"[RMS.1]", "y", "gamma x_hat", multiply(gamma, x_hat)}},
          .cotangent = {{"[RMS.2]", "u", "gamma dy", u}, {"[RMS.2]", "mean(u x_hat)", "", scalar(mean_u_x_hat)}},
          .paths = {{"[RMS.2a]", "directly", "u / r", direct},
                    {"[RMS.2b]", "through r", "- x_hat mean(u x_hat) / r", through_r}},
          .gradients = {{"[RMS.2]", "dx", "(u - x_hat mean(u x_hat)) / r", dx},
                        {"[RMS.3]", "dgamma", "dy x_hat", multiply(dy, x_hat)}}};
}

}  // namespace jnorm
