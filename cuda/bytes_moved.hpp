#pragma once

// Bytes of device memory that a kernel has to read and write at least: what a benchmark divides by its time. R rows of
// H elements of s bytes each.

#include <cstdint>

#include <jnorm/core/shape.hpp>

namespace jnorm::cuda {

// Elementwise: what is read and written is so once. A shorter operand, which repeats, stays in a cache.
constexpr Index fill_bytes(Index count, Index s) { return count * s; }
constexpr Index convert_bytes(Index count, Index from, Index to) { return count * (from + to); }
constexpr Index unary_bytes(Index count, Index s) { return 2 * count * s; }  // affine, parametric, activation, dropout
constexpr Index binary_bytes(Index a, Index b, Index s) { return (a + b + (a > b ? a : b)) * s; }  // accumulate, too
constexpr Index compare_bytes(Index a, Index b, Index s) { return (a + b) * s + (a > b ? a : b) * 4; }
constexpr Index where_bytes(Index count, Index s) { return count * (3 * s + 4); }
constexpr Index activation_dx_bytes(Index copies, Index count, Index s, bool add) {
  return ((add ? 3 : 2) * copies + 1) * count * s;
}

// Shape: what is moved is read once and written once; a broadcast reads the smaller tensor.
constexpr Index copy_bytes(Index count, Index s, bool add = false) { return (add ? 3 : 2) * count * s; }
constexpr Index broadcast_bytes(Index x, Index y, Index s) { return (x + y) * s; }

// Of an index of n elements, and y's elements chosen by it or x's added up by it.
constexpr Index index_select_bytes(Index n, Index y, Index s) { return 4 * n + 2 * y * s; }
constexpr Index index_add_bytes(Index n, Index x, Index y, Index s) { return 4 * n + (x + y) * s; }
constexpr Index gather_bytes(Index y, Index s) { return y * (2 * s + 4); }
constexpr Index scatter_add_bytes(Index x, Index y, Index s) { return x * (s + 4) + y * s; }

// The table's elements have table_s bytes.
constexpr Index rotary_bytes(Index x, Index table, Index s, Index table_s, bool add) {
  return (add ? 3 : 2) * x * s + table * table_s;
}

// Norms of rows, which save one or two numbers of at least four bytes each.
constexpr Index statistic_bytes(Index s) { return s > 4 ? s : 4; }
constexpr Index layer_norm_bytes(Index R, Index H, Index s) { return 2 * R * H * s + 2 * R * statistic_bytes(s); }
constexpr Index root_norm_bytes(Index R, Index H, Index s) { return 2 * R * H * s + R * statistic_bytes(s); }
// dx, dgamma and dbeta together, by way of G rows of float32 partial sums; RMSNorm has one sum a column.
constexpr Index layer_norm_backward_bytes(Index R, Index H, Index s, Index G) { return 3 * R * H * s + 16 * G * H; }
constexpr Index rms_norm_backward_bytes(Index R, Index H, Index s, Index G) { return 3 * R * H * s + 8 * G * H; }

constexpr Index dynamic_tanh_bytes(Index R, Index H, Index s) { return 2 * R * H * s; }
constexpr Index dynamic_tanh_dx_bytes(Index R, Index H, Index s) { return 3 * R * H * s; }
constexpr Index dynamic_tanh_dparameters_bytes(Index R, Index H, Index s, Index G) { return 2 * R * H * s + 8 * G * H; }

// BatchNorm and GroupNorm of so many elements, in passes over them. A group that fits on chip is read once; all else is
// x for the statistics, and again for y, and x and dy for the sums, and again for dx.
enum class Groups : std::uint8_t { none, on_chip, longer };
constexpr Index channel_norm_bytes(Groups groups, Index count, Index s) {
  return (groups == Groups::on_chip ? 2 : 3) * count * s;
}
constexpr Index channel_norm_backward_bytes(Groups groups, Index count, Index s) {
  return (groups == Groups::on_chip ? 3 : 5) * count * s;
}

// sum, max, min, norm, logsumexp and variance of rows.
constexpr Index row_reduction_bytes(Index R, Index H, Index s) { return R * H * s; }

// Sums of columns, by way of G rows of float32 partial sums that are written and read again.
constexpr Index column_sum_bytes(Index R, Index H, Index s, Index G) { return R * H * s + 8 * G * H; }

constexpr Index global_norm_bytes(Index count, Index s) { return count * s; }

// The gradient is read; the parameter and its moments are read and written.
constexpr Index optimizer_step_bytes(Index count, Index s, Index moments, Index moment_s) {
  return count * (3 * s + 2 * moments * moment_s);
}

// Softmax and log-softmax. dx is read as well where it is added to.
constexpr Index softmax_bytes(Index R, Index H, Index s) { return 2 * R * H * s; }
constexpr Index softmax_dx_bytes(Index copies, Index R, Index H, Index s, bool add) {
  return ((add ? 3 : 2) * copies + 1) * R * H * s;
}
// Cross-entropy of R rows of V logits; what has one number a row counts little beside them.
constexpr Index cross_entropy_bytes(Index R, Index V, Index s) { return R * V * s; }
constexpr Index cross_entropy_dx_bytes(Index copies, Index R, Index V, Index s, bool add) {
  return (add ? 3 : 2) * copies * R * V * s;
}
// Embedding of R tokens in H columns; the gradient of the table [V, H] is cleared first, if it isn't added to.
constexpr Index embedding_bytes(Index R, Index H, Index s) { return 2 * R * H * s + 4 * R; }
constexpr Index embedding_dtable_bytes(Index copies, Index R, Index V, Index H, Index s, bool add) {
  return copies * (R * H * s + (add ? 0 : V * H * s)) + 4 * R;
}

// Attention: q and y of all queries, k and v of all keys (with B sequences in every size), and lse. Backward, dy and
// the three gradients beside them; what blocks read again comes from a cache.
constexpr Index attention_bytes(Index q, Index k, Index v, Index y, Index lse, Index s) {
  return (q + k + v + y) * s + lse * (s < 4 ? 4 : s);
}
constexpr Index attention_backward_bytes(Index q, Index k, Index v, Index y, Index lse, Index s) {
  return 2 * attention_bytes(q, k, v, y, lse, s);
}

}  // namespace jnorm::cuda
