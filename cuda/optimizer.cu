// The steps of the optimizers, and what a training step asks of all gradients.

#include <cmath>
#include <vector>

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

template <class W>
SgdNumbers<W> numbers_of(const SgdStep& step) {
  return {static_cast<W>(step.learning_rate), static_cast<W>(step.momentum), static_cast<W>(step.weight_decay)};
}

// Calls launch(TypeTag<T>, updates) for those that follow one another with parameters of one dtype.
template <class Update, class Launch>
void for_each_step(const char* name, std::span<const Update> updates, const Launch& launch) {
  for_each_dtype(
      updates, [](const Update& update) { return update.parameter.dtype(); },
      [&](auto run) { dispatch_device(name, run.front().parameter.dtype(), [&](auto tag) { launch(tag, run); }); });
}
template <class Update>
Index length_of(const Update& update) {
  return update.parameter.size();
}

Index chunks_of(const Tensor& x) { return ceil_divide(x.size(), kChunk); }

// The squares of the parts, chunk by chunk, into `partial`.
void launch_squares(const char* name, std::span<const Tensor> parts, ScaledSquares* partial) {
  for_each_dtype(
      parts, [](const Tensor& part) { return part.dtype(); },
      [&](std::span<const Tensor> run) {
        dispatch_device(name, run.front().dtype(), [&](auto tag) {
          using T = typename decltype(tag)::type;
          const auto length = [](const Tensor& part) { return part.size(); };
          launch_parts<const T*>(run, input<T>, length, [&](const auto& some, Index chunks) {
            launch(name, context_of(run.front()), reducing_chunk_config(chunks), squares_kernel<T>, some, partial);
            partial += chunks;
          });
        });
      });
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
void adam(std::span<const AdamUpdate> updates) {
  for (const auto& [step, gradient, parameter, m, v] : updates) {
    expect_statistics_dtype("adam", m, parameter);
    expect_statistics_dtype("adam", v, parameter);
  }
  for (const auto& [step, gradient, parameter, m, v] : updates) {
    for (const Tensor& changed : {parameter, m, v}) changed.mark_changed(SourceLine::here());
  }
  for_each_step("adam", updates, [](auto tag, std::span<const AdamUpdate> run) {
    using T = typename decltype(tag)::type;
    using W = Wide<T>;
    const auto part_of = [](const AdamUpdate& update) {
      return AdamPart<T>{numbers_of<W>(update.step), input<T>(update.gradient), output<T>(update.parameter),
                         output<W>(update.m), output<W>(update.v)};
    };
    launch_parts<AdamPart<T>>(run, part_of, length_of<AdamUpdate>, [&](const auto& parts, Index chunks) {
      launch("adam", context_of(run.front().parameter), chunk_config(chunks), adam_kernel<T>, parts);
    });
  });
}

// velocity = momentum velocity + g,  p = p - learning_rate velocity; weight decay is part of g.
void sgd(std::span<const SgdUpdate> updates) {
  for (const auto& [step, gradient, parameter, velocity] : updates) expect_statistics_dtype("sgd", velocity, parameter);
  for (const auto& [step, gradient, parameter, velocity] : updates) {
    parameter.mark_changed(SourceLine::here());
    if (velocity.defined()) velocity.mark_changed(SourceLine::here());
  }
  for_each_step("sgd", updates, [](auto tag, std::span<const SgdUpdate> run) {
    using T = typename decltype(tag)::type;
    using W = Wide<T>;
    const auto part_of = [](const SgdUpdate& update) {
      return SgdPart<T>{numbers_of<W>(update.step), input<T>(update.gradient), output<T>(update.parameter),
                        output<W>(update.velocity)};
    };
    launch_parts<SgdPart<T>>(run, part_of, length_of<SgdUpdate>, [&](const auto& parts, Index chunks) {
      launch("sgd", context_of(run.front().parameter), chunk_config(chunks), sgd_kernel<T>, parts);
    });
  });
}

void global_norm(std::span<const Tensor> parts, const Tensor& norm) {
  combine_squares("global_norm", parts, SquaresResult::root, norm);
}

void clip_to_norm(std::span<const Tensor> xs, const Tensor& norm, double largest, std::span<const Tensor> ys) {
  struct Clipped {
    const Tensor *x, *y;
  };
  std::vector<Clipped> all;
  for (std::size_t i = 0; i < xs.size(); ++i) all.push_back({&xs[i], &ys[i]});
  const auto dtype_of = [](const Clipped& clipped) { return clipped.x->dtype(); };
  for_each_dtype(std::span<const Clipped>(all), dtype_of, [&](std::span<const Clipped> run) {
    dispatch_device("clip_to_norm", run.front().x->dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      const auto part_of = [](const Clipped& clipped) {
        return ClipPart<T>{input<T>(*clipped.x), output<T>(*clipped.y)};
      };
      const auto length = [](const Clipped& clipped) { return clipped.x->size(); };
      launch_parts<ClipPart<T>>(run, part_of, length, [&](const auto& parts, Index chunks) {
        launch("clip_to_norm", context_of(*run.front().x), chunk_config(chunks), clip_to_norm_kernel<T>, parts,
               input<double>(norm), largest);
      });
    });
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
    launch("first_non_finite", context_of(x), reducing_chunk_config(chunks_of(x)), first_non_finite_kernel<T>,
           input<T>(x), x.size(), output<double>(partial));
  });
  reduce(ReduceOp::max, partial, 0, first);
  const double largest = first.item();
  if (std::isfinite(largest)) result = static_cast<Index>(-largest);
}

}  // namespace jnorm::cuda
