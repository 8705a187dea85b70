#include <jnorm/core/random.hpp>

#include <cmath>
#include <numbers>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/parallel.hpp>

namespace jnorm {

namespace {

constexpr std::uint64_t join(std::uint32_t high, std::uint32_t low) { return std::uint64_t{high} << 32 | low; }
constexpr auto high_word(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); }
constexpr auto low_word(std::uint64_t x) { return static_cast<std::uint32_t>(x); }

// The two independent draws of a block.
constexpr std::uint64_t first_draw(const std::array<std::uint32_t, 4>& block) { return join(block[1], block[0]); }
constexpr std::uint64_t second_draw(const std::array<std::uint32_t, 4>& block) { return join(block[3], block[2]); }

std::pair<double, double> normal_pair(const std::array<std::uint32_t, 4>& block) {
  return box_muller(unit_interval(first_draw(block)), unit_interval(second_draw(block)));
}

// FNV-1a over the name, started from the parent's stream, then mixed so that similar names differ in every bit.
std::uint64_t stream_of(std::uint64_t parent, std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325u ^ parent;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;  // the finalizer of SplitMix64
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
  return hash ^ (hash >> 31);
}

// Elements 2k and 2k + 1 are pair_of(block k). A chunk holds whole pairs, so threads change nothing.
template <class PairOf>
Tensor fill_pairs(const char* operation, const Shape& shape, Rng& rng, DType dtype, PairOf pair_of) {
  constexpr Index pairs_per_chunk = 1024;  // some tens of microseconds of Philox and logarithms
  expect(dtype != DType::int32, "{}: expected a floating-point dtype, got int32", operation);
  Tensor result = Tensor::uninitialized(shape, DType::float64);
  double* const elements = result.output_data<double>();
  const Index pairs = shape.size() / 2 + shape.size() % 2;
  parallel_for(pairs, pairs_per_chunk, [&](Index begin, Index end) {
    for (Index k = begin; k < end; ++k) {
      const auto [first, second] = pair_of(rng.block(static_cast<std::uint64_t>(k)));
      elements[2 * k] = first;
      if (2 * k + 1 < shape.size()) elements[2 * k + 1] = second;
    }
  });
  rng.skip(static_cast<std::uint64_t>(pairs));
  return result.to(dtype);
}

bool is_finite_in(DType dtype, double value) { return std::isfinite(full({}, value, dtype).item()); }

}  // namespace

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xd2511f53u} * counter[0];
    const std::uint64_t product1 = std::uint64_t{0xcd9e8d57u} * counter[2];
    counter = {high_word(product1) ^ counter[1] ^ key[0], low_word(product1), high_word(product0) ^ counter[3] ^ key[1],
               low_word(product0)};
    key = {key[0] + 0x9e3779b9u, key[1] + 0xbb67ae85u};  // Weyl sequence: the golden ratio and sqrt(3) - 1
  }
  return counter;
}

double unit_interval(std::uint64_t bits) { return static_cast<double>((bits >> 11) + 1) * 0x1p-53; }

std::pair<double, double> box_muller(double u, double v) {
  const double radius = std::sqrt(-2.0 * std::log(u));
  const double angle = 2.0 * std::numbers::pi * v;
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

Rng Rng::from_state(const State& state) {
  Rng rng(state.seed, state.stream);
  rng.state_.counter = state.counter;
  return rng;
}

std::array<std::uint32_t, 4> Rng::block(std::uint64_t ahead) const {
  const std::uint64_t counter = state_.counter + ahead;
  return philox4x32({low_word(counter), high_word(counter), low_word(state_.stream), high_word(state_.stream)},
                    {low_word(state_.seed), high_word(state_.seed)});
}

std::uint64_t Rng::next_u64() {
  const std::uint64_t draw = first_draw(block(0));
  skip(1);
  return draw;
}

std::uint32_t Rng::next_u32() { return high_word(next_u64()); }

double Rng::uniform() { return unit_interval(next_u64()); }

double Rng::normal() {
  const double draw = normal_pair(block(0)).first;
  skip(1);
  return draw;
}

Index Rng::below(Index n) {
  expect(n > 0, "below: expected a positive number, got {}", n);
  // Of 2^64 draws the first 2^64 mod n are left out, so that the rest is a multiple of n.
  const auto range = static_cast<std::uint64_t>(n);
  const std::uint64_t left_out = (std::uint64_t{0} - range) % range;
  std::uint64_t draw = next_u64();
  while (draw < left_out) draw = next_u64();
  return static_cast<Index>(draw % range);
}

Rng Rng::split(std::string_view name) const { return Rng(state_.seed, stream_of(state_.stream, name)); }

Tensor randn(const Shape& shape, Rng& rng, DType dtype) { return fill_pairs("randn", shape, rng, dtype, normal_pair); }

Tensor rand_uniform(const Shape& shape, Rng& rng, double low, double high, DType dtype) {
  expect(low <= high && is_finite_in(dtype, low) && is_finite_in(dtype, high),
         "rand_uniform: expected low <= high, both finite in {}, got low {} and high {}", dtype, low, high);
  return fill_pairs("rand_uniform", shape, rng, dtype, [=](const std::array<std::uint32_t, 4>& block) {
    return std::pair(std::lerp(low, high, unit_interval(first_draw(block))),
                     std::lerp(low, high, unit_interval(second_draw(block))));
  });
}

Tensor random_signs(const Shape& shape, Rng& rng, DType dtype) {
  constexpr auto sign = [](std::uint64_t draw) { return draw >> 63 != 0 ? 1.0 : -1.0; };
  return fill_pairs("random_signs", shape, rng, dtype, [=](const std::array<std::uint32_t, 4>& block) {
    return std::pair(sign(first_draw(block)), sign(second_draw(block)));
  });
}

}  // namespace jnorm
