#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include <jnorm/core/tensor.hpp>

namespace jnorm {

// Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
// 1, 2, 3" (2011): a keyed bijection of 128-bit counters whose outputs for 0, 1, 2, ... are the random blocks.
std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

// The upper 53 of 64 random bits as a number in (0, 1]: a multiple of 2^-53 that is never 0, so its logarithm is
// finite.
double unit_interval(std::uint64_t bits);

// Two independent standard normal numbers from u in (0, 1] and v in [0, 1] (Box and Muller 1958).
std::pair<double, double> box_muller(double u, double v);

// A stream of random numbers. A result depends on seed, stream and counter alone: not on threads, and not on whether a
// run was stopped and resumed. Streams of one seed share no block.
//
// Each draw of a number consumes one block, so `counter` says how many were drawn. Filling a tensor of n elements
// consumes ceil(n / 2) blocks, whatever the dtype: elements 2k and 2k + 1 come from block counter + k, with 64 bits
// each. Narrower dtypes hold the same numbers, rounded.
class Rng {
 public:
  struct State {
    std::uint64_t seed = 0;
    std::uint64_t stream = 0;
    std::uint64_t counter = 0;
    friend bool operator==(const State&, const State&) = default;
  };

  explicit Rng(std::uint64_t seed, std::uint64_t stream = 0) : state_{seed, stream, 0} {}

  std::uint32_t next_u32();
  std::uint64_t next_u64();
  double uniform();      // in (0, 1]
  double normal();       // mean 0, variance 1
  Index below(Index n);  // in [0, n), every value equally likely. Throws Error(argument) unless n > 0.

  // A stream of its own for one purpose: rng.split("data"). It follows from this one's seed and stream and from the
  // name, and not from what was drawn so far.
  Rng split(std::string_view name) const;

  State state() const { return state_; }
  static Rng from_state(const State& state);

  // For those who fill arrays: the block that lies `ahead` of the counter, and a step over `blocks` that were used.
  std::array<std::uint32_t, 4> block(std::uint64_t ahead) const;
  void skip(std::uint64_t blocks) { state_.counter += blocks; }

 private:
  State state_;
};

// Tensors of independent random numbers; dtype is a floating-point one (Error(argument) otherwise).
Tensor randn(const Shape& shape, Rng& rng, DType dtype = DType::float32);  // mean 0, variance 1
// In (low, high], then rounded to the dtype. Throws Error(argument) unless low <= high and both are finite in the
// dtype.
Tensor rand_uniform(const Shape& shape, Rng& rng, double low = 0.0, double high = 1.0, DType dtype = DType::float32);
Tensor random_signs(const Shape& shape, Rng& rng, DType dtype = DType::float32);  // -1 or 1

}  // namespace jnorm
