#include "core/kernel_check.hpp"

using namespace jnorm;
using namespace jnorm::test;

namespace {

constexpr double kEps = 1e-5;

struct Normalized {
  Tensor y, mean, rstd;
};
Normalized layer_norm(const Tensor& x, const Tensor& gamma = {}, const Tensor& beta = {}, double eps = kEps) {
  Normalized result{garbage_like(x), garbage({x.rows()}, x.dtype()), garbage({x.rows()}, x.dtype())};
  cpu().layer_norm(x, gamma, beta, eps, result.y, result.mean, result.rstd);
  return result;
}
Normalized rms_norm(const Tensor& x, const Tensor& gamma = {}, double eps = kEps) {
  Normalized result{garbage_like(x), {}, garbage({x.rows()}, x.dtype())};
  cpu().rms_norm(x, gamma, eps, result.y, result.rstd);
  return result;
}

struct Gradients {
  Tensor dx, dgamma, dbeta;
};
Gradients layer_norm_gradients(const Tensor& dy, const Tensor& x, const Tensor& gamma, double eps = kEps) {
  const Normalized saved = layer_norm(x, gamma, {}, eps);
  const Index copies = x.size() == 0 ? 1 : dy.size() / x.size();
  const Tensor dgamma = garbage({copies, x.row_length()}, x.dtype()), dbeta = garbage_like(dgamma);
  Gradients result{garbage_like(dy), dgamma, dbeta};
  cpu().layer_norm_backward(dy, x, gamma, saved.mean, saved.rstd, {result.dx}, {dgamma}, {dbeta});
  return result;
}
Gradients rms_norm_gradients(const Tensor& dy, const Tensor& x, const Tensor& gamma, double eps = kEps) {
  const Normalized saved = rms_norm(x, gamma, eps);
  const Index copies = x.size() == 0 ? 1 : dy.size() / x.size();
  Gradients result{garbage_like(dy), garbage({copies, x.row_length()}, x.dtype()), {}};
  cpu().rms_norm_backward(dy, x, gamma, saved.rstd, {result.dx}, {result.dgamma});
  return result;
}

// The formulas, row by row in long double. Without centring it is RMSNorm.
struct Reference {
  std::vector<double> y, dx, dgamma, dbeta;

  Reference(bool centring, const Tensor& x, const Tensor& gamma, const Tensor& beta, const Tensor& dy, double eps) {
    const auto length = static_cast<std::size_t>(x.row_length()), rows = static_cast<std::size_t>(x.rows());
    const std::size_t copies = static_cast<std::size_t>(dy.size()) / (rows * length);
    const std::vector<double> xs = x.values(), gs = dy.values();
    const std::vector<double> scale = gamma.defined() ? gamma.values() : std::vector<double>(length, 1.0);
    const std::vector<double> shift = beta.defined() ? beta.values() : std::vector<double>(length, 0.0);
    std::vector<long double> sum_gamma(copies * length), sum_beta(copies * length);
    for (std::size_t i = 0; i < copies * rows; ++i) {
      const double* const row = xs.data() + i % rows * length;
      const double* const g = gs.data() + i * length;
      long double mean = 0, square = 0, mean_u = 0, mean_u_x_hat = 0;
      for (std::size_t j = 0; centring && j < length; ++j) mean += row[j] / static_cast<long double>(length);
      for (std::size_t j = 0; j < length; ++j) {
        square += (row[j] - mean) * (row[j] - mean) / static_cast<long double>(length);
      }
      const long double s = std::sqrt(square + eps);
      const auto x_hat = [&](std::size_t j) { return (row[j] - mean) / s; };
      for (std::size_t j = 0; j < length; ++j) {
        mean_u += scale[j] * static_cast<long double>(g[j]) / static_cast<long double>(length);
        mean_u_x_hat += scale[j] * static_cast<long double>(g[j]) * x_hat(j) / static_cast<long double>(length);
        sum_gamma[i / rows * length + j] += g[j] * x_hat(j);
        sum_beta[i / rows * length + j] += g[j];
      }
      for (std::size_t j = 0; j < length; ++j) {
        if (i < rows) y.push_back(static_cast<double>(scale[j] * x_hat(j) + shift[j]));
        const long double u = scale[j] * static_cast<long double>(g[j]);
        dx.push_back(static_cast<double>((u - (centring ? mean_u : 0.0L) - x_hat(j) * mean_u_x_hat) / s));
      }
    }
    dgamma.assign(sum_gamma.begin(), sum_gamma.end());
    dbeta.assign(sum_beta.begin(), sum_beta.end());
  }
};

}  // namespace

TEST_CASE("layer_norm: a row far from zero keeps its digits") {
  const auto ends = [](double mean) {
    std::vector<double> row;
    for (int i = 0; i < 16; ++i) row.push_back(mean + i * 1e-3);
    const Tensor y = layer_norm(tensor({1, 16}, row, DType::float32)).y;
    return std::vector<double>{y.at({0, 0}), y.at({0, 15})};
  };
  CHECK(distance(ends(0), {-1.34164, 1.34164}) < 1e-5);  // the right values have six digits
  CHECK(distance(ends(100), {-1.34153, 1.34136}) < 1e-5);
  CHECK(distance(ends(1000), {-1.34151, 1.34424}) < 1e-5);
  CHECK(distance(ends(10000), {-1.33133, 1.33133}) < 1e-5);
}

TEST_CASE("layer_norm: a shift of the row does not matter") {
  const std::vector<double> right{-1.341635, -0.447212, 0.447212, 1.341635};
  CHECK(distance(layer_norm(tensor({{40000, 40001, 40002, 40003}})).y, right) < 1e-6);
  CHECK(distance(layer_norm(tensor({{80000, 80001, 80002, 80003}})).y, right) < 1e-6);
}

TEST_CASE("layer_norm: one element that differs by one in 10240 is found") {
  std::vector<double> row(10240, 256.0);
  row.back() = 255.0;
  const Normalized result = layer_norm(tensor({1, 10240}, row, DType::float32));
  CHECK(relative_error(result.rstd.at({0}), 96.382816) < 1e-6);
  CHECK(relative_error(result.y.at({0, 0}), 0.00941238) < 1e-5);
  CHECK(relative_error(result.y.at({0, 10239}), -96.373404) < 1e-6);
}

TEST_CASE("layer_norm: a residual stream near 1449") {
  const Tensor x = tensor(
      {{1449.570556640625, 1448.8741455078125, 1450.650390625, 1449.2633056640625, 1449.7763671875, 1449.317138671875,
        1449.3297119140625, 1449.077880859375, 1449.2181396484375, 1449.4329833984375, 1449.1605224609375,
        1449.413330078125, 1449.7933349609375, 1450.066650390625, 1449.7762451171875, 1450.364990234375}});
  CHECK(distance(layer_norm(x).y, {0.00581, -1.49221, 2.32859, -0.65510, 0.44852, -0.53931, -0.51226, -1.05396,
                                   -0.75226, -0.29012, -0.87620, -0.33239, 0.48502, 1.07293, 0.44826, 1.71468}) <
        1e-5);  // five decimals are given
}

TEST_CASE("layer_norm: rows are normalized each by itself") {
  const std::vector<double> right{-1.341641, -0.447214, 0.447214, 1.341641};
  const Tensor y = layer_norm(tensor({{1, 2, 3, 4}, {100, 200, 300, 400}}), {}, {}, 0.0).y;
  CHECK(distance(copy_of(y, 0), right) < 1e-6);
  CHECK(distance(copy_of(y, 1), right) < 1e-6);
}

TEST_CASE("rms_norm: the mean stays") {
  CHECK(distance(rms_norm(tensor({{1, 2, 3, 4}}), {}, 0.0).y, {0.365148, 0.730297, 1.095445, 1.460593}) < 1e-6);
}

TEST_CASE("rms_norm: rows whose squares leave float32 are normalized") {
  for (const double size : {1e25, 1e-25}) {
    CHECK(distance(rms_norm(tensor({{size, size, size, -size}}), {}, 0.0).y, {1, 1, 1, -1}) < 1e-6);
  }
  CHECK(distance(rms_norm(tensor({{1e25, 1e25, 1e25, 1e25}})).y, {1, 1, 1, 1}) < 1e-6);
  CHECK(distance(rms_norm(tensor({{1e200, -1e200}}, DType::float64)).y, {1, -1}) < 1e-15);
}

TEST_CASE("layer_norm: rows whose squares leave float32 are normalized") {
  const std::vector<double> right{-1.341641, -0.447214, 0.447214, 1.341641};
  CHECK(distance(layer_norm(tensor({{1e25, 2e25, 3e25, 4e25}})).y, right) < 1e-6);
  CHECK(distance(layer_norm(tensor({{1e38, 1.1e38, 1.2e38, 1.3e38}})).y, right) < 1e-5);
  CHECK(distance(layer_norm(tensor({{1e-25, 2e-25, 3e-25, 4e-25}}), {}, {}, 0.0).y, right) < 1e-6);
  CHECK(distance(layer_norm(tensor({{1e200, 2e200, 3e200, 4e200}}, DType::float64)).y, right) < 1e-6);
}

TEST_CASE("layer_norm: a row whose squares leave float32 and whose mean is far from zero keeps its digits") {
  std::vector<double> values;
  for (int i = 0; i < 16; ++i) values.push_back((1000 + i) * 1e25);
  const Tensor x = tensor({1, 16}, values, DType::float32);
  const Reference right(true, x, {}, {}, zeros({1, 16}), kEps);
  CHECK(distance(layer_norm(x).y, right.y) < tolerance(DType::float32));
}

TEST_CASE("layer_norm: a row of equal elements is 0") {
  for (const double value : {0.0, 5.0, -1e30}) {
    CHECK(distance(layer_norm(full({1, 5}, value)).y, {0, 0, 0, 0, 0}) == 0.0);
  }
}

TEST_CASE("rms_norm: eps keeps its meaning beside a large element, and a zero row is zero") {
  std::vector<double> row(1024, 0.0);
  row[0] = 100.0;
  const Tensor y = rms_norm(tensor({1, 1024}, row, DType::float32)).y;
  CHECK(relative_error(y.at({0, 0}), 31.999984) < 1e-7);
  CHECK(y.at({0, 1}) == 0.0);
  CHECK(distance(rms_norm(zeros({1, 4})).y, {0, 0, 0, 0}) == 0.0);
}

TEST_CASE("norms: gradients of rows whose squares leave float32") {
  const Tensor dy = tensor({{1, -2, 0.5, 3}}), small = tensor({{1, 2, 3, 5}}),
               large = tensor({{1e25, 2e25, 3e25, 5e25}});
  const auto scaled = [](std::vector<double> values) {
    for (double& value : values) value *= 1e25;
    return values;
  };
  const Gradients layer = layer_norm_gradients(dy, large, {}), layer_small = layer_norm_gradients(dy, small, {}, 0.0);
  CHECK(distance(scaled(layer.dx.values()), layer_small.dx.values()) < 1e-6);
  CHECK(distance(layer.dgamma, layer_small.dgamma) < 1e-6);
  const Gradients rms = rms_norm_gradients(dy, large, {}), rms_small = rms_norm_gradients(dy, small, {}, 0.0);
  CHECK(distance(scaled(rms.dx.values()), rms_small.dx.values()) < 1e-6);
  CHECK(distance(rms.dgamma, rms_small.dgamma) < 1e-6);
}

TEST_CASE("norms: NaN and infinity are not hidden") {
  for (const double bad : {kNaN, kInfinity}) {
    const Tensor x = tensor({{1, bad, 3, 4}});
    CHECK(std::isnan(layer_norm(x).y.at({0, 1})));
    CHECK(std::isnan(rms_norm(x).y.at({0, 1})));
  }
}

TEST_CASE("layer_norm: values and gradients for every length, with and without gamma and beta [LN.1] [LN.2] [LN.3]") {
  for (const DType dtype : kWideTypes) {
    for (const Index length : kRowLengths) {
      const Tensor x = random({7, length}, dtype, 1), dy = random({7, length}, dtype, 2);
      const Tensor some_gamma = random({length}, dtype, 3), some_beta = random({length}, dtype, 4);
      for (const bool has_gamma : {false, true}) {
        for (const bool has_beta : {false, true}) {
          CAPTURE(dtype);
          CAPTURE(length);
          const Tensor gamma = has_gamma ? some_gamma : Tensor(), beta = has_beta ? some_beta : Tensor();
          const Reference right(true, x, gamma, beta, dy, 0.1);
          const Gradients gradients = layer_norm_gradients(dy, x, gamma, 0.1);
          CHECK(distance(layer_norm(x, gamma, beta, 0.1).y, right.y) < tolerance(dtype));
          CHECK(distance(gradients.dx, right.dx) < tolerance(dtype));
          CHECK(distance(gradients.dgamma, right.dgamma) < tolerance(dtype));
          CHECK(distance(gradients.dbeta, right.dbeta) < tolerance(dtype));
        }
      }
    }
  }
}

TEST_CASE("rms_norm: values and gradients for every length, with and without gamma [RMS.1] [RMS.2] [RMS.3]") {
  for (const DType dtype : kWideTypes) {
    for (const Index length : kRowLengths) {
      const Tensor x = random({7, length}, dtype, 1), dy = random({7, length}, dtype, 2);
      for (const Tensor& gamma : {Tensor(), random({length}, dtype, 3)}) {
        CAPTURE(dtype);
        CAPTURE(length);
        const Reference right(false, x, gamma, {}, dy, 0.1);
        const Gradients gradients = rms_norm_gradients(dy, x, gamma, 0.1);
        CHECK(distance(rms_norm(x, gamma, 0.1).y, right.y) < tolerance(dtype));
        CHECK(distance(gradients.dx, right.dx) < tolerance(dtype));
        CHECK(distance(gradients.dgamma, right.dgamma) < tolerance(dtype));
      }
    }
  }
}

TEST_CASE("rms_norm: gamma belongs inside the backward mean") {
  const Tensor dx = rms_norm_gradients(tensor({{1, 1, 0, 0}}), tensor({{1, 2, 3, 4}}), tensor({2, 1, 1, 1}), 0.0).dx;
  CHECK(distance(dx, {0.681610, 0.267775, -0.146059, -0.194746}) < 1e-6);
}

TEST_CASE("layer_norm: gradients of rows far from zero, whose saved mean is rounded") {
  std::vector<double> values;
  for (int row = 0; row < 4; ++row) {
    for (int column = 0; column < 16; ++column) values.push_back(10000.0 + column * 1e-3 + row * 1e-2);
  }
  const Tensor x = tensor({4, 16}, values, DType::float32), dy = random({4, 16}, DType::float32, 5);
  const Tensor gamma = random({16}, DType::float32, 6);
  const Reference right(true, x, gamma, {}, dy, kEps);
  const Gradients gradients = layer_norm_gradients(dy, x, gamma);
  CHECK(distance(gradients.dx, right.dx) < tolerance(DType::float32));
  CHECK(distance(gradients.dgamma, right.dgamma) < tolerance(DType::float32));
}

TEST_CASE("norms: ten thousand small contributions to dgamma add up") {
  const Tensor x = tensor({10000, 2}, std::vector<double>(20000, 1.0), DType::float32);
  const Tensor mean = zeros({10000}), rstd = ones({10000}), dy = full({10000, 2}, 0.001);
  const Tensor dgamma = garbage({2}, DType::float32), dbeta = garbage_like(dgamma);
  cpu().layer_norm_backward(dy, x, {}, mean, rstd, {}, {dgamma}, {dbeta});
  CHECK(distance(dbeta, {10, 10}) < 1e-6);
  cpu().rms_norm_backward(dy, x, {}, rstd, {}, {dgamma});
  CHECK(distance(dgamma, {10, 10}) < 1e-6);
}

TEST_CASE("norms: a tensor of rank 3 is its rows") {
  const Tensor x = random({2, 3, 4}, DType::float64, 1), dy = random({2, 3, 4}, DType::float64, 2);
  const Tensor gamma = random({4}, DType::float64, 3), flat_x = x.reshape({6, 4}), flat_dy = dy.reshape({6, 4});
  CHECK(identical(layer_norm(x, gamma).y.reshape({6, 4}), layer_norm(flat_x, gamma).y));
  const Gradients got = layer_norm_gradients(dy, x, gamma), flat = layer_norm_gradients(flat_dy, flat_x, gamma);
  CHECK(identical(got.dx.reshape({6, 4}), flat.dx));
  CHECK(identical(got.dgamma, flat.dgamma));
  CHECK(identical(got.dbeta, flat.dbeta));
}

TEST_CASE("norms: no rows give zero parameter gradients, and rows without elements give none") {
  const Gradients no_rows = layer_norm_gradients(zeros({0, 4}), zeros({0, 4}), ones({4}));
  CHECK(no_rows.dx.size() == 0);
  CHECK(distance(no_rows.dgamma, {0, 0, 0, 0}) == 0.0);
  CHECK(distance(no_rows.dbeta, {0, 0, 0, 0}) == 0.0);
  CHECK(distance(rms_norm_gradients(zeros({0, 4}), zeros({0, 4}), ones({4})).dgamma, {0, 0, 0, 0}) == 0.0);
  CHECK(layer_norm_gradients(zeros({4, 0}), zeros({4, 0}), zeros({0})).dgamma.size() == 0);
  CHECK(rms_norm_gradients(zeros({4, 0}), zeros({4, 0}), zeros({0})).dgamma.size() == 0);
}

TEST_CASE("norms: several cotangents at once are several backwards") {
  for (const DType dtype : kWideTypes) {
    const Tensor x = random({5, 17}, dtype, 1), dy = random({3, 5, 17}, dtype, 2), gamma = random({17}, dtype, 3);
    const Gradients layer = layer_norm_gradients(dy, x, gamma), rms = rms_norm_gradients(dy, x, gamma);
    for (Index copy = 0; copy < 3; ++copy) {
      const Gradients one = layer_norm_gradients(copy_of(dy, copy), x, gamma);
      CHECK(identical(copy_of(layer.dx, copy), one.dx));
      CHECK(identical(copy_of(layer.dgamma, copy), copy_of(one.dgamma, 0)));
      CHECK(identical(copy_of(layer.dbeta, copy), copy_of(one.dbeta, 0)));
      const Gradients other = rms_norm_gradients(copy_of(dy, copy), x, gamma);
      CHECK(identical(copy_of(rms.dx, copy), other.dx));
      CHECK(identical(copy_of(rms.dgamma, copy), copy_of(other.dgamma, 0)));
    }
  }
}

TEST_CASE("norms: gradients are added where the destination says so") {
  const DType dtype = DType::float64;
  const Tensor x = random({5, 17}, dtype, 1), dy = random({5, 17}, dtype, 2), gamma = random({17}, dtype, 3);
  const auto plus_one = [](std::vector<double> values) {
    for (double& value : values) value += 1.0;
    return values;
  };
  const Normalized layer = layer_norm(x, gamma), rms = rms_norm(x, gamma);
  const Gradients right = layer_norm_gradients(dy, x, gamma), right_rms = rms_norm_gradients(dy, x, gamma);
  const Tensor dx = ones({5, 17}, dtype), dgamma = ones({17}, dtype), dbeta = ones({17}, dtype);
  cpu().layer_norm_backward(dy, x, gamma, layer.mean, layer.rstd, {dx, true}, {dgamma, true}, {dbeta, true});
  CHECK(distance(dx, plus_one(right.dx.values())) < tolerance(dtype));
  CHECK(distance(dgamma, plus_one(right.dgamma.values())) < tolerance(dtype));
  CHECK(distance(dbeta, plus_one(right.dbeta.values())) < tolerance(dtype));
  const Tensor rms_dx = ones({5, 17}, dtype), rms_dgamma = ones({17}, dtype);
  cpu().rms_norm_backward(dy, x, gamma, rms.rstd, {rms_dx, true}, {rms_dgamma, true});
  CHECK(distance(rms_dx, plus_one(right_rms.dx.values())) < tolerance(dtype));
  CHECK(distance(rms_dgamma, plus_one(right_rms.dgamma.values())) < tolerance(dtype));
}

TEST_CASE("norms: a gradient that nobody wants is left out") {
  const DType dtype = DType::float64;
  const Tensor x = random({5, 17}, dtype, 1), dy = random({5, 17}, dtype, 2);
  const Normalized saved = layer_norm(x);
  const Gradients right = layer_norm_gradients(dy, x, {});
  const Tensor dgamma = garbage({17}, dtype), dbeta = garbage({17}, dtype);
  cpu().layer_norm_backward(dy, x, {}, saved.mean, saved.rstd, {}, {}, {});
  cpu().layer_norm_backward(dy, x, {}, saved.mean, saved.rstd, {}, {dgamma}, {});
  cpu().layer_norm_backward(dy, x, {}, saved.mean, saved.rstd, {}, {}, {dbeta});
  cpu().rms_norm_backward(dy, x, {}, saved.rstd, {}, {});
  CHECK(distance(dgamma, right.dgamma) < tolerance(dtype));
  CHECK(distance(dbeta, right.dbeta) < tolerance(dtype));
}

TEST_CASE("norms: the cotangent is not written") {
  const Tensor x = random({5, 17}, DType::float32, 1), dy = random({5, 17}, DType::float32, 2), before = dy.clone();
  layer_norm_gradients(dy, x, {});
  rms_norm_gradients(dy, x, {});
  CHECK(identical(dy, before));
}

TEST_CASE("norms: results do not depend on the number of threads") {
  const Tensor x = random({3000, 64}, DType::float32, 1), dy = random({3000, 64}, DType::float32, 2);
  const Tensor gamma = random({64}, DType::float32, 3);
  CHECK(independent_of_threads([&] { return layer_norm(x, gamma).y; }));
  CHECK(independent_of_threads([&] { return layer_norm_gradients(dy, x, gamma).dx; }));
  CHECK(independent_of_threads([&] { return layer_norm_gradients(dy, x, gamma).dgamma; }));
  CHECK(independent_of_threads([&] { return layer_norm_gradients(dy, x, gamma).dbeta; }));
  CHECK(independent_of_threads([&] { return rms_norm(x, gamma).y; }));
  CHECK(independent_of_threads([&] { return rms_norm_gradients(dy, x, gamma).dgamma; }));
}

TEST_CASE("norms: int32 is refused by name") {
  CHECK_THROWS_WITH_AS(layer_norm(zeros({2, 4}, DType::int32)), doctest::Contains("int32"), Error);
  CHECK_THROWS_WITH_AS(rms_norm(zeros({2, 4}, DType::int32)), doctest::Contains("int32"), Error);
}
