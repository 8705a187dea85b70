#pragma once

// Dropout with core/random.hpp's generator: a mask has the same bits on each device.

#include <jnorm/cuda/config.hpp>
#include <jnorm/cuda/pack.cuh>

namespace jnorm::cuda {

struct RandomBlock {
  std::uint32_t words[4];
};

// A generator's state as Philox takes it: the key, and the counter of the first block.
struct RandomBlocks {
  std::uint64_t seed, stream, counter;

  // Philox4x32-10 of the block that lies `ahead`.
  JNORM_DEVICE RandomBlock block(std::uint64_t ahead) const {
    const std::uint64_t at = counter + ahead;
    std::uint32_t c0 = low(at), c1 = high(at), c2 = low(stream), c3 = high(stream), k0 = low(seed), k1 = high(seed);
    JNORM_UNROLL
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t product0 = std::uint64_t{0xd2511f53U} * c0, product1 = std::uint64_t{0xcd9e8d57U} * c2;
      c0 = high(product1) ^ c1 ^ k0;
      c1 = low(product1);
      c2 = high(product0) ^ c3 ^ k1;
      c3 = low(product0);
      k0 += 0x9e3779b9U;
      k1 += 0xbb67ae85U;
    }
    return {{c0, c1, c2, c3}};
  }

 private:
  JNORM_DEVICE static std::uint32_t low(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
  JNORM_DEVICE static std::uint32_t high(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); }
};

// Selected and not multiplied: a dropped infinity is 0.
template <class T>
JNORM_DEVICE T drop_or_scale(T x, bool dropped, Wide<T> scale) {
  return narrow<T>(dropped ? Wide<T>(0) : widen(x) * scale);
}

constexpr Index kWords = 4;  // of a random block, one for each element

// A thread takes the elements of a random block in all copies of `period` elements. In `whole_packs` each begins where
// a pack does.
template <class T>
JNORM_KERNEL(kElementwiseThreads)
dropout_kernel(RandomBlocks blocks, std::uint64_t threshold, Wide<T> scale, Index size, Index period, bool whole_packs,
               const T* x, T* y) {
  constexpr int N = sizeof(T) == 8 ? 2 : 4;
  const Index threads = grid_x() * block_size();
  for (Index block = block_x() * block_size() + thread_index(); block * kWords < period; block += threads) {
    const RandomBlock random = blocks.block(static_cast<std::uint64_t>(block));
    const Index first = block * kWords, count = period - first < kWords ? period - first : kWords;
    for (Index copy = 0; copy < size; copy += period) {
      const Index at = copy + first;
      if (whole_packs && count == kWords) {
        JNORM_UNROLL
        for (int word = 0; word < kWords; word += N) {
          Pack<T, N> pack = load_pack<N>(x + at + word);
          JNORM_UNROLL
          for (int k = 0; k < N; ++k) pack[k] = drop_or_scale(pack[k], random.words[word + k] < threshold, scale);
          store_pack<N>(y + at + word, pack);
        }
      } else {
        JNORM_UNROLL
        for (int k = 0; k < kWords; ++k) {
          if (k < count) y[at + k] = drop_or_scale(x[at + k], random.words[k] < threshold, scale);
        }
      }
    }
  }
}

}  // namespace jnorm::cuda
