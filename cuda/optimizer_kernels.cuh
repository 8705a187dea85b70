#pragma once

// One step of an optimizer in one pass over the parameters, their gradients and their moments, which are float32 beside
// narrow elements; and the reductions over gradients that a training step asks for.

#include <jnorm/cuda/parts.cuh>
#include <jnorm/cuda/reduction_kernels.cuh>

namespace jnorm::cuda {

// The numbers of a step as the arithmetic takes them; see adam.
template <class W>
struct AdamNumbers {
  W beta1, rest1, beta2, rest2, rate, root, eps, added_decay, decay;
};
template <class W>
struct SgdNumbers {
  W rate, momentum, decay;
};

// Parts of a step.
template <class T>
struct AdamPart {
  AdamNumbers<Wide<T>> numbers;
  const T* gradient;
  T* parameter;
  Wide<T>*m, *v;
};
template <class T>
struct SgdPart {
  SgdNumbers<Wide<T>> numbers;
  const T* gradient;
  T* parameter;
  Wide<T>* velocity;  // null without momentum
};
template <class T>
struct ClipPart {
  const T* x;
  T* y;
};

// Elements a thread takes at once: those whose moments fill 16 bytes.
template <class T>
constexpr int kStepPackSize = kPackSize<Wide<T>>;

// Calls step(offset, PackSize<N>) for all elements of a chunk: in packs, then those after the last whole one.
template <int N>
struct PackSize {
  static constexpr int value = N;
};
template <int N, class Step>
JNORM_DEVICE void for_each_pack(const Chunk& chunk, const Step& step) {
  static_assert(kChunk % N == 0);
  const Index whole = chunk.end - (chunk.end - chunk.begin) % N;
  for (Index i = chunk.begin + thread_index() * N; i < whole; i += Index{block_size()} * N) step(i, PackSize<N>{});
  if (const Index i = whole + thread_index(); i < chunk.end) step(i, PackSize<1>{});
}

template <class T>
JNORM_KERNEL(kChunkThreads)
adam_kernel(Parts<AdamPart<T>> parts) {
  using W = Wide<T>;
  const Chunk chunk(parts);
  const AdamPart<T> part = parts.own[chunk.part];
  const AdamNumbers<W> a = part.numbers;
  for_each_pack<kStepPackSize<T>>(chunk, [=](Index i, auto size) {
    constexpr int N = decltype(size)::value;
    const Pack<T, N> g = load_pack<N>(part.gradient + i);
    Pack<T, N> p = load_pack<N>(part.parameter + i);
    Pack<W, N> first = load_pack<N>(part.m + i), second = load_pack<N>(part.v + i);
    JNORM_UNROLL
    for (int n = 0; n < N; ++n) {
      const W old = widen(p[n]), slope = widen(g[n]) + a.added_decay * old;
      first[n] = a.beta1 * first[n] + a.rest1 * slope;
      second[n] = a.beta2 * second[n] + a.rest2 * slope * slope;
      p[n] = narrow<T>(old - (a.decay * old + a.rate * first[n] / (sqrt(second[n]) * a.root + a.eps)));
    }
    store_pack(part.m + i, first);
    store_pack(part.v + i, second);
    store_pack(part.parameter + i, p);
  });
}

template <class T>
JNORM_KERNEL(kChunkThreads)
sgd_kernel(Parts<SgdPart<T>> parts) {
  using W = Wide<T>;
  const Chunk chunk(parts);
  const SgdPart<T> part = parts.own[chunk.part];
  const SgdNumbers<W> s = part.numbers;
  for_each_pack<kStepPackSize<T>>(chunk, [=](Index i, auto size) {
    constexpr int N = decltype(size)::value;
    const Pack<T, N> g = load_pack<N>(part.gradient + i);
    Pack<T, N> p = load_pack<N>(part.parameter + i);
    Pack<W, N> speed{};
    if (part.velocity != nullptr) speed = load_pack<N>(part.velocity + i);
    JNORM_UNROLL
    for (int n = 0; n < N; ++n) {
      const W old = widen(p[n]);
      speed[n] = s.momentum * speed[n] + (widen(g[n]) + s.decay * old);
      p[n] = narrow<T>(old - s.rate * speed[n]);
    }
    if (part.velocity != nullptr) store_pack(part.velocity + i, speed);
    store_pack(part.parameter + i, p);
  });
}

template <class T>
JNORM_KERNEL(kChunkThreads)
clip_to_norm_kernel(Parts<ClipPart<T>> parts, const double* norm, double largest) {
  const Chunk chunk(parts);
  const ClipPart<T> part = parts.own[chunk.part];
  const double now = *norm;
  const auto scale = static_cast<Wide<T>>(now > largest && now < INFINITY ? largest / now : 1.0);
  for_each_pack<kPackSize<T>>(chunk, [=](Index i, auto size) {
    constexpr int N = decltype(size)::value;
    Pack<T, N> pack = load_pack<N>(part.x + i);
    JNORM_UNROLL
    for (int n = 0; n < N; ++n) pack[n] = narrow<T>(widen(pack[n]) * scale);
    store_output_pack(part.y + i, pack);
  });
}

// A sum of squares, scale^2 squares, that no float64 need hold. The scale is infinite or NaN where an element is.
struct ScaledSquares {
  double scale = 0, squares = 0;
};
JNORM_DEVICE double squared_ratio(double scale, double largest) {
  const double ratio = scale == largest ? 1.0 : scale / largest;
  return ratio * ratio;
}
JNORM_DEVICE ScaledSquares combine(const ScaledSquares& a, const ScaledSquares& b) {
  const double largest = nan_max(a.scale, b.scale);
  return {largest, a.squares * squared_ratio(a.scale, largest) + b.squares * squared_ratio(b.scale, largest)};
}
JNORM_DEVICE ScaledSquares shuffle_xor(const ScaledSquares& s, int lanes) {
  return {shuffle_xor(s.scale, lanes), shuffle_xor(s.squares, lanes)};
}
JNORM_DEVICE ScaledSquares shuffle(const ScaledSquares& s, int source_lane) {
  return {shuffle(s.scale, source_lane), shuffle(s.squares, source_lane)};
}

// The magnitude of the largest element; and the squares of all, each divided by `scale`.
template <class T>
struct MagnitudeOf {
  using State = Max<double>;
  JNORM_DEVICE void add(State& state, T x, Index /*position*/) const {
    state.value = nan_max(state.value, static_cast<double>(fabs(widen(x))));
  }
};
template <class T>
struct SquaresOf {
  using State = Sum<double>;
  double scale;
  JNORM_DEVICE void add(State& state, T x, Index /*position*/) const {
    const double scaled = static_cast<double>(widen(x)) / scale;
    state.value += scaled * scaled;
  }
};

// The squares of a chunk. Of float64 the largest element is found first; squares of the others fit into float64.
template <class T>
JNORM_DEVICE ScaledSquares squares_of_chunk(const T* x, Index length, void* scratch) {
  const int thread = thread_index(), threads = block_size();
  const auto of_all = [&](auto state) { return block_reduce(state, static_cast<decltype(state)*>(scratch)).value; };
  if constexpr (sizeof(T) == sizeof(double)) {
    const double scale = of_all(reduce_run(MagnitudeOf<T>{}, x, length, 0, thread, threads));
    if (!(scale > 0 && scale < INFINITY)) return {scale, scale == 0 ? 0.0 : 1.0};
    return {scale, of_all(reduce_run(SquaresOf<T>{scale}, x, length, 0, thread, threads))};
  } else {
    const double squares = of_all(reduce_run(L2NormOf<T>{}, x, length, 0, thread, threads));
    if (!(squares > 0 && squares < INFINITY)) return {squares, squares == 0 ? 0.0 : 1.0};
    return {1.0, squares};
  }
}

template <class T>
JNORM_KERNEL(kChunkThreads)
squares_kernel(Parts<const T*> parts, ScaledSquares* partial) {
  const Chunk chunk(parts);
  const ScaledSquares squares =
      squares_of_chunk(parts.own[chunk.part] + chunk.begin, chunk.end - chunk.begin, dynamic_smem<double>());
  if (thread_index() == 0) partial[block_x()] = squares;
}

// By one block: the sum of all squares, or its root.
enum class SquaresResult : std::uint8_t { sum, root };
JNORM_KERNEL(kMaxThreads)
finish_squares_kernel(const ScaledSquares* partial, Index count, SquaresResult wanted, double* result) {
  ScaledSquares total;
  for (Index i = thread_index(); i < count; i += block_size()) total = combine(total, partial[i]);
  total = block_reduce(total, dynamic_smem<ScaledSquares>());
  if (thread_index() != 0) return;
  *result =
      wanted == SquaresResult::root ? total.scale * sqrt(total.squares) : total.scale * total.scale * total.squares;
}

// partial[block] = minus the position of the block's first element that isn't finite, or -inf: the largest of all
// leads to the first.
template <class T>
struct NonFiniteOf {
  using State = Max<double>;
  JNORM_DEVICE void add(State& state, T x, Index position) const {
    const Wide<T> wide = widen(x);
    if (wide - wide != Wide<T>(0)) state.value = nan_max(state.value, -static_cast<double>(position));
  }
};
template <class T>
JNORM_KERNEL(kChunkThreads)
first_non_finite_kernel(const T* x, Index count, double* partial) {
  const Index begin = block_x() * kChunk, rest = count - begin;
  const Max<double> own =
      reduce_run(NonFiniteOf<T>{}, x + begin, rest < kChunk ? rest : kChunk, begin, thread_index(), block_size());
  const Max<double> first = block_reduce(own, dynamic_smem<Max<double>>());
  if (thread_index() == 0) partial[block_x()] = first.value;
}

}  // namespace jnorm::cuda
