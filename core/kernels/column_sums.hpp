#pragma once

// Private to the CPU's row kernels: parameters that stand beside every row, and the sums over rows that their gradients
// are. The order of the additions follows from the shapes alone.

#include <vector>

#include <jnorm/core/kernels/rows.hpp>

namespace jnorm::cpu {

template <class T>
Tensor constant_row(Index length, T value) {
  Tensor row = Tensor::uninitialized({length}, dtype_of<T>);
  std::fill_n(row.output_data<T>(), length, value);
  return row;
}

// An absent gamma or beta, as a row of its neutral value.
template <class T>
Tensor or_constant(const Tensor& parameter, Index length, T value) {
  return parameter.defined() ? parameter : constant_row(length, value);
}

// Adds the terms of several rows to N rows of totals. A row's terms are a function of the place in the row.
template <class T, std::size_t N, class... RowTerms>
void add_rows(Rows<T> totals, const RowTerms&... terms) {
  for_each_batch<T>(0, totals.length, [=](auto at) {
    Batches<T, N> sums;
    unrolled<N>([&](std::size_t n) { sums[n] = at.load(totals[static_cast<Index>(n)]); });
    (add_to<T, N>(sums, terms(at)), ...);
    unrolled<N>([&](std::size_t n) { at.store(totals[static_cast<Index>(n)], sums[n]); });
  });
}

// Column sums of N matrices that are never stored: results[n][k, :] is the sum over rows r of term n of row_terms(k,
// r). The rows are cut into parts that follow from the shape alone, and the parts' sums are added in order.
template <class T, std::size_t N, class RowTerms>
void column_sums(Index rows, Index length, const std::array<Destination, N>& results, const RowTerms& row_terms) {
  if (length == 0) return;
  constexpr Index part_rows = 256, width = static_cast<Index>(N);
  const Index parts = (rows + part_rows - 1) / part_rows;
  const Index copies = results[0].tensor.size() / length;
  const Tensor partial = Tensor::uninitialized({copies * parts * width, length}, dtype_of<T>);
  const Rows<T> totals = output_rows<T>(partial);
  parallel_for(copies * parts, grain_for(part_rows * length), [&](Index begin, Index end) {
    for (Index part = begin; part < end; ++part) {
      const Rows<T> own{totals[part * width], length};
      std::fill_n(own.data, width * length, T(0));
      const Index copy = part / parts;
      Index r = part % parts * part_rows;
      const Index last = std::min(rows, r + part_rows);
      for (; r + 4 <= last; r += 4) {  // four rows share the loads and stores of the totals
        add_rows<T, N>(own, row_terms(copy, r), row_terms(copy, r + 1), row_terms(copy, r + 2), row_terms(copy, r + 3));
      }
      for (; r < last; ++r) add_rows<T, N>(own, row_terms(copy, r));
    }
  });
  for (Index n = 0; n < width; ++n) {
    const auto& [result, add] = results[static_cast<std::size_t>(n)];
    for (Index copy = 0; copy < copies; ++copy) {
      T* const row = result.template output_data<T>() + copy * length;
      if (!add) std::fill_n(row, length, T(0));
      for (Index part = copy * parts; part < (copy + 1) * parts; ++part) {
        const T* const sums = totals[part * width + n];
        for (Index j = 0; j < length; ++j) row[j] += sums[j];
      }
    }
  }
}

// One sum for each copy, of all terms that row_sum(i, r) gives for its rows: i counts the rows of all copies, r those
// of one. Rows are summed in float64.
template <class T, class RowSum>
void copy_sums(Index copies, const Tensor& x, const Destination& result, const RowSum& row_sum) {
  const Index rows = x.rows();
  std::vector<T> sums(static_cast<std::size_t>(copies * rows));
  for_each_row_of_copies(copies, x, [&](Index i, Index r) { sums[static_cast<std::size_t>(i)] = row_sum(i, r); });
  T* const to = result.tensor.output_data<T>();
  for (Index copy = 0; copy < result.tensor.size(); ++copy) {
    double total = 0;
    for (Index r = 0; r < rows; ++r) total += sums[static_cast<std::size_t>(copy * rows + r)];
    to[copy] = static_cast<T>(result.add ? to[copy] + total : total);
  }
}

}  // namespace jnorm::cpu
