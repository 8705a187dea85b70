#include <doctest/doctest.h>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/core/error.hpp>
#include <jnorm/core/operations.hpp>
#include <jnorm/core/random.hpp>
#include <jnorm/layers/attention.hpp>

#include "support/close.hpp"

using namespace jnorm;

namespace {

constexpr Index kDim = 8;

Tensor random_rows(Index length, std::uint64_t seed) {
  Rng rng(seed);
  return randn({2, length, kDim}, rng);
}

// A module whose maps and norms can be called by themselves.
struct Parts {
  explicit Parts(const AttentionConfig& config) : attention(config, Rng(1)) {
    Rng rng(2);
    for (const auto& [name, parameter] : attention.named_parameters()) {
      const bool starts_constant = name.find("bias") != std::string::npos || name.find("norm") != std::string::npos;
      if (starts_constant) parameter->set_value(add(parameter->value(), randn(parameter->shape(), rng)));
    }
  }
  Var parameter(const std::string& name) {
    for (const auto& [candidate, found] : attention.named_parameters()) {
      if (candidate == name) return tape.parameter(*found);
    }
    return {};
  }
  Var map(const std::string& name, const Var& input) {
    return linear(input, parameter(name + ".weight"), parameter(name + ".bias"));
  }
  // [B, T, heads width], each head normalized by itself.
  Var heads(const std::string& norm, const Var& input, Index width) {
    const Shape shape{input.dim(0), input.dim(1), input.dim(2) / width, width};
    return reshape(layer_norm(reshape(input, shape), parameter(norm + ".gamma"), parameter(norm + ".beta")),
                   input.shape());
  }

  Tape tape;
  Attention attention;
};

void check_same(const Var& a, const Var& b) {
  REQUIRE(a.shape() == b.shape());
  CHECK(a.value().values() == b.value().values());
}

}  // namespace

TEST_CASE("attention: the output map follows attention of the query, key and value maps") {
  Parts p({.dim = kDim, .heads = 2});
  const Var x = p.tape.variable(random_rows(3, 3));
  check_same(p.attention(x),
             p.map("output", causal_attention(p.map("query", x), p.map("key", x), p.map("value", x), 2)));
}

TEST_CASE("attention: without a causal mask every position sees all") {
  Parts p({.dim = kDim, .heads = 2, .causal = false});
  const Var x = p.tape.variable(random_rows(3, 3));
  check_same(p.attention(x), p.map("output", attention(p.map("query", x), p.map("key", x), p.map("value", x), 2)));
}

TEST_CASE("attention: heads that share keys and values give what repeated keys and values give") {
  const AttentionConfig shared{.dim = kDim, .heads = 4, .key_heads = 2};
  AttentionConfig full = shared;
  full.key_heads = 4;
  Attention few(shared, Rng(1)), many(full, Rng(1));
  NamedTensors state = few.state();
  for (auto& [name, value] : state) {
    if (name.find("key.") == std::string::npos && name.find("value.") == std::string::npos) continue;
    // rows of the two heads, [2, 2, ...] -> each head's rows twice
    const std::vector<double> rows = value.values();
    const std::size_t head = rows.size() / 2;
    std::vector<double> repeated;
    for (const std::size_t from : {std::size_t{0}, std::size_t{0}, head, head}) {
      repeated.insert(repeated.end(), rows.begin() + static_cast<std::ptrdiff_t>(from),
                      rows.begin() + static_cast<std::ptrdiff_t>(from + head));
    }
    value = tensor(value.rank() == 2 ? Shape{kDim, kDim} : Shape{kDim}, repeated);
  }
  many.load_state(state);
  Tape tape;
  const Var x = tape.variable(random_rows(3, 3));
  const std::vector<double> expected = many(x).value().values(), got = few(x).value().values();
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-5));
}

TEST_CASE("attention: rotary positions turn queries and keys, from the pass's first position on") {
  Parts p({.dim = kDim, .heads = 2, .key_heads = 1, .rotary_base = 100.0});
  const Var x = p.tape.variable(random_rows(3, 3));
  const auto turned = [&](const char* name, Index heads) {
    return rotary(p.map(name, x), heads, {.base = 100.0, .first_position = 5});
  };
  check_same(p.attention(x, Pass{.first_position = 5}),
             p.map("output", attention(turned("query", 2), turned("key", 1), p.map("value", x), 2,
                                       {.causal = true, .key_heads = 1})));
}

TEST_CASE("attention: a norm of heads is of queries and keys, each with a gamma of its own") {
  Parts p({.dim = kDim, .heads = 2, .head_norm = NormConfig{.kind = NormKind::layer}});
  const Var x = p.tape.variable(random_rows(3, 3));
  check_same(p.attention(x),
             p.map("output", causal_attention(p.heads("query_norm", p.map("query", x), 4),
                                              p.heads("key_norm", p.map("key", x), 4), p.map("value", x), 2)));
}

TEST_CASE("attention: values are normalized too where that is asked for") {
  Parts p({.dim = kDim, .heads = 2, .head_norm = NormConfig{.kind = NormKind::layer}, .norm_values = true});
  const Var x = p.tape.variable(random_rows(3, 3));
  check_same(p.attention(x), p.map("output", causal_attention(p.heads("query_norm", p.map("query", x), 4),
                                                              p.heads("key_norm", p.map("key", x), 4),
                                                              p.heads("value_norm", p.map("value", x), 4), 2)));
}

TEST_CASE("attention: queries and keys are normalized before they are turned") {
  Parts p({.dim = kDim, .heads = 2, .rotary_base = 100.0, .head_norm = NormConfig{.kind = NormKind::layer}});
  const Var x = p.tape.variable(random_rows(3, 3));
  const auto turned = [&](const std::string& name) {
    return rotary(p.heads(name + "_norm", p.map(name, x), 4), 2, {.base = 100.0});
  };
  check_same(p.attention(x), p.map("output", causal_attention(turned("query"), turned("key"), p.map("value", x), 2)));
}

TEST_CASE("attention: across, keys and values are the memory's, all of it is seen, and nothing is turned") {
  Parts p({.dim = kDim, .heads = 2, .cross = true, .rotary_base = 100.0});
  const Var x = p.tape.variable(random_rows(3, 3)), memory = p.tape.variable(random_rows(5, 4));
  check_same(p.attention(x, Pass{.memory = memory}),
             p.map("output", attention(p.map("query", x), p.map("key", memory), p.map("value", memory), 2)));
}

TEST_CASE("attention: across, the memory's mask counts and not the input's") {
  Parts p({.dim = kDim, .heads = 2, .cross = true});
  const Var x = p.tape.variable(random_rows(3, 3)), memory = p.tape.variable(random_rows(2, 4));
  const std::int32_t first[] = {1, 0, 1, 0}, none[] = {0, 0, 0, 0, 0, 0};
  const Tensor memory_mask = indices({2, 2}, first);
  const Var y = p.attention(x, Pass{.mask = indices({2, 3}, none), .memory = memory, .memory_mask = memory_mask});
  check_same(y, p.map("output", attention(p.map("query", x), p.map("key", memory), p.map("value", memory), 2,
                                          {.key_mask = memory_mask})));
}

TEST_CASE("attention: across without a memory is refused") {
  Attention attention({.dim = 4, .heads = 2, .cross = true}, Rng(1));
  Tape tape;
  CHECK_THROWS_WITH_AS(attention(tape.variable(zeros({1, 2, 4}))),
                       "attention: cross-attention needs an encoder's output in the pass", Error);
}

TEST_CASE("attention: positions that the pass masks are seen by none") {
  Attention attention({.dim = kDim, .heads = 2, .causal = false}, Rng(1));
  const std::int32_t mask[] = {1, 1, 0, 1, 1, 1};
  Tensor x = random_rows(3, 3);
  std::vector<double> other = x.values();
  for (std::size_t i = 2 * kDim; i < 3 * kDim; ++i) other[i] = 50.0;
  Tape tape;
  const Pass pass{.mask = indices({2, 3}, mask)};
  const std::vector<double> before = attention(tape.constant(x), pass).value().values();
  const std::vector<double> after = attention(tape.constant(tensor(x.shape(), other)), pass).value().values();
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (i / kDim != 2) CHECK(before[i] == after[i]);
  }
}

TEST_CASE("attention: a head may be wider than its share of the stream") {
  const Attention attention({.dim = 4, .heads = 2, .key_heads = 1, .head_dim = 6}, Rng(1));
  const auto named = attention.named_parameters();
  CHECK(named[0].second->shape() == Shape{12, 4});  // query
  CHECK(named[2].second->shape() == Shape{6, 4});   // key
  CHECK(named[6].second->shape() == Shape{4, 12});  // output
}

TEST_CASE("attention: biases are where they are asked for") {
  const auto names = [](bool inner, bool output) {
    std::vector<std::string> biases;
    const Attention attention({.dim = 4, .heads = 2, .query_key_value_bias = inner, .output_bias = output}, Rng(1));
    for (const auto& [name, parameter] : attention.named_parameters()) {
      if (name.find("bias") != std::string::npos) biases.push_back(name);
    }
    return biases;
  };
  CHECK(names(true, false) == std::vector<std::string>{"query.bias", "key.bias", "value.bias"});
  CHECK(names(false, true) == std::vector<std::string>{"output.bias"});
}

TEST_CASE("attention: its children are query, key, value and output") {
  const Attention attention({.dim = 4, .heads = 2}, Rng(1));
  const auto named = attention.named_parameters();
  CHECK(named[0].first == "query.weight");
  CHECK(named[2].first == "key.weight");
  CHECK(named[4].first == "value.weight");
  CHECK(named[7].first == "output.bias");
}

TEST_CASE("attention: heads that don't divide the width are refused with both sizes") {
  CHECK_THROWS_WITH_AS(Attention({.dim = 64, .heads = 5}, Rng(1)), "attention: 5 heads don't divide dim 64", Error);
  CHECK_THROWS_WITH_AS(Attention({.dim = 64, .heads = 4, .key_heads = 3}, Rng(1)),
                       "attention: 3 key heads don't divide 4 heads", Error);
}
