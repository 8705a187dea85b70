// Softmax and cross-entropy, forward and backward.

#include <jnorm/cuda/bytes_moved.hpp>

#include "cuda/benchmarks/case_tensors.hpp"

namespace jnorm::test {

namespace {

struct Softmax {
  Tensor x, y;
};
struct SoftmaxBackward {
  Tensor dy, y, dx;
};

Case softmax_case(const Maker& make, Index columns) {
  const Index rows = make.rows(columns), sets = make.sets(2);
  const auto tensors = repeat(sets, [&] {
    return Softmax{make.random({rows, columns}, 1), make.empty({rows, columns})};
  });
  return {.shape = shape_name(rows, columns),
          .dtype = make.dtype(),
          .bytes = cuda::softmax_bytes(rows, columns, make.element()),
          .bar = 0.92,
          .aligned = make.pack(columns) > 1,
          .sets = sets,
          .launch =
              [=, &kernels = make.kernels()](Index set) {
                const Softmax& t = tensors[static_cast<std::size_t>(set)];
                kernels.softmax(t.x, t.y);
              },
          .error =
              [=, dtype = make.dtype()] {
                const Tensor x = sample(tensors[0].x, 0), y = wide_like(x);
                cpu().softmax(x, y);
                return error_of(sample(tensors[0].y, 0), y, dtype, 1.0 / static_cast<double>(columns));
              }};
}

Case softmax_backward_case(const Maker& make, Index columns) {
  const Index rows = make.rows(columns), sets = make.sets(3);
  const auto tensors = repeat(sets, [&] {
    const SoftmaxBackward t{make.random({rows, columns}, 2), make.empty({rows, columns}), make.empty({rows, columns})};
    make.kernels().softmax(make.random({rows, columns}, 1), t.y);
    return t;
  });
  return {.shape = shape_name(rows, columns),
          .dtype = make.dtype(),
          .bytes = cuda::softmax_dx_bytes(1, rows, columns, make.element(), false),
          .bar = 0.92,
          .aligned = make.pack(columns) > 1,
          .sets = sets,
          .launch =
              [=, &kernels = make.kernels()](Index set) {
                const SoftmaxBackward& t = tensors[static_cast<std::size_t>(set)];
                kernels.softmax_dx(t.dy, t.y, {t.dx});
              },
          .error =
              [=, dtype = make.dtype()] {
                const SoftmaxBackward& t = tensors[0];
                const Tensor dy = sample(t.dy, 0), y = sample(t.y, 0), dx = wide_like(y);
                cpu().softmax_dx(dy, y, {dx});
                return error_of(sample(t.dx, 0), dx, dtype, 1.0 / static_cast<double>(columns));
              }};
}

struct CrossEntropy {
  Tensor logits, targets, loss, lse, dlogits;
};

CrossEntropy cross_entropy_tensors(const Maker& make, Index rows, Index classes) {
  return {.logits = make.random({rows, classes}, 1),
          .targets = make.random_targets(rows, classes),
          .loss = make.empty({}),
          .lse = make.empty({rows}, make.statistics()),
          .dlogits = {}};
}

constexpr CrossEntropySettings kSum{.reduction = Reduction::sum};

Case cross_entropy_case(const Maker& make, Index classes) {
  const Index rows = make.rows(classes), sets = make.sets(1);
  const auto tensors = repeat(sets, [&] { return cross_entropy_tensors(make, rows, classes); });
  return {.shape = shape_name(rows, classes),
          .dtype = make.dtype(),
          .bytes = cuda::cross_entropy_bytes(rows, classes, make.element()),
          .bar = 0.90,
          .aligned = make.pack(classes) > 1,
          .sets = sets,
          .launch =
              [=, &kernels = make.kernels()](Index set) {
                const CrossEntropy& t = tensors[static_cast<std::size_t>(set)];
                kernels.cross_entropy({}, t.logits, t.targets, {}, t.loss, t.lse);
              },
          .error =
              [=, &kernels = make.kernels(), dtype = make.dtype()] {
                const CrossEntropy& t = tensors[0];
                const Tensor losses = make.empty({rows});
                const CrossEntropySettings none{.reduction = Reduction::none};
                kernels.cross_entropy(none, t.logits, t.targets, {}, losses, t.lse);
                const Tensor logits = sample(t.logits, 0), targets = sample(t.targets, 0);
                const Tensor loss = Tensor::uninitialized({logits.rows()}, DType::float64), lse = wide_like(loss);
                cpu().cross_entropy(none, logits, targets, {}, loss, lse);
                return std::max(error_of(sample(losses, 0), loss, dtype),
                                error_of(sample(t.lse, 0), lse, statistics_dtype(dtype)));
              }};
}

Case cross_entropy_backward_case(const Maker& make, Index classes) {
  const Index rows = make.rows(classes), sets = make.sets(2);
  const Tensor dloss = ones({}, make.dtype(), make.device());
  const auto tensors = repeat(sets, [&] {
    CrossEntropy t = cross_entropy_tensors(make, rows, classes);
    make.kernels().cross_entropy(kSum, t.logits, t.targets, {}, t.loss, t.lse);
    t.dlogits = make.empty({rows, classes});
    return t;
  });
  return {.shape = shape_name(rows, classes),
          .dtype = make.dtype(),
          .bytes = cuda::cross_entropy_dx_bytes(1, rows, classes, make.element(), false),
          .bar = 0.90,
          .aligned = make.pack(classes) > 1,
          .sets = sets,
          .launch =
              [=, &kernels = make.kernels()](Index set) {
                const CrossEntropy& t = tensors[static_cast<std::size_t>(set)];
                kernels.cross_entropy_dx(kSum, dloss, t.logits, t.targets, {}, t.lse, {t.dlogits});
              },
          .error =
              [=, dtype = make.dtype()] {
                const CrossEntropy& t = tensors[0];
                const Tensor logits = sample(t.logits, 0), dlogits = wide_like(logits);
                cpu().cross_entropy_dx(kSum, wide_on_cpu(dloss), logits, sample(t.targets, 0), {}, sample(t.lse, 0),
                                       {dlogits});
                return error_of(sample(t.dlogits, 0), dlogits, dtype, 1.0 / static_cast<double>(classes));
              }};
}

}  // namespace

std::vector<CaseMaker> softmax_cases(Device device, Index mebibytes) {
  static constexpr std::initializer_list<Index> columns{1024, 4096, 4093, 32768}, classes{32768, 50257};
  std::vector<CaseMaker> cases;
  add_cases(cases, "softmax", device, mebibytes, columns, softmax_case);
  add_cases(cases, "softmax_backward", device, mebibytes, columns, softmax_backward_case);
  add_cases(cases, "cross_entropy", device, mebibytes, classes, cross_entropy_case);
  add_cases(cases, "cross_entropy_backward", device, mebibytes, classes, cross_entropy_backward_case);
  return cases;
}

}  // namespace jnorm::test
