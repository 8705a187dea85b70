// LayerNorm and RMSNorm, forward and backward.

#include <jnorm/cuda/bytes_moved.hpp>
#include <jnorm/cuda/context.hpp>
#include <jnorm/cuda/norm_config.hpp>

#include "cuda/benchmarks/case_tensors.hpp"

namespace jnorm::test {

namespace {

constexpr double kEps = 1e-5;

enum class Norm : std::uint8_t { layer, rms };

// What stands in one launch's memory; RMSNorm has no mean and no beta.
struct Forward {
  Tensor x, gamma, beta, y, mean, rstd;
};
struct Backward {
  Tensor dy, x, gamma, mean, rstd, dx, dgamma, dbeta;
};

void run(const Kernels& kernels, Norm norm, const Forward& t) {
  if (norm == Norm::layer) {
    kernels.layer_norm(t.x, t.gamma, t.beta, kEps, t.y, t.mean, t.rstd);
  } else {
    kernels.rms_norm(t.x, t.gamma, kEps, t.y, t.rstd);
  }
}

void run(const Kernels& kernels, Norm norm, const Backward& t) {
  if (norm == Norm::layer) {
    kernels.layer_norm_backward(t.dy, t.x, t.gamma, t.mean, t.rstd, {t.dx}, {t.dgamma}, {t.dbeta});
  } else {
    kernels.rms_norm_backward(t.dy, t.x, t.gamma, t.rstd, {t.dx}, {t.dgamma});
  }
}

Forward forward_tensors(const Maker& make, Index rows, Index columns) {
  return {.x = make.random({rows, columns}, 1),
          .gamma = make.random({columns}, 2),
          .beta = make.random({columns}, 3),
          .y = make.empty({rows, columns}),
          .mean = make.empty({rows}, make.statistics()),
          .rstd = make.empty({rows}, make.statistics())};
}

double forward_error(Norm norm, const Forward& t, DType dtype) {
  const Tensor x = sample(t.x, 0), y = wide_like(x);
  const auto statistic = [&] { return Tensor::uninitialized({x.rows()}, DType::float64); };
  run(cpu(), norm, Forward{x, wide_on_cpu(t.gamma), wide_on_cpu(t.beta), y, statistic(), statistic()});
  return error_of(sample(t.y, 0), y, dtype);
}

// dx of a sample of rows; dgamma and dbeta of a sample of columns, sums over all rows of terms of size 1.
double backward_error(Norm norm, const Backward& t, DType dtype) {
  const Tensor dy = sample(t.dy, 0), x = sample(t.x, 0), gamma = wide_on_cpu(t.gamma);
  const Tensor dx = wide_like(x), unused = wide_like(gamma);
  const auto of_rows = [](const Tensor& statistic) { return statistic.defined() ? sample(statistic, 0) : Tensor(); };
  run(cpu(), norm, Backward{dy, x, gamma, of_rows(t.mean), of_rows(t.rstd), dx, unused, wide_like(unused)});
  double error = error_of(sample(t.dx, 0), dx, dtype, 4.0);

  const Tensor dy_columns = sample(t.dy, 1), x_columns = sample(t.x, 1);
  const Tensor mean = norm == Norm::layer ? wide_on_cpu(t.mean) : zeros({t.x.rows()}, DType::float64);
  const Tensor rstd = wide_on_cpu(t.rstd);
  const Index rows = t.x.rows(), count = x_columns.dim(1);
  Tensor dgamma = zeros({count}, DType::float64), dbeta = zeros({count}, DType::float64);
  for (Index i = 0; i < rows * count; ++i) {
    const double slope = dy_columns.data<double>()[i],
                 centred = x_columns.data<double>()[i] - mean.data<double>()[i / count];
    dgamma.mutable_data<double>()[i % count] += slope * centred * rstd.data<double>()[i / count];
    dbeta.mutable_data<double>()[i % count] += slope;
  }
  const double scale = std::sqrt(static_cast<double>(rows));
  error = std::max(error, error_of(sample(t.dgamma, 0), dgamma, dtype, scale));
  return norm == Norm::rms ? error : std::max(error, error_of(sample(t.dbeta, 0), dbeta, dtype, scale));
}

Case forward_case(Norm norm, const Maker& make, Index columns) {
  const Index rows = make.rows(columns), sets = make.sets(2);
  const auto forward_bytes = norm == Norm::layer ? cuda::layer_norm_bytes : cuda::root_norm_bytes;
  const auto tensors = repeat(sets, [&] { return forward_tensors(make, rows, columns); });
  return {.shape = shape_name(rows, columns),
          .dtype = make.dtype(),
          .bytes = forward_bytes(rows, columns, make.element()),
          .bar = 0.92,
          .aligned = make.pack(columns) > 1,
          .sets = sets,
          .launch = [=, &kernels =
                            make.kernels()](Index set) { run(kernels, norm, tensors[static_cast<std::size_t>(set)]); },
          .error = [=, dtype = make.dtype()] { return forward_error(norm, tensors[0], dtype); }};
}

Case backward_case(Norm norm, const Maker& make, Index columns) {
  const Index rows = make.rows(columns), sets = make.sets(3);
  const Index parts = cuda::norm_backward_config({.rows = rows,
                                                  .length = columns,
                                                  .copies = 1,
                                                  .pack = make.pack(columns),
                                                  .element_bytes = static_cast<int>(make.element()),
                                                  .wide_bytes = 4,
                                                  .column_sums = norm == Norm::layer ? 2 : 1},
                                                 cuda::context_of(make.empty({})).limits())
                          .parts;
  const auto backward_bytes = norm == Norm::layer ? cuda::layer_norm_backward_bytes : cuda::rms_norm_backward_bytes;
  const auto tensors = repeat(sets, [&] {
    const Forward t = forward_tensors(make, rows, columns);
    run(make.kernels(), norm, t);
    return Backward{make.random({rows, columns}, 4),
                    t.x,
                    t.gamma,
                    norm == Norm::layer ? t.mean : Tensor(),
                    t.rstd,
                    t.y,
                    make.empty({columns}),
                    make.empty({columns})};
  });
  return {.shape = shape_name(rows, columns),
          .dtype = make.dtype(),
          .bytes = backward_bytes(rows, columns, make.element(), parts),
          .bar = 0.80,
          .aligned = make.pack(columns) > 1,
          .sets = sets,
          .launch = [=, &kernels =
                            make.kernels()](Index set) { run(kernels, norm, tensors[static_cast<std::size_t>(set)]); },
          .error = [=, dtype = make.dtype()] { return backward_error(norm, tensors[0], dtype); }};
}

}  // namespace

// 4093 columns: one row in four begins where 16 bytes do.
std::vector<CaseMaker> norm_cases(Device device, Index mebibytes) {
  static constexpr std::initializer_list<Index> columns{1024, 4096, 4093, 8192, 65536};
  std::vector<CaseMaker> cases;
  const auto add = [&](const char* kernel, auto make_case, Norm norm) {
    add_cases(cases, kernel, device, mebibytes, columns,
              [=](const Maker& make, Index count) { return make_case(norm, make, count); });
  };
  add("layer_norm", forward_case, Norm::layer);
  add("layer_norm_backward", backward_case, Norm::layer);
  add("rms_norm", forward_case, Norm::rms);
  add("rms_norm_backward", backward_case, Norm::rms);
  return cases;
}

}  // namespace jnorm::test
