#include "cuda/device_check.hpp"

using namespace jnorm;
using namespace jnorm::test;

namespace {

constexpr double kEps = 1e-5;
enum class Norm : std::uint8_t { layer, rms, scale };
constexpr std::array kNorms{Norm::layer, Norm::rms, Norm::scale};

// gamma, beta and g may be undefined. dy has K copies of x's rows.
struct Inputs {
  Tensor x, gamma = {}, beta = {}, g = {}, dy = {};
  double eps = kEps;

  template <class F>
  Inputs each(const F& f) const {
    const auto given = [&](const Tensor& tensor) { return tensor.defined() ? f(tensor) : tensor; };
    return {given(x), given(gamma), given(beta), given(g), given(dy), eps};
  }
};
struct Saved {
  Tensor y, mean, rstd;
};
struct Gradients {
  Tensor dx, dgamma, dbeta;  // dg of ScaleNorm is its dgamma
};
struct Results {
  Saved saved;
  Gradients gradients;
};

Tensor uninitialized_beside(const Tensor& x, const Shape& shape, DType dtype) {
  return full(shape, kNaN, dtype).to(x.device());
}

Saved forward(Norm norm, const Inputs& in) {
  const Tensor& x = in.x;
  const auto statistic = [&] { return uninitialized_beside(x, {x.rows()}, statistics_dtype(x.dtype())); };
  const Saved saved{uninitialized_beside(x, x.shape(), x.dtype()), statistic(), statistic()};
  const Kernels& kernels = x.device().kernels();
  if (norm == Norm::layer) kernels.layer_norm(x, in.gamma, in.beta, in.eps, saved.y, saved.mean, saved.rstd);
  if (norm == Norm::rms) kernels.rms_norm(x, in.gamma, in.eps, saved.y, saved.rstd);
  if (norm == Norm::scale) kernels.scale_norm(x, in.g, in.eps, saved.y, saved.rstd);
  return saved;
}

Gradients outputs(Norm norm, const Inputs& in, double fill = kNaN) {
  const Tensor& x = in.x;
  const Index copies = x.size() == 0 ? 1 : in.dy.size() / x.size();
  const auto output = [&](const Shape& shape) { return full(shape, fill, x.dtype()).to(x.device()); };
  const Shape parameter = norm == Norm::scale ? Shape{copies} : Shape{copies, x.row_length()};
  return {output(in.dy.shape()), output(parameter), output(parameter)};
}

void backward(Norm norm, const Inputs& in, const Saved& saved, const Destination& dx, const Destination& dgamma,
              const Destination& dbeta) {
  const Kernels& kernels = in.x.device().kernels();
  if (norm == Norm::layer) {
    kernels.layer_norm_backward(in.dy, in.x, in.gamma, saved.mean, saved.rstd, dx, dgamma, dbeta);
  } else if (norm == Norm::rms) {
    kernels.rms_norm_backward(in.dy, in.x, in.gamma, saved.rstd, dx, dgamma);
  } else {
    kernels.scale_norm_dx(in.dy, in.x, in.g, saved.rstd, dx);
    kernels.scale_norm_dg(in.dy, in.x, saved.rstd, dgamma);
  }
}

Results run(Norm norm, const Inputs& in) {
  const Saved saved = forward(norm, in);
  const Gradients gradients = outputs(norm, in);
  backward(norm, in, saved, {gradients.dx}, {gradients.dgamma}, {gradients.dbeta});
  return {saved, gradients};
}
Results run_on_device(Norm norm, const Inputs& in) { return run(norm, in.each(on_device)); }

// The CPU's, in float64 on the same elements.
Results right_results(Norm norm, const Inputs& in) {
  return run(norm, in.each([](const Tensor& tensor) { return tensor.to(DType::float64); }));
}

Inputs random_inputs(Index rows, Index length, DType dtype, Index copies = 1) {
  return {.x = random({rows, length}, dtype, 1),
          .gamma = random({length}, dtype, 2),
          .beta = random({length}, dtype, 3),
          .g = random({}, dtype, 4),
          .dy = random({copies, rows, length}, dtype, 5)};
}

// What sums over rows lose, and the one rounding of a narrow result.
double rounding_of_sums(DType dtype) { return std::max(a_few_roundings(dtype), tolerance(statistics_dtype(dtype))); }

double forward_error(Norm norm, const Inputs& in) {
  return distance(forward(norm, in.each(on_device)).y, right_results(norm, in).saved.y);
}

void check_against_cpu(Norm norm, const Inputs& in) {
  const DType dtype = in.x.dtype();
  const Results got = run_on_device(norm, in), right = right_results(norm, in);
  CAPTURE(static_cast<int>(norm));
  CAPTURE(dtype);
  CAPTURE(in.x.row_length());
  CHECK(distance(got.saved.y, right.saved.y) < rounding_of_sums(dtype));
  CHECK(distance(got.saved.rstd, right.saved.rstd) < tolerance(statistics_dtype(dtype)));
  const std::vector<double> rstds = right.saved.rstd.values();
  const double largest_rstd = *std::max_element(rstds.begin(), rstds.end());  // multiplies the errors of what dx sums
  CHECK(distance(got.gradients.dx, right.gradients.dx) < rounding_of_sums(dtype) * std::max(1.0, largest_rstd));
  CHECK(distance(got.gradients.dgamma, right.gradients.dgamma) < rounding_of_sums(dtype));
  if (norm != Norm::layer) return;
  CHECK(distance(got.saved.mean, right.saved.mean) < tolerance(statistics_dtype(dtype)));
  CHECK(distance(got.gradients.dbeta, right.gradients.dbeta) < rounding_of_sums(dtype));
}

// A warp's rows in registers, a block's, and long rows; whole packs, and odd lengths.
constexpr std::array<Index, 15> kDeviceLengths{1,   3,   17,   33,   64,   131,  256,  320,
                                               512, 520, 1017, 1032, 3584, 4099, 16392};

// Values around 1449 whose saved mean is rounded.
const std::vector<double> kResiduals{1449.570556640625,  1448.8741455078125, 1450.650390625,     1449.2633056640625,
                                     1449.7763671875,    1449.317138671875,  1449.3297119140625, 1449.077880859375,
                                     1449.2181396484375, 1449.4329833984375, 1449.1605224609375, 1449.413330078125,
                                     1449.7933349609375, 1450.066650390625,  1449.7762451171875, 1450.364990234375};

Tensor repeated(const std::vector<double>& values, Index rows, Index length, DType dtype) {
  std::vector<double> all;
  for (Index i = 0; i < rows * length; ++i) all.push_back(values[static_cast<std::size_t>(i) % values.size()]);
  return tensor({rows, length}, all, dtype);
}

}  // namespace

TEST_CASE("cuda norm: rows of every length, forward and backward") {
  for (const Norm norm : kNorms) {
    for (const DType dtype : kFloatingTypes) {
      for (const Index length : kDeviceLengths) check_against_cpu(norm, random_inputs(3, length, dtype));
    }
  }
}

TEST_CASE("cuda norm: rows too long for registers in narrow types") {
  for (const Norm norm : kNorms) check_against_cpu(norm, random_inputs(2, 32776, DType::bfloat16));
}

TEST_CASE("cuda norm: rows of several parts") {
  for (const Norm norm : kNorms) {
    check_against_cpu(norm, random_inputs(67, 16, DType::float32));
    check_against_cpu(norm, random_inputs(67, 7, DType::bfloat16));
    check_against_cpu(norm, random_inputs(67, 520, DType::float32));
    check_against_cpu(norm, random_inputs(9, 4099, DType::float32));
  }
}

TEST_CASE("cuda norm: more rows than a grid's second axis holds") {
  if (!on_gpu()) return;
  for (const Norm norm : kNorms) {
    check_against_cpu(norm, random_inputs(131073, 16, DType::float32));
    check_against_cpu(norm, random_inputs(65537, 1032, DType::bfloat16));
  }
}

TEST_CASE("cuda norm: several cotangents at once") {
  for (const Norm norm : kNorms) {
    for (const Index length : {7, 64, 520, 4099}) {
      check_against_cpu(norm, random_inputs(9, length, DType::float32, 3));
    }
  }
}

TEST_CASE("cuda norm: absent parameters") {
  for (const Norm norm : kNorms) {
    Inputs in = random_inputs(5, 64, DType::float32);
    in.gamma = in.g = Tensor();
    check_against_cpu(norm, in);
    in.beta = Tensor();
    check_against_cpu(norm, in);
  }
}

TEST_CASE("cuda norm: gradients are added where the destination says so") {
  for (const Norm norm : kNorms) {
    for (const Index length : {7, 64, 4099}) {
      const Inputs in = random_inputs(5, length, DType::float64).each(on_device);
      const Saved saved = forward(norm, in);
      const Gradients added = outputs(norm, in, 1.0), right = run(norm, in).gradients;
      backward(norm, in, saved, {added.dx, true}, {added.dgamma, true}, {added.dbeta, true});
      const auto plus_one = [](const Tensor& tensor) {
        std::vector<double> values = tensor.values();
        for (double& value : values) value += 1.0;
        return values;
      };
      CHECK(distance(added.dx, plus_one(right.dx)) < a_few_roundings(DType::float64));
      CHECK(distance(added.dgamma, plus_one(right.dgamma)) < a_few_roundings(DType::float64));
      if (norm == Norm::layer) CHECK(distance(added.dbeta, plus_one(right.dbeta)) < a_few_roundings(DType::float64));
    }
  }
}

TEST_CASE("cuda norm: a gradient that nobody wants is left out") {
  for (const Norm norm : kNorms) {
    for (const Index length : {7, 64, 520, 4099}) {
      const Inputs in = random_inputs(9, length, DType::float32).each(on_device);
      const Saved saved = forward(norm, in);
      const Gradients right = right_results(norm, random_inputs(9, length, DType::float32)).gradients;
      const Gradients one = outputs(norm, in);
      backward(norm, in, saved, {one.dx}, {}, {});
      backward(norm, in, saved, {}, {one.dgamma}, {});
      CHECK(distance(one.dx, right.dx) < tolerance(DType::float32));
      CHECK(distance(one.dgamma, right.dgamma) < tolerance(DType::float32));
      backward(norm, in, saved, {}, {}, {});
      if (norm != Norm::layer) continue;
      backward(norm, in, saved, {}, {}, {one.dbeta});
      CHECK(distance(one.dbeta, right.dbeta) < tolerance(DType::float32));
    }
  }
}

TEST_CASE("cuda norm: x and the cotangent are not written") {
  for (const Norm norm : kNorms) {
    const Inputs before = random_inputs(5, 64, DType::float32), in = before.each(on_device);
    run(norm, in);
    CHECK(identical(in.x.to(Device::cpu()), before.x));
    CHECK(identical(in.dy.to(Device::cpu()), before.dy));
  }
}

TEST_CASE("cuda norm: the same bits in each run and in every schedule") {
  for (const Norm norm : kNorms) {
    for (const Index length : {17, 64, 1017, 4099}) {
      const Inputs in = random_inputs(35, length, DType::float32);
      const Results first = run_on_device(norm, in);
      for_each_schedule([&] {
        const Results again = run_on_device(norm, in);
        CHECK(distance(again.saved.y, first.saved.y) == 0.0);
        CHECK(distance(again.gradients.dx, first.gradients.dx) == 0.0);
        CHECK(distance(again.gradients.dgamma, first.gradients.dgamma) == 0.0);
      });
    }
  }
}

TEST_CASE("cuda norm: no rows give zero parameter gradients, and rows without elements give none") {
  for (const Norm norm : kNorms) {
    const Gradients no_rows = run_on_device(norm, random_inputs(0, 4, DType::float32)).gradients;
    CHECK(no_rows.dx.size() == 0);
    CHECK(distance(no_rows.dgamma, std::vector<double>(norm == Norm::scale ? 1 : 4)) == 0.0);
    CHECK(run_on_device(norm, random_inputs(4, 0, DType::float32)).saved.y.size() == 0);
  }
}

TEST_CASE("cuda layer_norm: residuals near 1449") {
  const Tensor x = tensor({1, 16}, kResiduals, DType::float32);
  const std::vector<double> right{0.00581,  -1.49221, 2.32859,  -0.65510, 0.44852, -0.53931, -0.51226, -1.05396,
                                  -0.75226, -0.29012, -0.87620, -0.33239, 0.48502, 1.07293,  0.44826,  1.71468};
  CHECK(distance(forward(Norm::layer, Inputs{.x = on_device(x)}).y, right) < 1e-5);
}

TEST_CASE("cuda layer_norm: rows far from zero at every length, whose saved mean is rounded") {
  for (const Index length : {16, 64, 1017, 4099, 16400}) {
    Inputs in = random_inputs(2, length, DType::float32);
    in.x = repeated(kResiduals, 2, length, DType::float32);
    CAPTURE(length);
    const Results got = run_on_device(Norm::layer, in), right = right_results(Norm::layer, in);
    CHECK(distance(got.saved.y, right.saved.y) < tolerance(DType::float32));
    CHECK(distance(got.gradients.dx, right.gradients.dx) < tolerance(DType::float32));
    CHECK(distance(got.gradients.dgamma, right.gradients.dgamma) < tolerance(DType::float32));
  }
}

TEST_CASE("cuda layer_norm: 10239 elements of 256 and one of 255") {
  std::vector<double> values(10240, 256.0);
  values.back() = 255.0;
  const std::vector<double> y = forward(Norm::layer, {.x = on_device(tensor({1, 10240}, values))}).y.values();
  CHECK(relative_error(y.front(), 0.00941238) < 1e-6);
  CHECK(relative_error(y.back(), -96.373404) < 1e-6);
}

TEST_CASE("cuda norm: rows whose squares float32 doesn't hold are normalized") {
  for (const Norm norm : kNorms) {
    for (const Index length : {4, 17, 520, 1017, 4099}) {
      for (const double size : {1e30, 1e20, 1e-25, 1e-30}) {
        Inputs in = random_inputs(3, length, DType::float32);
        in.eps = size < 1 ? 0.0 : kEps;
        std::vector<double> values = in.x.values();
        for (double& value : values) value *= size;
        in.x = tensor({3, length}, values, DType::float32);
        CAPTURE(length);
        CAPTURE(size);
        CHECK(forward_error(norm, in) < tolerance(DType::float32));
      }
    }
  }
}

TEST_CASE("cuda norm: rows whose squares float64 doesn't hold are normalized") {
  for (const Norm norm : kNorms) {
    for (const double size : {1e200, 1e-200}) {
      Inputs in = random_inputs(2, 17, DType::float64);
      in.eps = 0.0;
      std::vector<double> values = in.x.values();
      for (double& value : values) value *= size;
      in.x = tensor({2, 17}, values, DType::float64);
      CHECK(forward_error(norm, in) < tolerance(DType::float64));
    }
  }
}

TEST_CASE("cuda norm: eps stays what it is beside large and zero elements") {
  std::vector<double> values(2048, 0.0);
  values[0] = 100.0;  // one row with a single element, one of zeros
  const std::vector<double> y = forward(Norm::rms, {.x = on_device(tensor({2, 1024}, values))}).y.values();
  CHECK(relative_error(y[0], 31.999984) < 1e-6);
  CHECK(y[1024] == 0.0);
}

TEST_CASE("cuda norm: without eps, a row without variance is 0/0, and a zero row is ScaleNorm's 0") {
  const auto row = [](double element) {
    return Inputs{.x = full({1, 8}, element), .dy = random({1, 1, 8}, DType::float32, 1), .eps = 0.0};
  };
  for (const double element : forward(Norm::layer, row(2.0).each(on_device)).y.values()) CHECK(std::isnan(element));
  for (const double element : forward(Norm::rms, row(0.0).each(on_device)).y.values()) CHECK(std::isnan(element));
  const Results scale = run_on_device(Norm::scale, row(0.0));
  CHECK(distance(scale.saved.y, std::vector<double>(8)) == 0.0);
  CHECK(distance(scale.gradients.dx, std::vector<double>(8)) == 0.0);
}

TEST_CASE("cuda norm: NaN and infinity stay in their rows, and aren't lost there") {
  for (const Norm norm : kNorms) {
    for (const double bad : {kNaN, kInfinity}) {
      std::vector<double> values = random({3, 64}, DType::float32, 1).values();
      values[70] = bad;
      const std::vector<double> y = forward(norm, {.x = on_device(tensor({3, 64}, values))}).y.values();
      CHECK(std::isnan(y[70]));
      CHECK(!std::isnan(y[63]));
      CHECK(!std::isnan(y[128]));
    }
  }
}

TEST_CASE("cuda norm: ten thousand small contributions to dgamma add up in bfloat16") {
  const Index rows = on_gpu() ? 10000 : 2000;
  const Tensor x = full({rows, 2}, 1.0, DType::bfloat16), dy = full({rows, 2}, 0.001, DType::bfloat16);
  const Tensor mean = zeros({rows}), rstd = ones({rows});
  const Tensor dgamma = garbage_on_device({2}, DType::bfloat16), dbeta = garbage_on_device({2}, DType::bfloat16);
  device_kernels().layer_norm_backward(on_device(dy), on_device(x), {}, on_device(mean), on_device(rstd), {}, {dgamma},
                                       {dbeta});
  const double right = static_cast<double>(rows) * dy.values()[0];
  CHECK(relative_error(dbeta.values()[0], right) < a_few_roundings(DType::bfloat16));
}

TEST_CASE("cuda norm: a float16 gradient of 300 has squares beyond float16") {
  Inputs in = random_inputs(4, 64, DType::float16);
  in.x = full({4, 64}, 300.0, DType::float16);
  CHECK(forward_error(Norm::rms, in) < rounding_of_sums(DType::float16));
  in.x = random({4, 64}, DType::float16, 1);
  in.dy = full({1, 4, 64}, 300.0, DType::float16);
  in.gamma = in.g = Tensor();
  check_against_cpu(Norm::rms, in);
}
