#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/core/random.hpp>

#include "support/close.hpp"

using namespace jnorm;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr DType kDTypes[] = {DType::float64, DType::float32, DType::bfloat16, DType::float16};

Tensor mask_of(const Shape& shape, std::initializer_list<std::int32_t> values) {
  return indices(shape, std::vector<std::int32_t>(values));
}

Tensor random(const Shape& shape, std::uint64_t seed) {
  Rng rng(seed);
  return randn(shape, rng, DType::float64);
}

// x with another value at one place.
Tensor with(const Tensor& x, std::initializer_list<Index> place, double value) {
  std::vector<double> values = x.values();
  Index offset = 0;
  int axis = 0;
  for (const Index i : place) offset = offset * x.dim(axis++) + i;
  values[static_cast<std::size_t>(offset)] = value;
  return tensor(x.shape(), values, x.dtype());
}

// The same function from primitives, of the same recorded inputs.
Var composed(const Var& y) {
  const Node& node = y.tape().node(y.index());
  std::vector<Var> inputs;
  for (std::size_t i = 0; i < node.input_count; ++i) inputs.push_back(y.tape().var(node.inputs[i]));
  return node.operation->composed(inputs);
}

// The largest difference; infinite where just one is NaN.
double distance(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  const std::vector<double> left = a.values(), right = b.values();
  double largest = 0.0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (left[i] == right[i] || (std::isnan(left[i]) && std::isnan(right[i]))) continue;
    const double difference = std::fabs(left[i] - right[i]);
    largest = std::isnan(difference) ? kInfinity : std::max(largest, difference);
  }
  return largest;
}

bool all_finite(const Tensor& x) {
  const std::vector<double> values = x.values();
  return std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); });
}

// Row `row` of a tensor [1, T, H].
std::vector<double> row_of(const Tensor& x, Index row) {
  const std::vector<double> values = x.values();
  const Index width = x.dim(-1);
  return {values.begin() + row * width, values.begin() + (row + 1) * width};
}

// The first two rows of a tensor [1, T, H].
Tensor first_rows(const Tensor& x) {
  const std::vector<double> values = x.values();
  return tensor({2, x.dim(-1)}, std::span(values).first(static_cast<std::size_t>(2 * x.dim(-1))), x.dtype());
}

// Attention of three variables, with what the sweeps make of it under random cotangents and tangents. The values first,
// then first and second derivatives: by the kernel where `fused`, otherwise by the composition.
std::vector<Tensor> results(const std::vector<Tensor>& qkv, Index heads, const AttentionOptions& options, bool fused) {
  Tape tape;
  std::vector<Var> xs;
  for (const Tensor& x : qkv) xs.push_back(tape.variable(x));
  const Var recorded = attention(xs[0], xs[1], xs[2], heads, options);
  const Var y = fused ? recorded : composed(recorded);
  std::vector<Tensor> all{y.value()};
  for (const Tensor& gradient : tape.gradients(y, xs, random(y.shape(), 10))) all.push_back(gradient);
  for (std::size_t i = 0; i < xs.size(); ++i) all.push_back(tape.push_forward(y, xs[i], random(xs[i].shape(), 11 + i)));
  return all;
}

struct Form {
  std::string name;
  AttentionOptions options;
};

// Of [1, 3, 2] with one head or [1, 3, 4] with two: the last key is hidden from the first two queries.
std::vector<Form> forms_that_hide_the_last_key() {
  return {{"causal", {.causal = true}},
          {"mask", {.mask = mask_of({3, 3}, {1, 1, 0, 1, 1, 0, 1, 1, 1})}},
          {"causal and padding", {.causal = true, .key_mask = mask_of({1, 3}, {1, 1, 1})}}};
}

}  // namespace

TEST_CASE("attention: a key that no query sees changes nothing, be it 1e10 or NaN") {
  const std::vector<double> rows{0, 1, 2, 3, 4, 5, 6, 7};
  for (const DType dtype : kDTypes) {
    for (const double value : {4.0, 1e10, kNaN}) {
      CAPTURE(to_string(dtype));
      CAPTURE(value);
      Tape tape;
      const Tensor x = tensor({1, 2, 4}, rows, dtype);
      const Var q = tape.variable(x), k = tape.variable(with(x, {0, 1, 0}, value));
      const Var v = tape.variable(with(x, {0, 1, 1}, value));
      const Var y = attention(q, k, v, 1, {.mask = mask_of({2, 2}, {1, 0, 1, 0})});
      CHECK(y.value().values() == std::vector<double>{0, 1, 2, 3, 0, 1, 2, 3});
      tape.backward(y, {.cotangent = ones(y.shape(), dtype)});
      CHECK(q.gradient().values() == std::vector<double>(8, 0.0));
      CHECK(k.gradient().values() == std::vector<double>(8, 0.0));
      CHECK(v.gradient().values() == std::vector<double>{2, 2, 2, 2, 0, 0, 0, 0});
    }
  }
}

TEST_CASE("attention: a fully masked row is exactly 0, with zero derivatives of every order") {
  const Tensor rows = mask_of({4, 4}, {1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1});
  // With causal, padding of the first two keys leaves the first two queries nothing.
  const Tensor padding = mask_of({1, 4}, {0, 0, 1, 1});
  for (const AttentionOptions& options :
       {AttentionOptions{.mask = rows}, AttentionOptions{.causal = true, .key_mask = padding}}) {
    Tape tape;
    const Var q = tape.variable(random({1, 4, 2}, 1)), k = tape.variable(random({1, 4, 2}, 2));
    const Var v = tape.variable(random({1, 4, 2}, 3));
    const std::vector<Var> xs{q, k, v};
    const Var y = attention(q, k, v, 1, options);
    CHECK(row_of(y.value(), 1) == std::vector<double>{0, 0});
    CHECK(all_finite(y.value()));
    // Through the kernel, then through the composition, then through its derivatives.
    Var scalar = sum(y * random(y.shape(), 4));
    for (int order = 1; order <= 3; ++order) {
      CAPTURE(order);
      const std::vector<Tensor> gradients = tape.gradients(scalar, xs);
      for (const Tensor& gradient : gradients) CHECK(all_finite(gradient));
      CHECK(row_of(gradients[0], 1) == std::vector<double>{0, 0});
      Var next;
      for (const Var& gradient : tape.recorded_gradients(scalar, xs)) {
        if (!gradient.defined()) continue;
        const Var term = sum(gradient * random(gradient.shape(), 5));
        next = next.defined() ? next + term : term;
      }
      scalar = next;
    }
    for (const Var& x : xs)
      CHECK(row_of(tape.push_forward(y, x, random(x.shape(), 6)), 1) == std::vector<double>{0, 0});
  }
}

TEST_CASE("attention: what the blind row's query and cotangent hold doesn't matter, not even NaN") {
  Tape tape;
  const Var q = tape.variable(with(random({1, 2, 2}, 1), {0, 1, 0}, kNaN));
  const Var k = tape.variable(random({1, 2, 2}, 2)), v = tape.variable(random({1, 2, 2}, 3));
  const Var y = attention(q, k, v, 1, {.mask = mask_of({2, 2}, {1, 1, 0, 0})});
  for (const Var& result : {y, composed(y)}) {
    CHECK(row_of(result.value(), 1) == std::vector<double>{0, 0});
    for (const Tensor& gradient :
         tape.gradients(result, std::vector<Var>{q, k, v}, with(ones(y.shape(), DType::float64), {0, 1, 1}, kNaN))) {
      CHECK(all_finite(gradient));
    }
  }
}

TEST_CASE("attention: the probability of a masked key is exactly 0 in every dtype, whatever its score") {
  for (const DType dtype : kDTypes) {
    CAPTURE(to_string(dtype));
    Tape tape;
    // The values are unit vectors, so that the output is the row of probabilities.
    const Var q = tape.variable(tensor({1, 1, 1}, std::vector<double>{100}, dtype));
    const Var k = tape.variable(tensor({1, 3, 1}, std::vector<double>{-100, 100, -100}, dtype));
    const Var v = tape.variable(identity(3, dtype).reshape({1, 3, 3}));
    const Var y = attention(q, k, v, 1, {.key_mask = mask_of({1, 3}, {1, 0, 1})});
    CHECK(y.value().values() == std::vector<double>{0.5, 0, 0.5});
    CHECK(composed(y).value().values() == std::vector<double>{0.5, 0, 0.5});
    tape.backward(y, {.cotangent = ones(y.shape(), dtype)});
    CHECK(all_finite(q.gradient()));
    CHECK(k.gradient().at({0, 1, 0}) == 0.0);
  }
}

TEST_CASE("attention: a NaN in a later key or value reaches no earlier row, by kernel and by composition") {
  for (const Form& form : forms_that_hide_the_last_key()) {
    for (const bool fused : {true, false}) {
      for (const std::size_t spoilt : {1u, 2u}) {
        CAPTURE(form.name);
        CAPTURE(fused);
        CAPTURE(spoilt);
        std::vector<Tensor> qkv{random({1, 3, 2}, 1), random({1, 3, 2}, 2), random({1, 3, 2}, 3)};
        const std::vector<Tensor> right = results(qkv, 1, form.options, fused);
        qkv[spoilt] = with(qkv[spoilt], {0, 2, 0}, kNaN);
        const std::vector<Tensor> got = results(qkv, 1, form.options, fused);
        // y, dq, and the three tangents of y.
        for (const std::size_t i : {0u, 1u, 4u, 5u, 6u}) {
          CAPTURE(i);
          CHECK(distance(first_rows(got[i]), first_rows(right[i])) < 1e-14);
        }
        CHECK(std::isnan(got[0].at({0, 2, 0})));
      }
    }
  }
}

TEST_CASE("attention: kernel and composition agree in values and derivatives, NaN and infinity included") {
  const std::vector<Tensor> clean{random({1, 3, 4}, 1), random({1, 3, 4}, 2), random({1, 3, 4}, 3)};
  for (const Form& form : forms_that_hide_the_last_key()) {
    for (std::size_t spoilt = 0; spoilt < 3; ++spoilt) {
      for (Index row = 0; row < 3; ++row) {
        for (const double value : {0.5, kNaN, kInfinity}) {
          CAPTURE(form.name);
          CAPTURE(spoilt);
          CAPTURE(row);
          CAPTURE(value);
          std::vector<Tensor> qkv = clean;
          qkv[spoilt] = with(qkv[spoilt], {0, row, 1}, value);
          const std::vector<Tensor> fused = results(qkv, 2, form.options, true);
          const std::vector<Tensor> primitive = results(qkv, 2, form.options, false);
          for (std::size_t i = 0; i < fused.size(); ++i) {
            CAPTURE(i);
            CHECK(distance(fused[i], primitive[i]) < 1e-13);  // sums of a few terms of size 1
          }
        }
      }
    }
  }
}

TEST_CASE("attention: the second derivative too keeps a later NaN from the earlier rows") {
  const auto second = [](double value) {
    Tape tape;
    const Var q = tape.variable(random({1, 3, 2}, 1)), k = tape.variable(with(random({1, 3, 2}, 2), {0, 2, 0}, value));
    const Var v = tape.variable(random({1, 3, 2}, 3));
    const Var dq =
        tape.recorded_gradients(causal_attention(q, k, v, 1), {&q, 1}, tape.constant(random({1, 3, 2}, 4)))[0];
    const Tensor u = with(with(random({1, 3, 2}, 5), {0, 2, 0}, 0), {0, 2, 1}, 0);
    return tape.gradients(dq, {&q, 1}, u)[0];
  };
  CHECK(distance(first_rows(second(kNaN)), first_rows(second(0.5))) < 1e-14);
}

TEST_CASE("attention: a NaN tangent of a key or value that no query sees reaches no row") {
  Tape tape;
  const Var q = tape.variable(random({1, 2, 2}, 1)), k = tape.variable(random({1, 2, 2}, 2));
  const Var v = tape.variable(random({1, 2, 2}, 3));
  const Var y = attention(q, k, v, 1, {.key_mask = mask_of({1, 2}, {1, 0})});
  const Tensor tangent = with(random({1, 2, 2}, 4), {0, 1, 0}, kNaN);
  for (const Var& result : {y, composed(y)}) {
    for (const Var& x : {k, v}) CHECK(all_finite(tape.push_forward(result, x, tangent)));
  }
}

TEST_CASE("attention: scores so low that their exponentials vanish keep their probabilities beside a masked key") {
  Tape tape;
  const Var q = tape.variable(tensor({1, 1, 1}, std::vector<double>{1}, DType::float32));
  const Var k = tape.variable(tensor({1, 3, 1}, std::vector<double>{-1000, 0, -1000}, DType::float32));
  const Var v = tape.variable(tensor({1, 3, 1}, std::vector<double>{2, 7, 4}, DType::float32));
  const Var y = attention(q, k, v, 1, {.key_mask = mask_of({1, 3}, {1, 0, 1})});
  CHECK(y.item() == 3.0);
  CHECK(composed(y).item() == 3.0);
  CHECK(tape.gradients(composed(y), {&v, 1}, ones({1, 1, 1}))[0].values() == std::vector<double>{0.5, 0, 0.5});
  // By a tangent of the first key: P_1 (1 - P_1) v_1 - P_1 P_3 v_3 = 0.5 * 0.5 * 2 - 0.5 * 0.5 * 4, where rounding
  // logsumexp near 1000 costs 4 digits.
  const Tensor first = tensor({1, 3, 1}, std::vector<double>{1, 0, 0});
  CHECK(tape.push_forward(composed(y), k, first).item() == -0.5);
  CHECK(tape.push_forward(y, k, first).item() == doctest::Approx(-0.5).epsilon(1e-3));
}

TEST_CASE("attention: causal with more keys than queries aligns the last query with the last key") {
  Tape tape;
  const Var q = tape.variable(random({2, 5, 4}, 1)), k = tape.variable(random({2, 5, 4}, 2));
  const Var v = tape.variable(random({2, 5, 4}, 3));
  const Tensor whole = causal_attention(q, k, v, 2).value();
  std::vector<double> last_queries, last_rows;
  for (const Index batch : {0, 1}) {
    for (const Index row : {3, 4}) {
      for (Index column = 0; column < 4; ++column) {
        last_queries.push_back(q.value().at({batch, row, column}));
        last_rows.push_back(whole.at({batch, row, column}));
      }
    }
  }
  const Var y = attention(tape.variable(tensor({2, 2, 4}, last_queries, DType::float64)), k, v, 2, {.causal = true});
  CHECK(distance(y.value(), tensor({2, 2, 4}, last_rows, DType::float64)) < 1e-15);
}

TEST_CASE("attention: causal with fewer keys than queries leaves the first queries blind") {
  Tape tape;
  const Var q = tape.variable(random({1, 3, 2}, 1)), k = tape.variable(random({1, 2, 2}, 2));
  const Var v = tape.variable(random({1, 2, 2}, 3));
  const Tensor y = attention(q, k, v, 1, {.causal = true}).value();
  CHECK(row_of(y, 0) == std::vector<double>{0, 0});
  CHECK(row_of(y, 1) == row_of(v.value(), 0));
}

TEST_CASE("attention: conditions combine, so that a key is seen only if all allow it") {
  Tape tape;
  std::vector<Var> xs;
  for (const std::uint64_t seed : {1, 2, 3}) xs.push_back(tape.variable(random({1, 3, 4}, seed)));
  const Tensor padding = mask_of({1, 3}, {1, 0, 1}), pairs = mask_of({1, 3, 3}, {1, 1, 1, 1, 1, 1, 0, 1, 1});
  const Tensor all = mask_of({1, 2, 3, 3}, {1, 0, 0, 1, 0, 0, 0, 0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 1});
  const Var combined = attention(xs[0], xs[1], xs[2], 2, {.causal = true, .key_mask = padding, .mask = pairs});
  const Var single = attention(xs[0], xs[1], xs[2], 2, {.mask = all});
  CHECK(distance(combined.value(), single.value()) == 0.0);
}

TEST_CASE("attention: a mask by batch or by head is that batch's or head's own") {
  Tape tape;
  const Var q = tape.variable(zeros({2, 1, 2})), k = tape.variable(zeros({2, 2, 2}));
  const Var v = tape.variable(tensor({2, 2, 2}, std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8}));
  const auto values = [&](const AttentionOptions& options) { return attention(q, k, v, 2, options).value().values(); };
  CHECK(values({}) == std::vector<double>{2, 3, 6, 7});
  CHECK(values({.mask = mask_of({2, 1, 2}, {1, 0, 0, 1})}) == std::vector<double>{1, 2, 7, 8});
  CHECK(values({.mask = mask_of({2, 2, 1, 2}, {1, 0, 0, 1, 1, 1, 0, 1})}) == std::vector<double>{1, 4, 6, 8});
  CHECK(values({.key_mask = mask_of({2, 2}, {0, 1, 1, 1})}) == std::vector<double>{3, 4, 6, 7});
  CHECK(values({.mask = mask_of({1, 2}, {0, 1})}) == std::vector<double>{3, 4, 7, 8});
}

TEST_CASE("attention: the scale of the scores can be chosen") {
  Tape tape;
  const Var q = tape.variable(tensor({1, 1, 1}, std::vector<double>{1}, DType::float64));
  const Var k = tape.variable(tensor({1, 2, 1}, std::vector<double>{0, 1}, DType::float64));
  const Var v = tape.variable(tensor({1, 2, 1}, std::vector<double>{0, 1}, DType::float64));
  CHECK(attention(q, k, v, 1).value() == close({0.731059}));  // 1 / (1 + e^-1)
  CHECK(attention(q, k, v, 1, {.scale = 2.0}).value() == close({0.880797}));
  CHECK(attention(q, k, v, 1, {.scale = 0.0}).item() == 0.5);
  CHECK(attention(q, k, v, 1, {.scale = -1.0}).value() == close({0.268941}));
}

TEST_CASE("attention: a group of query heads reads one key head") {
  Tape tape;
  const Var q = tape.variable(zeros({1, 1, 4})), k = tape.variable(zeros({1, 1, 2}));
  const Var v = tape.variable(tensor({1, 1, 4}, std::vector<double>{1, 2, 3, 4}));
  CHECK(attention(q, k, v, 4, {.key_heads = 2}).value().values() == std::vector<double>{1, 2, 1, 2, 3, 4, 3, 4});
}

TEST_CASE("attention: keys and values of a group get the sum of its heads' gradients") {
  // The same with each key head repeated for the heads that read it.
  const auto repeated = [](const Var& x) {
    const auto heads = split(x, 2, -1);
    return concat({heads[0], heads[0], heads[1], heads[1]}, -1);
  };
  for (const bool causal : {false, true}) {
    Tape tape;
    const Var xs[] = {tape.variable(random({2, 5, 8}, 1)), tape.variable(random({2, 5, 4}, 2)),
                      tape.variable(random({2, 5, 6}, 3))};
    const Var grouped = attention(xs[0], xs[1], xs[2], 4, {.causal = causal, .key_heads = 2});
    const Var plain = attention(xs[0], repeated(xs[1]), repeated(xs[2]), 4, {.causal = causal});
    CHECK(distance(grouped.value(), plain.value()) == 0.0);
    const Tensor dy = random(grouped.shape(), 4);
    const std::vector<Tensor> got = tape.gradients(grouped, xs, dy), right = tape.gradients(plain, xs, dy);
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(distance(got[i], right[i]) < 1e-14);
      const Tensor x_dot = random(xs[i].shape(), 5);
      CHECK(distance(tape.push_forward(grouped, xs[i], x_dot), tape.push_forward(plain, xs[i], x_dot)) < 1e-14);
    }
  }
}

TEST_CASE("attention: no batch, no query, no key and no column are no error") {
  for (const Shape& shape : {Shape{0, 2, 4}, Shape{1, 0, 4}, Shape{1, 2, 0}}) {
    Tape tape;
    const Var x = tape.variable(zeros(shape));
    CHECK(causal_attention(x, x, x, 2).shape() == shape);
    CHECK(composed(causal_attention(x, x, x, 2)).shape() == shape);
  }
  Tape tape;
  const Var q = tape.variable(ones({1, 2, 4})), none = tape.variable(zeros({1, 0, 4}));
  const Var y = attention(q, none, none, 2);
  CHECK(y.value().values() == std::vector<double>(8));
  CHECK(composed(y).value().values() == std::vector<double>(8));
}

TEST_CASE("attention: shapes that don't fit are refused with all three") {
  Tape tape;
  const Var x = tape.variable(zeros({2, 3, 4}));
  const auto refused = [&](const Shape& k, const Shape& v, const char* message) {
    CHECK_THROWS_WITH_AS(attention(x, tape.variable(zeros(k)), tape.variable(zeros(v)), 2), doctest::Contains(message),
                         Error);
  };
  refused({2, 3, 5}, {2, 3, 4}, "k must have 2 heads of 2 columns as q has, got the width 5");
  refused({1, 3, 4}, {1, 3, 4}, "got [2, 3, 4], [1, 3, 4] and [1, 3, 4]");
  refused({2, 5, 4}, {2, 3, 4}, "got [2, 3, 4], [2, 5, 4] and [2, 3, 4]");
  refused({2, 4}, {2, 3, 4}, "k [B, Tk, key_heads D] and v [B, Tk, key_heads Dv], got [2, 3, 4], [2, 4] and");
  refused({2, 3, 4}, {2, 3, 3}, "2 heads don't divide the width 3 of v");
  CHECK_THROWS_WITH_AS(attention(x, x, x, 3), doctest::Contains("3 heads don't divide the width 4"), Error);
  CHECK_THROWS_WITH_AS(attention(x, x, x, 0), doctest::Contains("positive number of heads, got 0"), Error);
  const auto key_heads = [&](Index count) { attention(x, x, x, 2, {.key_heads = count}); };
  CHECK_THROWS_WITH_AS(key_heads(3), doctest::Contains("3 key_heads don't divide 2 heads"), Error);
  CHECK_THROWS_WITH_AS(key_heads(-1), doctest::Contains("-1 key_heads don't divide 2 heads"), Error);
  CHECK_THROWS_WITH_AS(key_heads(1), doctest::Contains("k must have 1 heads of 2 columns as q has, got the width 4"),
                       Error);
  CHECK_THROWS_WITH_AS(attention(x, x, x, 2, {.scale = kNaN}), doctest::Contains("a finite scale, got nan"), Error);
}

TEST_CASE("attention: masks of another shape, dtype or value are refused") {
  Tape tape;
  const Var x = tape.variable(zeros({2, 3, 4}));
  const auto refused = [&](const AttentionOptions& options, const char* message) {
    CHECK_THROWS_WITH_AS(attention(x, x, x, 2, options), doctest::Contains(message), Error);
  };
  refused({.key_mask = ones({3, 2}, DType::int32)}, "the key_mask must be [B, Tk] = [2, 3], got [3, 2]");
  refused({.key_mask = ones({2, 3})}, "the key_mask must be int32, got float32");
  refused({.mask = ones({3}, DType::int32)}, "[B, heads, Tq, Tk] of [2, 2, 3, 3], got [3]");
  refused({.mask = ones({2, 1, 3, 3}, DType::int32)}, "of [2, 2, 3, 3], got [2, 1, 3, 3]");
  refused({.mask = ones({3, 3})}, "the mask must be int32, got float32");
  refused({.mask = mask_of({3, 3}, {1, 1, 1, 1, 2, 1, 1, 1, 1})}, "the mask must hold 0 or 1, got 2 at position 4");
}
