#pragma once

// Rotary position embedding. Derivation: autograd/ops/rotary.md.
//
//   [ROT.1]  a_c = p base^(-2c/d), the angle of pair c of d/2 in position p
//   [ROT.2]  y_c = cos(a_c) x_c - sin(a_c) x_(c + d/2)     y_(c + d/2) = sin(a_c) x_c + cos(a_c) x_(c + d/2)
//   [ROT.3]  the derivative turns back: [ROT.2] with -a_c

#include <numbers>

#include <jnorm/cuda/config.hpp>
#include <jnorm/cuda/divide.cuh>
#include <jnorm/cuda/pack.cuh>

namespace jnorm::cuda {

// In half turns, within [-1, 1], and exact where the angle's own multiple of 2 pi isn't: 2 pi as the sum of two
// numbers. The functions of half turns need no reduction of their own, which takes local memory.
JNORM_DEVICE double half_turns(double angle) {
  constexpr double two_pi = 2 * std::numbers::pi, rest_of_two_pi = 2.4492935982947064e-16;
  const double turns = std::rint(angle / two_pi);
  return std::fma(-turns, rest_of_two_pi, std::fma(-turns, two_pi, angle)) / std::numbers::pi;
}

// Angles are float64 whatever the table is: in float32 an angle near 100,000 is off by 0.004.
template <class T>
JNORM_KERNEL(kElementwiseThreads)
rotary_table_kernel(Index count, double base, Index first_position, Divisor half, T* table) {
  for (Index i = block_x() * block_size() + thread_index(); i < count; i += grid_x() * block_size()) {
    const Index row = half.quotient(i), c = i - row * half.value();
    const double speed = std::pow(base, -static_cast<double>(c) / static_cast<double>(half.value()));
    const double angle = half_turns(static_cast<double>(first_position + row) * speed);  // [ROT.1]
    T* const cosines = table + row * 2 * half.value();
    cosines[c] = static_cast<T>(cos_pi(angle));
    cosines[half.value() + c] = static_cast<T>(sin_pi(angle));
  }
}

// Rows of several heads of 2 * half columns; `pieces` packs of N make up half of them.
struct RotaryShape {
  Divisor pieces, heads, period;  // period: of the rows in table_rows
};

// Overwrites y, or adds to it. `sign` turns forwards (1) or back (-1).
template <int N, class T>
JNORM_KERNEL(kElementwiseThreads)
rotary_kernel(Index count, RotaryShape shape, Wide<T> sign, bool add, const T* x, const Wide<T>* table,
              const std::int32_t* table_rows, T* y) {
  using W = Wide<T>;
  const Index half = shape.pieces.value() * N;
  for (Index i = block_x() * block_size() + thread_index(); i < count; i += grid_x() * block_size()) {
    const Index head = shape.pieces.quotient(i), c = (i - head * shape.pieces.value()) * N;
    const Index row = shape.period.remainder(shape.heads.quotient(head));
    const T* const from = x + head * 2 * half + c;
    T* const to = y + head * 2 * half + c;
    const W* const turns = table + table_rows[row] * 2 * half + c;
    Pack<T, N> first = load_pack<N>(from), second = load_pack<N>(from + half);
    const Pack<W, N> cosines = load_pack<N>(turns), sines = load_pack<N>(turns + half);
    const Pack<T, N> first_before = add ? load_pack<N>(to) : Pack<T, N>{};
    const Pack<T, N> second_before = add ? load_pack<N>(to + half) : Pack<T, N>{};
    JNORM_UNROLL
    for (int k = 0; k < N; ++k) {
      const W a = widen(first[k]), b = widen(second[k]), cosine = cosines[k], sine = sign * sines[k];
      first[k] = narrow<T>(widen(first_before[k]) + (cosine * a - sine * b));
      second[k] = narrow<T>(widen(second_before[k]) + (sine * a + cosine * b));  // [ROT.2], [ROT.3]
    }
    store_pack<N>(to, first);
    store_pack<N>(to + half, second);
  }
}

}  // namespace jnorm::cuda
