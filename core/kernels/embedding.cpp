// Rows of a table by token, and the gradient of the table.

#include <algorithm>

#include <jnorm/core/dtype.hpp>
#include <jnorm/core/kernels/cpu.hpp>
#include <jnorm/core/parallel.hpp>

namespace jnorm::cpu {

void embedding(const Tensor& table, const Tensor& tokens, const Tensor& y) {
  dispatch_wide("embedding", table.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Index length = table.row_length();
    const std::int32_t* const token = tokens.data<std::int32_t>();
    parallel_for(tokens.size(), grain_for(length), [&](Index begin, Index end) {
      for (Index r = begin; r < end; ++r) {
        std::copy_n(table.data<T>() + token[r] * length, length, y.output_data<T>() + r * length);
      }
    });
  });
}

// Each thread takes some columns of one copy and goes through all tokens in order, so that tokens that are equal add up
// in the same order however many threads there are.
void embedding_dtable(const Tensor& dy, const Tensor& tokens, const Destination& dtable) {
  if (!dtable.wanted()) return;
  dispatch_wide("embedding_dtable", dy.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* const gradient = dtable.tensor.output_data<T>();
    if (!dtable.add) std::fill_n(gradient, dtable.tensor.size(), T(0));
    if (dy.size() == 0) return;
    const Index length = dy.row_length(), rows = tokens.size();
    const Index copies = dy.size() / (rows * length);
    const Index table_size = dtable.tensor.size() / copies;
    const std::int32_t* const token = tokens.data<std::int32_t>();
    constexpr Index strip = 64;
    const Index strips = (length + strip - 1) / strip;
    parallel_for(copies * strips, grain_for(rows * strip), [&](Index begin, Index end) {
      for (Index item = begin; item < end; ++item) {
        const Index copy = item / strips, first = item % strips * strip;
        const Index width = std::min(strip, length - first);
        for (Index r = 0; r < rows; ++r) {
          const T* const from = dy.data<T>() + (copy * rows + r) * length + first;
          T* const to = gradient + copy * table_size + token[r] * length + first;
#pragma omp simd
          for (Index j = 0; j < width; ++j) to[j] += from[j];
        }
      }
    });
  });
}

}  // namespace jnorm::cpu
