#pragma once

// Private to the CPU's row kernels: loops over contiguous elements in SIMD batches. A body is written once and serves
// the whole batches of a row and the elements that are left at its end.

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <utility>

#include <jnorm/core/kernels.hpp>
#include <jnorm/core/parallel.hpp>
#include <jnorm/core/simd.hpp>

namespace jnorm::cpu {

template <class T>
using Batch = Vector<T>;

// The elements [offset, offset + kLanes) of a row.
template <class T>
struct WholeBatch {
  Index offset;
  Batch<T> load(const T* row) const { return Batch<T>::load_unaligned(row + offset); }
  void store(T* row, const Batch<T>& value) const { value.store_unaligned(row + offset); }
  Batch<T> keep(const Batch<T>& value, T /*elsewhere*/) const { return value; }
};

// Out of line, since few rows have fewer elements than a batch.
template <class T>
[[gnu::noinline]] Batch<T> keep_first(const Batch<T>& value, Index count, T elsewhere) {
  alignas(64) T lanes[kLanes<T>];
  value.store_aligned(lanes);
  std::fill(lanes + count, lanes + kLanes<T>, elsewhere);
  return Batch<T>::load_aligned(lanes);
}

// The last elements of a row, fewer than a batch. Lanes beyond the end load 0 and are not stored.
template <class T>
struct LastElements {
  Index offset, count;
  Batch<T> load(const T* row) const { return load_first(row + offset, count); }
  void store(T* row, const Batch<T>& value) const { store_first(row + offset, value, count); }
  // The value inside the row, `elsewhere` beyond its end.
  Batch<T> keep(const Batch<T>& value, T elsewhere) const { return keep_first(value, count, elsewhere); }
};

// Calls body(at) for each batch of [begin, end), where `at` loads from and stores to any row of that length.
template <class T, class Body>
void for_each_batch(Index begin, Index end, Body&& body) {
  Index i = begin;
  for (; i + kLanes<T> <= end; i += kLanes<T>) body(WholeBatch<T>{i});
  if (i < end) body(LastElements<T>{i, end - i});
}

// Several batches that are summed or written side by side.
template <class T, std::size_t N>
using Batches = std::array<Batch<T>, N>;

// f(n) for n = 0 ... N - 1, unrolled in the source: g++ 12 leaves an array that a loop walks over in memory.
template <std::size_t N, class F>
void unrolled(F&& f) {
  [&]<std::size_t... n>(std::index_sequence<n...>) { (f(n), ...); }
  (std::make_index_sequence<N>{});
}

template <class T, std::size_t N>
void add_to(Batches<T, N>& totals, const Batches<T, N>& terms) {
  unrolled<N>([&](std::size_t n) { totals[n] += terms[n]; });
}

// The sums of N terms over a row; term(at) gives a batch of each. Four accumulators hide the latency of the additions
// and keep float32 sums short.
template <std::size_t N, class T, class Term>
std::array<T, N> row_sums(Index length, Term&& term) {
  Batches<T, N> a, b, c, d;
  unrolled<N>([&](std::size_t n) { a[n] = b[n] = c[n] = d[n] = Batch<T>(T(0)); });
  Index i = 0;
  for (; i + 4 * kLanes<T> <= length; i += 4 * kLanes<T>) {
    add_to<T, N>(a, term(WholeBatch<T>{i}));
    add_to<T, N>(b, term(WholeBatch<T>{i + kLanes<T>}));
    add_to<T, N>(c, term(WholeBatch<T>{i + 2 * kLanes<T>}));
    add_to<T, N>(d, term(WholeBatch<T>{i + 3 * kLanes<T>}));
  }
  for_each_batch<T>(i, length, [&](auto at) {
    const Batches<T, N> terms = term(at);
    unrolled<N>([&](std::size_t n) { a[n] += at.keep(terms[n], T(0)); });
  });
  std::array<T, N> sums;
  unrolled<N>([&](std::size_t n) { sums[n] = xsimd::hadd((a[n] + b[n]) + (c[n] + d[n])); });
  return sums;
}

template <class T>
T row_max(const T* row, Index length) {  // -inf for an empty row; NaN may be passed over
  constexpr T lowest = -std::numeric_limits<T>::infinity();
  Batch<T> largest(lowest);
  for_each_batch<T>(0, length, [&](auto at) { largest = xsimd::max(largest, at.keep(at.load(row), lowest)); });
  alignas(64) T lanes[kLanes<T>];
  largest.store_aligned(lanes);
  return *std::max_element(lanes, lanes + kLanes<T>);
}

// Overwrites a destination's row, or adds to it.
template <class Place, class T>
void put(const Place& at, T* row, const Batch<T>& value, bool add) {
  at.store(row, add ? at.load(row) + value : value);
}

// A tensor's elements as rows of its last axis.
template <class T>
struct Rows {
  T* data;
  Index length;
  T* operator[](Index row) const { return data + row * length; }
};
template <class T>
Rows<const T> rows_of(const Tensor& x) {
  return {x.data<T>(), x.row_length()};
}
template <class T>
Rows<T> output_rows(const Tensor& y) {
  return {y.output_data<T>(), y.row_length()};
}

// Calls body(r) for each row of x, on all threads.
template <class Body>
void for_each_row(const Tensor& x, const Body& body) {
  parallel_for(x.rows(), grain_for(x.row_length()), [&](Index begin, Index end) {
    for (Index r = begin; r < end; ++r) body(r);
  });
}

// Calls body(i, r) for each row i of K copies of x, where r is the row of x that it stands for.
template <class Body>
void for_each_row_of_copies(Index copies, const Tensor& x, const Body& body) {
  const Index rows = x.rows();
  parallel_for(copies * rows, grain_for(x.row_length()), [&](Index begin, Index end) {
    Index r = begin % rows;
    for (Index i = begin; i < end; ++i) {
      body(i, r);
      if (++r == rows) r = 0;
    }
  });
}

// How often a cotangent holds the elements of x.
inline Index copies_of(const Tensor& x, const Tensor& dy) { return x.size() == 0 ? 0 : dy.size() / x.size(); }

}  // namespace jnorm::cpu
