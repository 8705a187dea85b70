#include "core/kernel_check.hpp"

using namespace jnorm;
using namespace jnorm::test;

namespace {

Tensor tokens_of(const std::vector<std::int32_t>& tokens) {
  return indices({static_cast<Index>(tokens.size())}, tokens);
}

}  // namespace

TEST_CASE("embedding: rows of the table, in the tokens' order") {
  for (const DType dtype : kWideTypes) {
    const Tensor y = garbage({4, 2}, dtype);
    cpu().embedding(tensor({{1, 2}, {3, 4}, {5, 6}}, dtype), tokens_of({2, 0, 2, 1}), y);
    CHECK(distance(y, {5, 6, 1, 2, 5, 6, 3, 4}) == 0.0);
  }
}

TEST_CASE("embedding_dtable: rows of equal tokens add up, and tokens that don't occur get 0") {
  for (const DType dtype : kWideTypes) {
    const Tensor dtable = garbage({4, 2}, dtype);
    cpu().embedding_dtable(tensor({{1, 2}, {3, 4}, {5, 6}}, dtype), tokens_of({3, 1, 3}), {dtable});
    CHECK(distance(dtable, {0, 0, 3, 4, 0, 0, 6, 8}) == 0.0);
  }
}

TEST_CASE("embedding_dtable: several cotangents at once, added or written") {
  const Tensor dy = random({2, 3, 70}, DType::float64, 1), tokens = tokens_of({1, 1, 0});
  const Tensor dtable = garbage({2, 2, 70}, DType::float64), sum = ones({2, 2, 70}, DType::float64);
  cpu().embedding_dtable(dy, tokens, {dtable});
  cpu().embedding_dtable(dy, tokens, {sum, true});
  cpu().embedding_dtable(dy, tokens, {});  // nobody wants it
  for (const Index copy : {0, 1}) {
    for (const Index j : {0, 1, 69}) {
      CHECK(dtable.at({copy, 0, j}) == dy.at({copy, 2, j}));
      CHECK(dtable.at({copy, 1, j}) == dy.at({copy, 0, j}) + dy.at({copy, 1, j}));
      CHECK(sum.at({copy, 1, j}) == 1 + dy.at({copy, 0, j}) + dy.at({copy, 1, j}));
    }
  }
}

TEST_CASE("embedding: no tokens give no rows, and a gradient of zeros") {
  const Tensor y = garbage({0, 2}, DType::float32), dtable = garbage({3, 2}, DType::float32);
  cpu().embedding(zeros({3, 2}), tokens_of({}), y);
  cpu().embedding_dtable(y, tokens_of({}), {dtable});
  CHECK(distance(dtable, {0, 0, 0, 0, 0, 0}) == 0.0);
}

TEST_CASE("embedding_dtable: the sum does not depend on the number of threads") {
  std::vector<std::int32_t> tokens;
  for (std::int32_t r = 0; r < 3000; ++r) tokens.push_back(r * r % 11);
  const Tensor dy = random({3000, 200}, DType::float32, 1);
  CHECK(independent_of_threads([&] {
    Tensor dtable = garbage({11, 200}, DType::float32);
    cpu().embedding_dtable(dy, tokens_of(tokens), {dtable});
    return dtable;
  }));
}
