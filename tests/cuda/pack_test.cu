#include <vector>

#include <doctest/doctest.h>

#include <jnorm/cuda/launch.cuh>
#include <jnorm/cuda/pack.cuh>

#include "cuda/floating_types.hpp"
#include "cuda/test_device.hpp"

namespace jnorm::cuda {

namespace {

// y is x with the elements of each pack in reverse order.
template <class T, int N>
JNORM_KERNEL(32)
reverse_packs(const T* x, T* y) {
  const Pack<T, N> pack = load_pack<N>(x + N * thread_index());
  Pack<T, N> reversed;
  JNORM_UNROLL
  for (int i = 0; i < N; ++i) reversed[i] = pack[N - 1 - i];
  store_pack(y + N * thread_index(), reversed);
}

template <int N, class T>
void check_reversed(DType dtype) {
  std::vector<double> values;
  for (int i = 0; i < 32 * N; ++i) values.push_back(i);
  const Tensor x = tensor({32 * N}, values, dtype).to(test::test_device());
  const Tensor y = zeros({32 * N}, dtype, test::test_device());
  launch("reverse_packs", test::test_context(), {.threads = 32}, reverse_packs<T, N>, input<T>(x), output<T>(y));
  for (int i = 0; i < 32 * N; ++i) CHECK(y.values()[static_cast<std::size_t>(i)] == i / N * N + N - 1 - i % N);
}

}  // namespace

TEST_CASE("cuda pack: elements keep their place, in packs of 16, 8 and 4 bytes and alone") {
  for (const DType dtype : test::kFloatingTypes) {
    dispatch_device("reverse_packs", dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      check_reversed<1, T>(dtype);
      check_reversed<kPackSize<T>, T>(dtype);
      if constexpr (sizeof(T) <= 4) check_reversed<8 / sizeof(T), T>(dtype);
      if constexpr (sizeof(T) == 2) check_reversed<2, T>(dtype);
    });
  }
}

TEST_CASE("cuda pack: packs fit rows that begin and end at their multiples") {
  alignas(16) static const float row[8]{};
  CHECK(packs_fit<4>(row, 4096));
  CHECK(!packs_fit<4>(row, 4093));
  CHECK(!packs_fit<4>(row + 1, 4096));
  CHECK(packs_fit<2>(row + 2, 6));
  CHECK(packs_fit<1>(row + 1, 4093));
  CHECK(packs_fit<4>(static_cast<const float*>(nullptr), 8));
}

}  // namespace jnorm::cuda
