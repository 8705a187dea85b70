// The steps of the optimizers, and what a training step asks of all gradients.

#include <cmath>

#include <jnorm/cuda/kernels.hpp>
#include <jnorm/cuda/launch.cuh>
#include <jnorm/cuda/optimizer_kernels.cuh>

namespace jnorm::cuda {

namespace {

void expect_statistics_dtype(const char* name, const Tensor& moment, const Tensor& parameter) {
  if (moment.defined() && moment.dtype() != statistics_dtype(parameter.dtype())) {
    fail_unsupported_dtype(name, moment.dtype());
  }
}

template <class W>
AdamNumbers<W> numbers_of(const AdamStep& step) {
  return {.beta1 = static_cast<W>(step.beta1),
          .rest1 = static_cast<W>(1 - step.beta1),
          .beta2 = static_cast<W>(step.beta2),
          .rest2 = static_cast<W>(1 - step.beta2),
          .rate = static_cast<W>(step.learning_rate / step.bias_correction1),
          .root = static_cast<W>(1 / std::sqrt(step.bias_correction2)),
          .eps = static_cast<W>(step.eps),
          .added_decay = static_cast<W>(step.coupled ? step.weight_decay : 0.0),
          .decay = static_cast<W>(step.coupled ? 0.0 : step.learning_rate * step.weight_decay)};
}

Index chunks_of(const Tensor& x) { return ceil_divide(x.size(), kReductionChunk); }

// The squares of the parts, chunk by chunk, into `partial`. Parts of one dtype that follow one another share launches.
void launch_squares(const char* name, std::span<const Tensor> parts, ScaledSquares* partial) {
  SquaresParts table;
  Index chunks = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Tensor& part = parts[i];
    if (part.size() > 0) {
      table.data[table.count] = part.device_data();
      table.length[table.count] = part.size();
      table.first_chunk[table.count++] = chunks;
      chunks += chunks_of(part);
    }
    const bool last = i + 1 == parts.size() || parts[i + 1].dtype() != part.dtype();
    if (!last && table.count < kPartsALaunch) continue;
    dispatch_device(name, part.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      launch(name, context_of(part), chunk_config(chunks), squares_kernel<T>, table, partial);
    });
    partial += chunks;
    table.count = 0;
    chunks = 0;
  }
}

void combine_squares(const char* name, std::span<const Tensor> parts, SquaresResult wanted, const Tensor& result) {
  Index chunks = 0;
  for (const Tensor& part : parts) chunks += chunks_of(part);
  const Tensor scratch = Tensor::uninitialized({chunks, 2}, DType::float64, result.device());
  auto* const partial = output<ScaledSquares>(scratch);
  launch_squares(name, parts, partial);
  launch(name, context_of(result), {.threads = kMaxThreads, .shared_bytes = sizeof(ScaledSquares) * kMaxThreads / 32},
         finish_squares_kernel, partial, chunks, wanted, output<double>(result));
}

}  // namespace

// m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2
// p = p - learning_rate (m / bias_correction1) / (sqrt(v / bias_correction2) + eps)
void adam(const AdamStep& step, const Tensor& gradient, const Tensor& parameter, const Tensor& m, const Tensor& v) {
  expect_statistics_dtype("adam", m, parameter);
  expect_statistics_dtype("adam", v, parameter);
  for (const Tensor& changed : {parameter, m, v}) changed.mark_changed(SourceLine::here());
  dispatch_device("adam", parameter.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using W = Wide<T>;
    Context& context = context_of(parameter);
    launch("adam", context, elementwise_config(parameter.size(), kStepPackSize<T>, context.limits()), adam_kernel<T, W>,
           numbers_of<W>(step), input<T>(gradient), output<T>(parameter), output<W>(m), output<W>(v), parameter.size());
  });
}

// velocity = momentum velocity + g,  p = p - learning_rate velocity; weight decay is part of g.
void sgd(const SgdStep& step, const Tensor& gradient, const Tensor& parameter, const Tensor& velocity) {
  expect_statistics_dtype("sgd", velocity, parameter);
  parameter.mark_changed(SourceLine::here());
  if (velocity.defined()) velocity.mark_changed(SourceLine::here());
  dispatch_device("sgd", parameter.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using W = Wide<T>;
    const SgdNumbers<W> numbers{static_cast<W>(step.learning_rate), static_cast<W>(step.momentum),
                                static_cast<W>(step.weight_decay)};
    Context& context = context_of(parameter);
    launch("sgd", context, elementwise_config(parameter.size(), kStepPackSize<T>, context.limits()), sgd_kernel<T, W>,
           numbers, input<T>(gradient), output<T>(parameter), output<W>(velocity), parameter.size());
  });
}

void global_norm(std::span<const Tensor> parts, const Tensor& norm) {
  combine_squares("global_norm", parts, SquaresResult::root, norm);
}

void clip_to_norm(const Tensor& x, const Tensor& norm, double largest, const Tensor& y) {
  dispatch_device("clip_to_norm", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    Context& context = context_of(x);
    launch("clip_to_norm", context, elementwise_config(x.size(), kPackSize<T>, context.limits()),
           clip_to_norm_kernel<T>, input<T>(x), input<double>(norm), largest, output<T>(y), x.size());
  });
}

void sum_of_squares(const Tensor& x, double& result) {
  const Tensor sum = Tensor::uninitialized({}, DType::float64, x.device());
  combine_squares("sum_of_squares", {&x, 1}, SquaresResult::sum, sum);
  result = sum.item();
}

void first_non_finite(const Tensor& x, Index& result) {
  result = -1;
  if (x.size() == 0) return;
  const Tensor partial = Tensor::uninitialized({chunks_of(x)}, DType::float64, x.device());
  const Tensor first = Tensor::uninitialized({}, DType::float64, x.device());
  dispatch_device("first_non_finite", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch("first_non_finite", context_of(x), chunk_config(chunks_of(x)), first_non_finite_kernel<T>, input<T>(x),
           x.size(), output<double>(partial));
  });
  reduce(ReduceOp::max, partial, 0, first);
  const double largest = first.item();
  if (std::isfinite(largest)) result = static_cast<Index>(-largest);
}

}  // namespace jnorm::cuda
