#include <doctest/doctest.h>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/core/error.hpp>
#include <jnorm/core/random.hpp>
#include <jnorm/layers/attention.hpp>

#include "support/close.hpp"

using namespace jnorm;

TEST_CASE("attention: the output map follows attention of the query, key and value maps") {
  Rng rng(1);
  Attention attention({.dim = 4, .heads = 2}, rng);
  Tape tape;
  const Var x = tape.variable(randn({2, 3, 4}, rng));
  const auto map = [&](const Var& input, std::size_t i) {  // weight and bias of the i-th child
    return linear(input, tape.parameter(*attention.parameters()[2 * i]),
                  tape.parameter(*attention.parameters()[2 * i + 1]));
  };
  const Var expected = map(causal_attention(map(x, 0), map(x, 1), map(x, 2), 2), 3);
  CHECK(attention(x).value().values() == expected.value().values());
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
}
