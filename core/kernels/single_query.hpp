#pragma once

// Private to the CPU's attention: sequences of a single query each, as when a cache holds the keys of earlier
// positions. In blocks of many queries all lanes but one would be idle. Here a head's scores are one row, whose lanes
// are neighbouring keys; and all heads take a key before the next one, so that keys and values are read once, in the
// order in which they lie.

#include <cmath>

#include <jnorm/core/kernels/rows.hpp>

namespace jnorm::cpu {

// One sequence: q [heads, columns], keys [count, key heads, columns], values [count, key heads, value columns] -> y
// [heads, value columns]. `group` heads read one key head. The query sees all keys, of which there is at least one.
template <class T>
struct SingleQuery {
  Index count, columns, value_columns, key_width, value_width, group;
  T scale;
  const T *q, *keys, *values;
  T *y, *lse;
  T* scores;  // [heads, row_length(count)]

  // An odd number of vectors: rows that lie a power of two apart would crowd each other out of the cache.
  static Index row_length(Index count) { return ((count + kLanes<T> - 1) / kLanes<T> | 1) * kLanes<T>; }

  const T* key(Index row, Index head) const { return keys + row * key_width + head / group * columns; }
  const T* value(Index row, Index head) const { return values + row * value_width + head / group * value_columns; }
  T* scores_of(Index head) const { return scores + head * row_length(count); }

  // [ATT.1] for the heads [begin, end).
  void attend(Index begin, Index end) const {
    for (Index row = 0; row < count; ++row) {
      for (Index head = begin; head < end; ++head)
        scores_of(head)[row] = scale * dot(q + head * columns, key(row, head));
    }
    std::fill(y + begin * value_columns, y + end * value_columns, T(0));
    for (Index head = begin; head < end; ++head) softmax(head);
    Index row = 0;
    for (; row + 4 <= count; row += 4) add_values<4>(row, begin, end);
    for (; row < count; ++row) add_values<1>(row, begin, end);
  }

 private:
  T dot(const T* a, const T* b) const {
    Batch<T> sum(T(0));
    for_each_batch<T>(0, columns, [&](auto at) { sum = xsimd::fma(at.load(a), at.load(b), sum); });
    return xsimd::hadd(sum);
  }

  void softmax(Index head) const {
    T* const p = scores_of(head);
    const T largest = row_max(p, count);
    const auto sums = row_sums<1, T>(count, [&](auto at) {
      const Batch<T> weight = xsimd::exp(at.load(p) - Batch<T>(largest));
      at.store(p, weight);
      return Batches<T, 1>{weight};
    });
    const Batch<T> factor(T(1) / sums[0]);
    for_each_batch<T>(0, count, [&](auto at) { at.store(p, at.load(p) * factor); });
    lse[head] = largest + std::log(sums[0]);
  }

  // y += p v for `Rows` keys.
  template <std::size_t Rows>
  void add_values(Index row, Index begin, Index end) const {
    for (Index head = begin; head < end; ++head) {
      const T* const p = scores_of(head) + row;
      T* const sum = y + head * value_columns;
      for_each_batch<T>(0, value_columns, [&](auto at) {
        Batch<T> total = at.load(sum);
        unrolled<Rows>([&](std::size_t n) {
          total = xsimd::fma(Batch<T>(p[n]), at.load(value(row + static_cast<Index>(n), head)), total);
        });
        at.store(sum, total);
      });
    }
  }
};

}  // namespace jnorm::cpu
