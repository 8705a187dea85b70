#include "cuda/device_check.hpp"

using namespace jnorm;
using namespace jnorm::test;

namespace {

Tensor indices_of(const std::vector<std::int32_t>& values) {
  return indices({static_cast<Index>(values.size())}, values);
}
// Some tokens often, some once, some never.
Tensor some_tokens(Index count, Index vocabulary) {
  std::vector<std::int32_t> tokens;
  for (Index i = 0; i < count; ++i) tokens.push_back(static_cast<std::int32_t>(i % 3 == 0 ? 1 : i * i % vocabulary));
  return indices_of(tokens);
}

Tensor forward(const Tensor& table, const Tensor& tokens) {
  const Tensor y = garbage_on_device({tokens.size(), table.dim(1)}, table.dtype());
  device_kernels().embedding(on_device(table), on_device(tokens), y);
  return y.to(Device::cpu());
}
Tensor right_forward(const Tensor& table, const Tensor& tokens) {
  const Tensor y = garbage({tokens.size(), table.dim(1)}, DType::float64);
  cpu().embedding(table.to(DType::float64), tokens, y);
  return y;
}
// dy [K, R, H] -> dtable [K, V, H], which is added to `before` if there is one.
Tensor backward(const Tensor& dy, const Tensor& tokens, Index vocabulary, const Tensor& before = {}) {
  const Shape shape{dy.dim(0), vocabulary, dy.dim(2)};
  const Tensor dtable = before.defined() ? on_device(before) : garbage_on_device(shape, dy.dtype());
  device_kernels().embedding_dtable(on_device(dy), on_device(tokens), {dtable, before.defined()});
  return dtable.to(Device::cpu());
}
Tensor right_backward(const Tensor& dy, const Tensor& tokens, Index vocabulary, const Tensor& before = {}) {
  const Shape shape{dy.dim(0), vocabulary, dy.dim(2)};
  const Tensor dtable = before.defined() ? before.to(DType::float64).clone() : garbage(shape, DType::float64);
  cpu().embedding_dtable(dy.to(DType::float64), tokens, {dtable, before.defined()});
  return dtable;
}

double bound(DType dtype) { return std::max(a_few_roundings(dtype), tolerance(statistics_dtype(dtype))); }

}  // namespace

TEST_CASE("cuda embedding: rows of the table by token, in every dtype and width") {
  for (const DType dtype : kFloatingTypes) {
    for (const Index width : {1, 7, 64, 320, 1017}) {
      const Tensor table = random({9, width}, dtype, 1), tokens = indices_of({8, 0, 3, 3, 1});
      CHECK(distance(forward(table, tokens), right_forward(table, tokens)) == 0.0);
    }
  }
}

TEST_CASE("cuda embedding: the table's gradient, with copies, where tokens repeat") {
  for (const DType dtype : kFloatingTypes) {
    for (const Index width : {1, 7, 64, 320}) {
      const Tensor tokens = some_tokens(50, 11), dy = random({2, 50, width}, dtype, 2);
      CAPTURE(dtype);
      CAPTURE(width);
      CHECK(distance(backward(dy, tokens, 11), right_backward(dy, tokens, 11)) < bound(dtype));
    }
  }
}

TEST_CASE("cuda embedding: one token at more positions than a block takes at once, beside a large vocabulary") {
  const Tensor tokens = some_tokens(2100, 50257), dy = random({1, 2100, 8}, DType::float32, 2);
  // 700 terms of one size add up: their errors grow with the sum.
  CHECK(distance(backward(dy, tokens, 50257), right_backward(dy, tokens, 50257)) < 4 * tolerance(DType::float32));
}

TEST_CASE("cuda embedding: a token's 505 rows of ones sum to 505 in the narrow types") {
  const Tensor tokens = indices_of(std::vector<std::int32_t>(505, 0));
  CHECK(backward(ones({1, 505, 5}, DType::bfloat16), tokens, 10).at({0, 0, 4}) == 504.0);  // 505, rounded to 8 bits
  CHECK(backward(ones({1, 505, 5}, DType::float16), tokens, 10).at({0, 0, 4}) == 505.0);
}

TEST_CASE("cuda embedding: a gradient is added to what is there; a token that isn't met keeps it") {
  for (const DType dtype : kFloatingTypes) {
    const Tensor tokens = some_tokens(20, 11), dy = random({1, 20, 64}, dtype, 2),
                 before = random({1, 11, 64}, dtype, 3);
    CHECK(distance(backward(dy, tokens, 11, before), right_backward(dy, tokens, 11, before)) < bound(dtype));
  }
}

TEST_CASE("cuda embedding: tokens out of range read nothing and write nothing") {
  const Tensor table = random({4, 8}, DType::float32, 1), tokens = indices_of({2, 4, -1, 2147483647});
  const Tensor y = forward(table, tokens);
  CHECK(y.at({0, 3}) == table.at({2, 3}));
  for (const Index row : {1, 2, 3}) CHECK(std::isnan(y.at({row, 0})));
  const Tensor dy = random({1, 4, 8}, DType::float32, 2), dtable = backward(dy, tokens, 4);
  CHECK(dtable.at({0, 2, 5}) == dy.at({0, 0, 5}));
  for (const Index row : {0, 1, 3}) CHECK(dtable.at({0, row, 5}) == 0.0);
}

TEST_CASE("cuda embedding: the same bits in every run and under every order of threads") {
  const Tensor tokens = some_tokens(1100, 7), dy = random({1, 1100, 20}, DType::float32, 2);
  const Tensor dtable = backward(dy, tokens, 7);
  for_each_schedule([&] { CHECK(identical(backward(dy, tokens, 7), dtable)); });
}

TEST_CASE("cuda embedding: no tokens give a gradient of zeros") {
  CHECK(forward(zeros({3, 2}), indices_of({})).size() == 0);
  CHECK(distance(backward(zeros({1, 0, 2}), indices_of({}), 3), std::vector<double>(6, 0.0)) == 0.0);
}
