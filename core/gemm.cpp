#include <jnorm/core/gemm.hpp>

#include <limits>
#include <numeric>
#include <utility>

#include <jnorm/core/gemm_tile.hpp>
#include <jnorm/core/openblas.hpp>
#include <jnorm/core/parallel.hpp>

// Three ways to one product. OpenBLAS is built for large matrices, and its general kernel packs both operands first.
// The matrices of a small Transformer are better served by the tiles below: c is cut into panels of one or two vectors
// of columns, a panel of b is packed once (unless it is fine as it lies), and tiles of c are summed up in registers.

namespace jnorm {

namespace {

// With two vectors of columns the accumulators fill the registers: 32 of them with AVX-512, otherwise 16.
constexpr int kTileRows = sizeof(Vector<float>) == 64 ? 12 : 6;
constexpr int kPanelVectors = 2;
template <class T>
constexpr Index kPanelColumns = kPanelVectors* kLanes<T>;

// Rows of b that one packed panel holds: 32 KB with the widest vectors, so that it stays in the first-level cache.
constexpr Index kPanelDepth = 256;

// One product of the tiled kind. Scaling belongs to the last step, when a tile leaves the registers.
template <class T>
struct Product {
  Index m, n, k;
  T alpha;
  MatrixView<const T> a, b;
  T beta;
  T* c;
  Index ldc;
};

// A panel of b's columns as the tiles read it: `depth` rows of whole vectors.
template <class T>
struct Panel {
  const T* data;
  Index stride;
  Index depth;
  Index columns;  // of c; the lanes beyond hold zeros
};

constexpr Index divide_up(Index a, Index b) { return (a + b - 1) / b; }

// to[depth, vectors * lanes] = b[depth, columns], with zeros in the lanes beyond.
template <class T>
void pack_rows(MatrixView<const T> b, Index depth, Index columns, Index stride, T* to) {
  for (Index j = 0; j < columns; j += kLanes<T>) {
    const Index lanes = std::min(kLanes<T>, columns - j);
    for (Index p = 0; p < depth; ++p) load_first(b.at(p, j), lanes).store_aligned(to + p * stride + j);
  }
}

// The same where b's columns are contiguous, not its rows: squares of lanes are transposed in registers.
template <class T>
void pack_columns(MatrixView<const T> b, Index depth, Index columns, Index stride, T* to) {
  Vector<T> square[kLanes<T>];
  for (Index j = 0; j < columns; j += kLanes<T>) {
    const Index width = std::min(kLanes<T>, columns - j);
    for (Index p = 0; p < depth; p += kLanes<T>) {
      const Index height = std::min(kLanes<T>, depth - p);
#pragma GCC unroll 16
      for (Index i = 0; i < kLanes<T>; ++i) {
        square[i] = i < width ? load_first(b.at(p, j + i), height) : Vector<T>(T{0});
      }
      transpose_square<T>(square);
      if (height == kLanes<T>) {
#pragma GCC unroll 16
        for (Index i = 0; i < kLanes<T>; ++i) square[i].store_aligned(to + (p + i) * stride + j);
      } else {
        for (Index i = 0; i < height; ++i) square[i].store_aligned(to + (p + i) * stride + j);
      }
    }
  }
}

// c[Rows, columns] = alpha a b + beta c.
template <int Rows, int Vectors, class T>
void tile_product(T alpha, MatrixView<const T> a, const Panel<T>& b, T beta, T* c, Index ldc) {
  Vector<T> tile[Rows][Vectors];
  // One of a's strides is 1; saying which saves the inner loop its multiplications.
  if (a.column_stride == 1) {
    multiply_tile<Rows, Vectors, T>(b.depth, {a.data, a.row_stride, 1}, b.data, b.stride, tile);
  } else {
    multiply_tile<Rows, Vectors, T>(b.depth, {a.data, 1, a.column_stride}, b.data, b.stride, tile);
  }
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) {
      T* const to = c + r * ldc + v * kLanes<T>;
      const Index lanes = std::min(kLanes<T>, b.columns - v * kLanes<T>);
      Vector<T> result = alpha * tile[r][v];
      if (beta != T{0}) result = xsimd::fma(Vector<T>(beta), load_first(to, lanes), result);
      store_first(to, result, lanes);
    }
  }
}

// The tile of `rows` rows, a number known only at run time.
template <int Vectors, class T>
void tile_product_of(Index rows, T alpha, MatrixView<const T> a, const Panel<T>& b, T beta, T* c, Index ldc) {
  [&]<int... Row>(std::integer_sequence<int, Row...>) {
    ((rows == Row + 1 ? tile_product<Row + 1, Vectors, T>(alpha, a, b, beta, c, ldc) : void()), ...);
  }
  (std::make_integer_sequence<int, kTileRows>{});
}

// Rows [begin, end) of c's columns from `column` on, one panel wide.
template <class T>
void panel_product(const Product<T>& product, Index begin, Index end, Index column) {
  const Index columns = std::min(kPanelColumns<T>, product.n - column);
  const Index vectors = divide_up(columns, kLanes<T>);
  const Index tiles = divide_up(end - begin, kTileRows);
  const Index tile_rows = divide_up(end - begin, tiles);  // 32 rows are 11 + 11 + 10, not 12 + 12 + 8
  // Packing pays if many tiles read the panel: rows of b that lie a power of two apart crowd each other out of the
  // cache.
  const bool as_it_lies = product.b.column_stride == 1 && columns == vectors * kLanes<T> && end - begin <= 64;
  alignas(64) T packed[kPanelDepth * kPanelColumns<T>];

  for (Index p = 0; p < product.k; p += kPanelDepth) {
    const MatrixView<const T> b = product.b.from(p, column);
    Panel<T> panel{packed, vectors * kLanes<T>, std::min(kPanelDepth, product.k - p), columns};
    if (as_it_lies) {
      panel.data = b.data;
      panel.stride = b.row_stride;
    } else if (b.column_stride == 1) {
      pack_rows(b, panel.depth, columns, panel.stride, packed);
    } else {
      pack_columns(b, panel.depth, columns, panel.stride, packed);
    }
    const T beta = p == 0 ? product.beta : T{1};
    for (Index row = begin; row < end; row += tile_rows) {
      const Index rows = std::min(tile_rows, end - row);
      const auto a = product.a.from(row, p);
      T* const c = product.c + row * product.ldc + column;
      if (vectors == 1) {
        tile_product_of<1, T>(rows, product.alpha, a, panel, beta, c, product.ldc);
      } else {
        tile_product_of<kPanelVectors, T>(rows, product.alpha, a, panel, beta, c, product.ldc);
      }
    }
  }
}

// Multiplications that are worth waking a thread for: a few microseconds.
constexpr Index kChunkWork = Index{1} << 18;
// Rows that make packing a panel for them a small part of the work.
constexpr Index kChunkRows = 96;

// How many parts to cut each panel into. One, so that each is packed once, unless that leaves threads idle.
// No element of c depends on the cut: each is summed up in the same order whatever tile it is in.
Index parts_of_a_panel(Index panels, Index m) {
  const Index threads = thread_count();
  if (panels >= 4 * threads) return 1;
  return std::clamp<Index>(std::lcm(panels, threads) / panels, 1, std::max<Index>(1, m / kChunkRows));
}

template <class T>
void tiled_gemm(const Product<T>& product) {
  const Index chunks = product.m * product.n * product.k / kChunkWork;
  if (chunks <= 1) {
    for (Index j = 0; j < product.n; j += kPanelColumns<T>) panel_product(product, 0, product.m, j);
    return;
  }
  const Index panels = divide_up(product.n, kPanelColumns<T>);
  const Index rows = divide_up(product.m, parts_of_a_panel(panels, product.m));
  const Index parts = divide_up(product.m, rows);
  parallel_for(panels * parts, divide_up(panels * parts, chunks), [&](Index begin, Index end) {
    for (Index item = begin; item < end; ++item) {
      const Index first = item % parts * rows;
      panel_product(product, first, std::min(product.m, first + rows), item / parts * kPanelColumns<T>);
    }
  });
}

// Sizes that OpenBLAS takes.
template <class... Sizes>
bool fit_in_32_bits(Sizes... sizes) {
  return ((sizes <= std::numeric_limits<std::int32_t>::max()) && ...);
}

// Multiplications from which on OpenBLAS is the faster one.
constexpr Index kLargeWork = Index{1} << 29;
// Rows or columns of c in one of its calls: not few, since each call packs its operands anew.
constexpr Index kLargeChunk = 256;

// Chunks are runs of rows or of columns of c, whichever are more. They follow from the shape alone, since OpenBLAS may
// sum up in another order when the shape changes.
template <class T>
void large_gemm(bool transpose_a, bool transpose_b, const Product<T>& p, Index lda, Index ldb) {
  const bool by_rows = p.m >= p.n;
  parallel_for(by_rows ? p.m : p.n, kLargeChunk, [&](Index begin, Index end) {
    if (by_rows) {
      blas::gemm(transpose_a, transpose_b, end - begin, p.n, p.k, p.alpha, p.a.at(begin, 0), lda, p.b.data, ldb, p.beta,
                 p.c + begin * p.ldc, p.ldc);
    } else {
      blas::gemm(transpose_a, transpose_b, p.m, end - begin, p.k, p.alpha, p.a.data, lda, p.b.at(0, begin), ldb, p.beta,
                 p.c + begin, p.ldc);
    }
  });
}

// c is a row or a column. OpenBLAS would let beta = 0 keep NaN on some processors, so c is cleared here.
template <class T>
void vector_product(bool transpose_a, bool transpose_b, const Product<T>& p, Index lda, Index ldb) {
  const bool is_row = p.m == 1;
  const Index stride = is_row ? 1 : p.ldc;
  if (p.beta == T{0}) {
    for (Index i = 0; i < p.m * p.n; ++i) p.c[i * stride] = T{0};
  }
  if (is_row) {  // c^T = op(b)^T a^T
    blas::gemv(!transpose_b, transpose_b ? p.n : p.k, transpose_b ? p.k : p.n, p.alpha, p.b.data, ldb, p.a.data,
               p.a.column_stride, p.beta, p.c, stride);
  } else {
    blas::gemv(transpose_a, transpose_a ? p.k : p.m, transpose_a ? p.m : p.k, p.alpha, p.a.data, lda, p.b.data,
               p.b.row_stride, p.beta, p.c, stride);
  }
}

template <class T>
MatrixView<const T> view(bool transpose, const T* data, Index ld) {
  return transpose ? MatrixView<const T>{data, 1, ld} : MatrixView<const T>{data, ld, 1};
}

// c = beta c: what is left of a product over nothing.
template <class T>
void scale(const Product<T>& product) {
  for (Index i = 0; i < product.m; ++i) {
    T* const row = product.c + i * product.ldc;
    for (Index j = 0; j < product.n; ++j) row[j] = product.beta == T{0} ? T{0} : product.beta * row[j];
  }
}

}  // namespace

template <class T>
void gemm(bool transpose_a, bool transpose_b, Index m, Index n, Index k, T alpha, const T* a, Index lda, const T* b,
          Index ldb, T beta, T* c, Index ldc) {
  const Product<T> product{m, n, k, alpha, view(transpose_a, a, lda), view(transpose_b, b, ldb), beta, c, ldc};
  if (m == 0 || n == 0) return;
  if (k == 0) return scale(product);
  // OpenBLAS skips a product that alpha = 0 multiplies.
  const bool blas_can = alpha != T{0} && fit_in_32_bits(m, n, k, lda, ldb, ldc);
  if (blas_can && (m == 1 || n == 1)) return vector_product(transpose_a, transpose_b, product, lda, ldb);
  if (blas_can && m * n * k >= kLargeWork) return large_gemm(transpose_a, transpose_b, product, lda, ldb);
  tiled_gemm(product);
}

template void gemm(bool, bool, Index, Index, Index, float, const float*, Index, const float*, Index, float, float*,
                   Index);
template void gemm(bool, bool, Index, Index, Index, double, const double*, Index, const double*, Index, double, double*,
                   Index);

}  // namespace jnorm
