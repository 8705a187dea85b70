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

// What is added to a product: beta times c itself, or times one row for all of c's rows, where the stride is 0.
template <class T>
struct Addend {
  T beta;
  const T* data;
  Index stride;
};

// c = alpha a b + beta addend.
template <class T>
struct Product {
  Index m, n, k;
  T alpha;
  MatrixView<const T> a, b;
  Addend<T> addend;
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

// c[Rows, columns] = alpha a b + beta addend.
template <int Rows, int Vectors, class T>
void tile_product(T alpha, MatrixView<const T> a, const Panel<T>& b, Addend<T> addend, T* c, Index ldc) {
  Vector<T> tile[Rows][Vectors];
  // One of a's strides is 1; saying which saves the inner loop its multiplications.
  if (a.column_stride == 1) {
    multiply_tile<Rows, Vectors, T>(b.depth, {a.data, a.row_stride, 1}, b.data, b.stride, tile);
  } else {
    multiply_tile<Rows, Vectors, T>(b.depth, {a.data, 1, a.column_stride}, b.data, b.stride, tile);
  }
  const auto for_each_vector = [&](auto&& f) {
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) f(tile[r][v], r, v * kLanes<T>, std::min(kLanes<T>, b.columns - v * kLanes<T>));
    }
  };
  for_each_vector([&](Vector<T>& sum, Index, Index, Index) { sum *= alpha; });
  if (addend.beta != T{0}) {
    for_each_vector([&](Vector<T>& sum, Index r, Index j, Index lanes) {
      sum = xsimd::fma(Vector<T>(addend.beta), load_first(addend.data + r * addend.stride + j, lanes), sum);
    });
  }
  for_each_vector(
      [&](const Vector<T>& sum, Index r, Index j, Index lanes) { store_first(c + r * ldc + j, sum, lanes); });
}

// The tile of `rows` rows, a number known only at run time.
template <int Vectors, class T>
void tile_product_of(Index rows, T alpha, MatrixView<const T> a, const Panel<T>& b, Addend<T> addend, T* c, Index ldc) {
  [&]<int... Row>(std::integer_sequence<int, Row...>) {
    ((rows == Row + 1 ? tile_product<Row + 1, Vectors>(alpha, a, b, addend, c, ldc) : void()), ...);
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
    // The first panel adds the addend, the next ones add to what it left.
    const Addend<T> all = p == 0 ? product.addend : Addend<T>{T{1}, product.c, product.ldc};
    for (Index row = begin; row < end; row += tile_rows) {
      const Index rows = std::min(tile_rows, end - row);
      const auto a = product.a.from(row, p);
      const Addend<T> addend{all.beta, all.data + row * all.stride + column, all.stride};
      T* const c = product.c + row * product.ldc + column;
      if (vectors == 1) {
        tile_product_of<1>(rows, product.alpha, a, panel, addend, c, product.ldc);
      } else {
        tile_product_of<kPanelVectors>(rows, product.alpha, a, panel, addend, c, product.ldc);
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
      blas::gemm(transpose_a, transpose_b, end - begin, p.n, p.k, p.alpha, p.a.at(begin, 0), lda, p.b.data, ldb,
                 p.addend.beta, p.c + begin * p.ldc, p.ldc);
    } else {
      blas::gemm(transpose_a, transpose_b, p.m, end - begin, p.k, p.alpha, p.a.data, lda, p.b.at(0, begin), ldb,
                 p.addend.beta, p.c + begin, p.ldc);
    }
  });
}

// c is a row or a column.
template <class T>
void vector_product(bool transpose_a, bool transpose_b, const Product<T>& p, Index lda, Index ldb) {
  if (p.m == 1) {  // c^T = op(b)^T a^T
    blas::gemv(!transpose_b, transpose_b ? p.n : p.k, transpose_b ? p.k : p.n, p.alpha, p.b.data, ldb, p.a.data,
               p.a.column_stride, p.addend.beta, p.c, Index{1});
  } else {
    blas::gemv(transpose_a, transpose_a ? p.k : p.m, transpose_a ? p.m : p.k, p.alpha, p.a.data, lda, p.b.data,
               p.b.row_stride, p.addend.beta, p.c, p.ldc);
  }
}

// c = beta addend, so that what follows has only to add to c.
template <class T>
void start_with_addend(Product<T>& p) {
  for (Index i = 0; i < p.m; ++i) {
    T* const row = p.c + i * p.ldc;
    const T* const addend = p.addend.data + i * p.addend.stride;
    for (Index j = 0; j < p.n; ++j) row[j] = p.addend.beta == T{0} ? T{0} : p.addend.beta * addend[j];
  }
  p.addend = {T{1}, p.c, p.ldc};
}

template <class T>
MatrixView<const T> view(bool transpose, const T* data, Index ld) {
  return transpose ? MatrixView<const T>{data, 1, ld} : MatrixView<const T>{data, ld, 1};
}

template <class T>
void multiply(bool transpose_a, bool transpose_b, Product<T>& p, Index lda, Index ldb) {
  if (p.m == 0 || p.n == 0) return;
  if (p.k == 0) return start_with_addend(p);
  // OpenBLAS skips a product that alpha = 0 multiplies.
  const bool blas_can = p.alpha != T{0} && fit_in_32_bits(p.m, p.n, p.k, lda, ldb, p.ldc);
  const bool is_vector = p.m == 1 || p.n == 1;
  if (!blas_can || (!is_vector && p.m * p.n * p.k < kLargeWork)) return tiled_gemm(p);
  // Where beta is 0, its kernels for some processors keep NaN, so that c is cleared here.
  if (p.addend.data != p.c || p.addend.beta == T{0}) start_with_addend(p);
  if (is_vector) return vector_product(transpose_a, transpose_b, p, lda, ldb);
  large_gemm(transpose_a, transpose_b, p, lda, ldb);
}

}  // namespace

template <class T>
void gemm(bool transpose_a, bool transpose_b, Index m, Index n, Index k, T alpha, const T* a, Index lda, const T* b,
          Index ldb, T beta, T* c, Index ldc) {
  Product<T> product{m, n, k, alpha, view(transpose_a, a, lda), view(transpose_b, b, ldb), {beta, c, ldc}, c, ldc};
  multiply(transpose_a, transpose_b, product, lda, ldb);
}

template <class T>
void gemm_with_bias(bool transpose_a, bool transpose_b, Index m, Index n, Index k, const T* a, Index lda, const T* b,
                    Index ldb, const T* bias, T* c, Index ldc) {
  Product<T> product{m, n, k, T{1}, view(transpose_a, a, lda), view(transpose_b, b, ldb), {T{1}, bias, 0}, c, ldc};
  multiply(transpose_a, transpose_b, product, lda, ldb);
}

template void gemm(bool, bool, Index, Index, Index, float, const float*, Index, const float*, Index, float, float*,
                   Index);
template void gemm(bool, bool, Index, Index, Index, double, const double*, Index, const double*, Index, double, double*,
                   Index);
template void gemm_with_bias(bool, bool, Index, Index, Index, const float*, Index, const float*, Index, const float*,
                             float*, Index);
template void gemm_with_bias(bool, bool, Index, Index, Index, const double*, Index, const double*, Index, const double*,
                             double*, Index);

}  // namespace jnorm
