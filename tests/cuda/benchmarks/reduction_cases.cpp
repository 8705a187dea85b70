// Sums, maxima, norms and variances of rows, sums of columns, the norm of all gradients, and AdamW's step. Means are
// sums and a division of the results.

#include <jnorm/cuda/bytes_moved.hpp>

#include "cuda/benchmarks/case_tensors.hpp"

namespace jnorm::test {

namespace {

struct Reduced {
  Tensor x, y;
};

using Reduce = void (*)(const Kernels&, const Reduced&);
void row_sum(const Kernels& kernels, const Reduced& t) { kernels.sum(t.x, 0b01, t.y); }
template <ReduceOp op>
void row_reduce(const Kernels& kernels, const Reduced& t) {
  kernels.reduce(op, t.x, 0b01, t.y);
}
void row_variance(const Kernels& kernels, const Reduced& t) {
  kernels.variance(t.x, 0b01, static_cast<double>(t.x.row_length()), t.y);
}

// Results of about the given size.
Case row_case(Reduce reduce, const Maker& make, Index columns, double size) {
  const Index rows = make.rows(columns), sets = make.sets(1);
  const auto tensors = repeat(sets, [&] { return Reduced{make.random({rows, columns}, 1), make.empty({rows})}; });
  return {
      .shape = shape_name(rows, columns),
      .dtype = make.dtype(),
      .bytes = cuda::row_reduction_bytes(rows, columns, make.element()),
      .bar = 0.92,
      .aligned = make.pack(columns) > 1,
      .sets = sets,
      .launch = [=, &kernels = make.kernels()](Index set) { reduce(kernels, tensors[static_cast<std::size_t>(set)]); },
      .error =
          [=, dtype = make.dtype()] {
            const Tensor x = sample(tensors[0].x, 0), y = Tensor::uninitialized({x.rows()}, DType::float64);
            reduce(cpu(), {x, y});
            return error_of(sample(tensors[0].y, 0), y, dtype, size);
          }};
}

Case column_sum_case(const Maker& make, Index columns) {
  const Index rows = make.rows(columns), sets = make.sets(1);
  const auto tensors = repeat(sets, [&] { return Reduced{make.random({rows, columns}, 1), make.empty({columns})}; });
  const Index parts = cuda::reduction_plan(1, rows, columns, make.pack(columns), cuda::Split::allowed).parts;
  return {.shape = shape_name(rows, columns),
          .dtype = make.dtype(),
          .bytes = cuda::column_sum_bytes(rows, columns, make.element(), parts > 1 ? parts : 0),
          .bar = 0.85,
          .aligned = make.pack(columns) > 1,
          .sets = sets,
          .launch =
              [=, &kernels = make.kernels()](Index set) {
                const Reduced& t = tensors[static_cast<std::size_t>(set)];
                kernels.column_sum(t.x, {t.y});
              },
          .error =
              [=, dtype = make.dtype()] {
                const Tensor x = sample(tensors[0].x, 1), y = Tensor::uninitialized({x.dim(1)}, DType::float64);
                cpu().column_sum(x, {y});
                return error_of(sample(tensors[0].y, 0), y, dtype, std::sqrt(static_cast<double>(rows)));
              }};
}

// The parameters of GPT-2 with 124 million weights, or of its first layers.
std::vector<Shape> gpt2_shapes(Index layers) {
  constexpr Index width = 768;
  std::vector<Shape> shapes{{50257, width}, {1024, width}, {width}, {width}};
  for (Index layer = 0; layer < layers; ++layer) {
    for (const Shape& shape : {Shape{width}, Shape{width}, Shape{3 * width, width}, Shape{3 * width},
                               Shape{width, width}, Shape{width}, Shape{width}, Shape{width}, Shape{4 * width, width},
                               Shape{4 * width}, Shape{width, 4 * width}, Shape{width}}) {
      shapes.push_back(shape);
    }
  }
  return shapes;
}

Case global_norm_case(const Maker& make, Index layers) {
  std::vector<Tensor> parts;
  Index count = 0;
  for (const Shape& shape : gpt2_shapes(layers)) {
    parts.push_back(make.random(shape, static_cast<unsigned>(parts.size())));
    count += shape.size();
  }
  const Tensor norm = make.empty({}, DType::float64);
  return {.shape = fmt::format("{}", count),
          .dtype = make.dtype(),
          .bytes = cuda::global_norm_bytes(count, make.element()),
          .bar = 0.90,
          .sets = 1,
          .launch = [=, &kernels = make.kernels()](Index /*set*/) { kernels.global_norm(parts, norm); },
          .error =
              [=] {
                std::vector<Tensor> here;
                for (const Tensor& part : parts) here.push_back(part.to(Device::cpu()));
                const Tensor right = Tensor::uninitialized({}, DType::float64);
                cpu().global_norm(here, right);
                return error_of(norm, right, DType::float32);
              }};
}

struct Step {
  Tensor gradient, parameter, m, v;
};

Case adam_case(const Maker& make, Index columns) {
  const Index rows = make.rows(columns), sets = make.sets(2);
  const Shape shape{rows, columns};
  const AdamStep step{.learning_rate = 1e-3,
                      .beta1 = 0.9,
                      .beta2 = 0.999,
                      .eps = 1e-8,
                      .weight_decay = 0.01,
                      .bias_correction1 = 0.1,
                      .bias_correction2 = 0.001,
                      .coupled = false};
  const auto make_set = [=] {
    return Step{make.random(shape, 1), make.random(shape, 2), zeros(shape, make.statistics(), make.device()),
                zeros(shape, make.statistics(), make.device())};
  };
  const auto tensors = repeat(sets, make_set);
  const auto run = [=](const Kernels& kernels, const Step& t) {
    const AdamUpdate update{step, t.gradient, t.parameter, t.m, t.v};
    kernels.adam({&update, 1});
  };
  return {.shape = shape_name(rows, columns),
          .dtype = make.dtype(),
          .bytes = cuda::optimizer_step_bytes(shape.size(), make.element(), 2, size_of(make.statistics())),
          .sets = sets,
          .launch = [=, &kernels = make.kernels()](Index set) { run(kernels, tensors[static_cast<std::size_t>(set)]); },
          .error =
              [=, &kernels = make.kernels()] {
                const Step fresh = make_set();
                const Step right{sample(fresh.gradient, 0), sample(fresh.parameter, 0), sample(fresh.m, 0),
                                 sample(fresh.v, 0)};
                run(kernels, fresh);
                run(cpu(), right);
                return error_of(sample(fresh.parameter, 0), right.parameter, make.dtype());
              }};
}

}  // namespace

std::vector<CaseMaker> reduction_cases(Device device, Index mebibytes) {
  std::vector<CaseMaker> cases;
  const auto add_rows = [&](const char* kernel, Reduce reduce, double (*size)(double columns)) {
    add_cases(cases, kernel, device, mebibytes, {1024, 4096, 4093, 65536, mebibytes << 16},
              [=](const Maker& make, Index columns) {
                return row_case(reduce, make, columns, size(static_cast<double>(columns)));
              });
  };
  const auto of_one = [](double /*columns*/) { return 1.0; };
  const auto of_root = [](double columns) { return std::sqrt(columns); };
  add_rows("row_sum", row_sum, of_root);
  add_rows("row_max", row_reduce<ReduceOp::max>, of_one);
  add_rows("row_l2_norm", row_reduce<ReduceOp::l2_norm>, of_root);
  add_rows("row_variance", row_variance, of_one);
  add_cases(cases, "column_sum", device, mebibytes, {768, 1024, 4096, 4093}, column_sum_case);
  add_cases(cases, "global_norm", device, mebibytes, {mebibytes < 16 ? 1 : 12}, global_norm_case);
  add_cases(cases, "adamw", device, mebibytes, {4096}, adam_case);
  return cases;
}

}  // namespace jnorm::test
