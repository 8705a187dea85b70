#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>
#include <core/random_tensor.hpp>

#include <jnorm/core/kernels/cpu.hpp>
#include <jnorm/core/parallel.hpp>

using namespace jnorm;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

using Numbers = std::vector<double>;

struct Sizes {
  Index batches, length, heads, columns;
  Index keys = length, value_columns = columns, key_heads = heads;
  Index key_head(Index head) const { return head / (heads / key_heads); }
  Shape queries_shape() const { return {batches, length, heads * columns}; }
  Shape keys_shape() const { return {batches, keys, key_heads * columns}; }
  Shape values_shape() const { return {batches, keys, key_heads * value_columns}; }
  Shape result_shape() const { return {batches, length, heads * value_columns}; }
};

// Attention by its definition, in float64: plain loops over every head. pairs [batches, heads, length, keys] holds 1
// where a query sees a key.
struct Reference {
  Sizes sizes;
  double scale;
  Numbers q, k, v, pairs;
  Numbers y = Numbers(static_cast<std::size_t>(sizes.result_shape().size())), lse{}, p = Numbers(pairs.size());

  // Offsets of a query head's elements in q and y, and of those that it reads in k and v.
  std::size_t in_q(Index batch, Index row, Index head, Index column) const {
    return static_cast<std::size_t>(((batch * sizes.length + row) * sizes.heads + head) * sizes.columns + column);
  }
  std::size_t in_y(Index batch, Index row, Index head, Index column) const {
    return static_cast<std::size_t>(((batch * sizes.length + row) * sizes.heads + head) * sizes.value_columns + column);
  }
  Index key_row(Index batch, Index row, Index head) const {
    return (batch * sizes.keys + row) * sizes.key_heads + sizes.key_head(head);
  }
  std::size_t in_k(Index batch, Index row, Index head, Index column) const {
    return static_cast<std::size_t>(key_row(batch, row, head) * sizes.columns + column);
  }
  std::size_t in_v(Index batch, Index row, Index head, Index column) const {
    return static_cast<std::size_t>(key_row(batch, row, head) * sizes.value_columns + column);
  }
  std::size_t pair(Index batch, Index head, Index i, Index j) const {
    return static_cast<std::size_t>(((batch * sizes.heads + head) * sizes.length + i) * sizes.keys + j);
  }

  template <class F>
  void for_each_row(F&& f) {
    for (Index batch = 0; batch < sizes.batches; ++batch) {
      for (Index head = 0; head < sizes.heads; ++head) {
        for (Index i = 0; i < sizes.length; ++i) f(batch, head, i);
      }
    }
  }
  template <class F>
  void for_each_key(Index batch, Index head, Index i, F&& f) {
    for (Index j = 0; j < sizes.keys; ++j) {
      if (pairs[pair(batch, head, i, j)] != 0) f(j, p[pair(batch, head, i, j)]);
    }
  }

  void forward() {
    for_each_row([&](Index batch, Index head, Index i) {
      double sum = 0;
      for_each_key(batch, head, i, [&](Index j, double& weight) {
        double score = 0;
        for (Index c = 0; c < sizes.columns; ++c) {
          score += q[in_q(batch, i, head, c)] * k[in_k(batch, j, head, c)];
        }
        sum += weight = std::exp(score * scale);
      });
      lse.push_back(std::log(sum));
      for_each_key(batch, head, i, [&](Index j, double& weight) {
        weight /= sum;
        for (Index c = 0; c < sizes.value_columns; ++c) {
          y[in_y(batch, i, head, c)] += weight * v[in_v(batch, j, head, c)];
        }
      });
    });
  }

  // Adds to dq, dk and dv.
  void backward(const Numbers& dy, Numbers& dq, Numbers& dk, Numbers& dv) {
    for_each_row([&](Index batch, Index head, Index i) {
      Numbers dp(static_cast<std::size_t>(sizes.keys));
      double mean = 0;
      for_each_key(batch, head, i, [&](Index j, double weight) {
        double& dweight = dp[static_cast<std::size_t>(j)];
        for (Index c = 0; c < sizes.value_columns; ++c) {
          const double dy_c = dy[in_y(batch, i, head, c)];
          dweight += dy_c * v[in_v(batch, j, head, c)];
          dv[in_v(batch, j, head, c)] += weight * dy_c;
        }
        mean += weight * dweight;
      });
      for_each_key(batch, head, i, [&](Index j, double weight) {
        const double ds = weight * (dp[static_cast<std::size_t>(j)] - mean) * scale;
        for (Index c = 0; c < sizes.columns; ++c) {
          dq[in_q(batch, i, head, c)] += ds * k[in_k(batch, j, head, c)];
          dk[in_k(batch, j, head, c)] += ds * q[in_q(batch, i, head, c)];
        }
      });
    });
  }
};

// Inputs, and what the kernel makes of them.
struct Attention {
  Sizes sizes;
  DType dtype = DType::float64;
  Index copies = 1;
  bool causal = true;
  Tensor mask = {};  // [batches or 1, heads or 1, length or 1, keys]

  Tensor q = random_tensor(sizes.queries_shape(), dtype, 1);
  Tensor k = random_tensor(sizes.keys_shape(), dtype, 2);
  Tensor v = random_tensor(sizes.values_shape(), dtype, 3);
  Tensor dy = random_tensor(sizes.result_shape().with_leading(copies), dtype, 4);
  Tensor y = full(sizes.result_shape(), kNaN, dtype);
  Tensor lse = full({sizes.batches, sizes.heads, sizes.length}, kNaN, dtype);

  AttentionSettings settings() const {
    return {sizes.heads, 1 / std::sqrt(static_cast<double>(sizes.columns)), causal, sizes.key_heads};
  }
  void forward() const { cpu::attention(settings(), q, k, v, mask, y, lse); }
  void backward(const Destination& dq, const Destination& dk, const Destination& dv) const {
    cpu::attention_backward(settings(), dy, q, k, v, mask, y, lse, dq, dk, dv);
  }
  // A gradient of q, k or v.
  Tensor gradient(const Tensor& primal, double before = kNaN) const {
    return full(primal.shape().with_leading(copies), before, dtype);
  }
  Tensor gradient(double before = kNaN) const { return gradient(q, before); }

  bool meet(Index batch, Index head, Index i, Index j) const {
    if (causal && j > i + sizes.keys - sizes.length) return false;
    const auto within = [&](int axis, Index index) { return mask.dim(axis) == 1 ? 0 : index; };
    return !mask.defined() || mask.at({within(0, batch), within(1, head), within(2, i), j}) == 1;
  }
  Reference reference() const {
    Numbers pairs;
    for (Index batch = 0; batch < sizes.batches; ++batch) {
      for (Index head = 0; head < sizes.heads; ++head) {
        for (Index i = 0; i < sizes.length; ++i) {
          for (Index j = 0; j < sizes.keys; ++j) pairs.push_back(meet(batch, head, i, j) ? 1 : 0);
        }
      }
    }
    Reference result{sizes, settings().scale, q.values(), k.values(), v.values(), pairs};
    result.forward();
    return result;
  }
};

// About a third 0.
Tensor random_mask(const Shape& shape, unsigned seed) {
  const Numbers uniform = random_tensor(shape, DType::float64, seed).values();
  std::vector<std::int32_t> values;
  for (const double value : uniform) values.push_back(value > -0.3 ? 1 : 0);
  return indices(shape, values);
}

double distance(const Numbers& a, const Numbers& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!(std::abs(a[i] - b[i]) <= worst)) worst = std::isnan(a[i]) ? kNaN : std::abs(a[i] - b[i]);
  }
  return worst;
}

// Inputs are in [-1, 1], so a score is at most sqrt(D), and off by at most (D + 2) sqrt(D) roundings; so is,
// relatively, a probability. An output is a mean over at most T values, a gradient a sum of as many terms, none above
// D.
double tolerance(const Sizes& sizes, DType dtype) {
  const double d = static_cast<double>(sizes.columns), t = static_cast<double>(std::max(sizes.length, sizes.keys));
  return (t + (d + 2) * std::sqrt(d)) * machine_epsilon(dtype);
}

const std::initializer_list<Sizes> kSizes{{1, 1, 1, 1},   {2, 3, 1, 5},   {1, 5, 3, 4},  {2, 16, 4, 8},
                                          {1, 33, 2, 17}, {1, 64, 1, 16}, {2, 65, 2, 3}, {1, 129, 1, 8}};

// Masks of every shape, groups of heads, more and fewer keys than queries, other values than keys, several blocks of
// queries.
std::vector<Attention> masked_attentions(DType dtype, Index copies = 1) {
  const Sizes square{2, 5, 3, 4}, more_keys{2, 3, 2, 5, 7}, fewer_keys{1, 7, 2, 3, 4}, wide{2, 3, 2, 5, 4, 1};
  const Sizes blocks{1, 70, 2, 3, 90, 17}, grouped{2, 70, 6, 3, 80, 4, 2}, one_key_head{2, 5, 3, 4, 5, 4, 1};
  const Sizes one_query{3, 1, 6, 5, 90, 17, 2};
  std::vector<Attention> result{
      {square, dtype, copies, false},
      {more_keys, dtype, copies, true},
      {fewer_keys, dtype, copies, true},
      {wide, dtype, copies, false},
      {blocks, dtype, copies, false},
      {blocks, dtype, copies, true},
      {square, dtype, copies, false, random_mask({1, 1, 5, 5}, 5)},
      {square, dtype, copies, true, random_mask({2, 1, 1, 5}, 6)},
      {more_keys, dtype, copies, false, random_mask({2, 1, 3, 7}, 7)},
      {fewer_keys, dtype, copies, true, random_mask({1, 2, 7, 4}, 8)},
      {blocks, dtype, copies, false, random_mask({1, 2, 70, 90}, 9)},
      {blocks, dtype, copies, true, random_mask({1, 1, 1, 90}, 10)},
      {square, dtype, copies, false, zeros({1, 1, 1, 5}, DType::int32)},
      {grouped, dtype, copies, true},
      {grouped, dtype, copies, false, random_mask({1, 6, 70, 80}, 11)},
      {one_key_head, dtype, copies, true},
      {one_query, dtype, copies, false},
      {one_query, dtype, copies, true},
      {one_query, dtype, copies, false, random_mask({3, 1, 1, 90}, 12)},
  };
  return result;
}

Numbers part(const Numbers& values, Index number, Index size) {
  return {values.begin() + number * size, values.begin() + (number + 1) * size};
}

}  // namespace

TEST_CASE("attention: agrees with its definition") {
  for (const DType dtype : {DType::float64, DType::float32}) {
    for (const Sizes& sizes : kSizes) {
      CAPTURE(sizes.queries_shape());
      const Attention attention{sizes, dtype};
      attention.forward();
      const Reference right = attention.reference();
      CHECK(distance(attention.y.values(), right.y) < tolerance(sizes, dtype));
      CHECK(distance(attention.lse.values(), right.lse) < 4 * tolerance(sizes, dtype));  // lse reaches 5
    }
  }
}

TEST_CASE("attention: the first position sees only itself") {
  const Attention attention{{1, 3, 1, 2}};
  attention.forward();
  CHECK(attention.y.at({0, 0, 0}) == attention.v.at({0, 0, 0}));
  CHECK(attention.y.at({0, 0, 1}) == attention.v.at({0, 0, 1}));
}

TEST_CASE("attention: equal keys give the mean of the values so far") {
  Attention attention{{1, 4, 1, 1}};
  attention.k = full({1, 4, 1}, 1, DType::float64);
  attention.v = tensor({1, 4, 1}, Numbers{1, 2, 6, 7}, DType::float64);
  attention.forward();
  CHECK(distance(attention.y.values(), {1, 1.5, 3, 4}) < 1e-15);
}

TEST_CASE("attention: huge scores are softened by their maximum") {
  Attention attention{{1, 2, 1, 1}, DType::float32};
  attention.q = full({1, 2, 1}, 1000);
  attention.k = tensor({1, 2, 1}, Numbers{1, 2}, DType::float32);
  attention.v = tensor({1, 2, 1}, Numbers{3, 5}, DType::float32);
  attention.forward();
  CHECK(attention.y.values() == Numbers{3, 5});
  CHECK(attention.lse.values() == Numbers{1000, 2000});
}

TEST_CASE("attention: no batch, no position and no column are no work") {
  for (const Shape& shape : {Shape{0, 3, 4}, Shape{2, 0, 4}, Shape{2, 3, 0}}) {
    const Tensor x = Tensor::uninitialized(shape);
    const Tensor y = Tensor::uninitialized(shape);
    const Tensor lse = Tensor::uninitialized({shape[0], 2, shape[1]});
    cpu::attention({2, 1.0, true}, x, x, x, {}, y, lse);
    cpu::attention_backward({2, 1.0, true}, y, x, x, x, {}, y, lse, {.tensor = y}, {}, {});
  }
}

TEST_CASE("attention_backward: agrees with its definition for each copy of dy") {
  for (const DType dtype : {DType::float64, DType::float32}) {
    for (const Sizes& sizes : kSizes) {
      for (const Index copies : {1, 3}) {
        CAPTURE(sizes.queries_shape());
        CAPTURE(copies);
        const Attention attention{sizes, dtype, copies};
        attention.forward();
        const Tensor dq = attention.gradient(), dk = attention.gradient(), dv = attention.gradient();
        attention.backward({.tensor = dq}, {.tensor = dk}, {.tensor = dv});
        Reference right = attention.reference();
        const Index size = attention.q.size();
        const double bound = static_cast<double>(sizes.columns) * tolerance(sizes, dtype);
        for (Index copy = 0; copy < copies; ++copy) {
          const Numbers dy = part(attention.dy.values(), copy, size);
          Numbers right_dq(dy.size()), right_dk(dy.size()), right_dv(dy.size());
          right.backward(dy, right_dq, right_dk, right_dv);
          CHECK(distance(part(dq.values(), copy, size), right_dq) < bound);
          CHECK(distance(part(dk.values(), copy, size), right_dk) < bound);
          CHECK(distance(part(dv.values(), copy, size), right_dv) < bound);
        }
      }
    }
  }
}

TEST_CASE("attention_backward: adds where asked, and leaves out what nobody wants") {
  const Attention attention{{2, 70, 4, 3, 70, 3, 2}, DType::float64, 2};
  attention.forward();
  const Tensor dq = attention.gradient(), dk = attention.gradient(attention.k), dv = attention.gradient(attention.v);
  attention.backward({.tensor = dq}, {.tensor = dk}, {.tensor = dv});
  const Numbers right_q = dq.values(), right_k = dk.values(), right_v = dv.values();

  attention.backward({.tensor = dq, .add = true}, {.tensor = dk, .add = true}, {.tensor = dv, .add = true});
  const Numbers twice_q = dq.values(), twice_k = dk.values(), twice_v = dv.values();
  for (std::size_t i = 0; i < right_q.size(); ++i) {
    CHECK(twice_q[i] == doctest::Approx(2 * right_q[i]).epsilon(1e-12));
  }
  for (std::size_t i = 0; i < right_k.size(); ++i) {
    CHECK(twice_k[i] == doctest::Approx(2 * right_k[i]).epsilon(1e-12));
    CHECK(twice_v[i] == doctest::Approx(2 * right_v[i]).epsilon(1e-12));
  }
  attention.backward({.tensor = dq}, {}, {});
  CHECK(dq.values() == right_q);
  attention.backward({}, {.tensor = dk}, {});
  CHECK(dk.values() == right_k);
  attention.backward({}, {}, {.tensor = dv});
  CHECK(dv.values() == right_v);
}

TEST_CASE("attention: a NaN in a later position reaches no earlier one") {
  constexpr Index length = 70, bad = 40;
  Attention attention{{1, length, 1, 4}};
  attention.forward();
  const Numbers right = attention.y.values();
  for (Tensor* const input : {&attention.q, &attention.k, &attention.v}) {
    const Tensor before = input->clone();
    input->mutable_data<double>()[bad * 4 + 1] = kNaN;
    attention.forward();
    const Numbers result = attention.y.values();
    CHECK(distance(part(result, 0, bad * 4), part(right, 0, bad * 4)) < 1e-14);
    CHECK(std::isnan(attention.y.at({0, bad, 1})));
    *input = before;
  }
}

TEST_CASE("attention_backward: a NaN in an earlier cotangent reaches no later key or value") {
  constexpr Index length = 70, bad = 40;
  Attention attention{{1, length, 1, 4}};
  attention.forward();
  const Tensor dq = attention.gradient(), dk = attention.gradient(), dv = attention.gradient();
  attention.backward({.tensor = dq}, {.tensor = dk}, {.tensor = dv});
  const Numbers right_k = dk.values(), right_v = dv.values();
  attention.dy.mutable_data<double>()[bad * 4 + 1] = kNaN;
  attention.backward({.tensor = dq}, {.tensor = dk}, {.tensor = dv});
  const Numbers result_k = dk.values(), result_v = dv.values();
  for (std::size_t i = (bad + 1) * 4; i < right_k.size(); ++i) {
    CHECK(result_k[i] == doctest::Approx(right_k[i]).epsilon(1e-12));
    CHECK(result_v[i] == doctest::Approx(right_v[i]).epsilon(1e-12));
  }
  CHECK(std::isnan(dv.at({0, 0, bad, 1})));
}

TEST_CASE(
    "attention_backward: a NaN in a later key reaches no earlier query's gradient, nor one in an earlier "
    "query a later key's") {
  constexpr Index length = 70, bad = 40;
  Attention attention{{1, length, 1, 4}};
  attention.forward();
  const Tensor dq = attention.gradient(), dk = attention.gradient();
  attention.backward({.tensor = dq}, {.tensor = dk}, {});
  const Numbers right_q = dq.values(), right_k = dk.values();
  const auto spoil = [&](Tensor& input) {
    input.mutable_data<double>()[bad * 4 + 1] = kNaN;
    attention.forward();
    attention.backward({.tensor = dq}, {.tensor = dk}, {});
  };
  const Tensor q = attention.q.clone();
  spoil(attention.q);
  constexpr Index after = (bad + 1) * 4;
  const auto from = [](const Numbers& values, Index first) { return Numbers(values.begin() + first, values.end()); };
  CHECK(distance(from(dk.values(), after), from(right_k, after)) < 1e-14);
  CHECK(std::isnan(dk.at({0, 0, bad, 1})));
  attention.q = q;
  spoil(attention.k);
  CHECK(distance(part(dq.values(), 0, bad * 4), part(right_q, 0, bad * 4)) < 1e-14);
  CHECK(std::isnan(dq.at({0, 0, bad, 1})));
}

TEST_CASE("attention: the number of threads changes no bit, also where a group of heads adds to one gradient") {
  const int threads = thread_count();
  for (const Index key_heads : {4, 2, 1}) {
    CAPTURE(key_heads);
    const Attention attention{{4, 100, 4, 8, 100, 8, key_heads}, DType::float32, 2};
    const Tensor dq = attention.gradient(), dk = attention.gradient(attention.k), dv = attention.gradient(attention.v);
    std::vector<Numbers> results;
    for (const int count : {1, 2, 3}) {
      set_thread_count(count);
      attention.forward();
      attention.backward({.tensor = dq}, {.tensor = dk}, {.tensor = dv});
      results.push_back(attention.y.values());
      for (const Tensor& gradient : {dq, dk, dv}) {
        const Numbers values = gradient.values();
        results.back().insert(results.back().end(), values.begin(), values.end());
      }
      CHECK(results.back() == results.front());
    }
  }
  set_thread_count(threads);
}

TEST_CASE("attention: the number of threads changes no bit of a single query's result") {
  const int threads = thread_count();
  const Attention attention{{3, 1, 6, 16, 2000, 16, 2}, DType::float32};
  std::vector<Numbers> results;
  for (const int count : {1, 2, 4}) {
    set_thread_count(count);
    attention.forward();
    results.push_back(attention.y.values());
    CHECK(results.back() == results.front());
  }
  set_thread_count(threads);
}

TEST_CASE("attention: agrees with its definition under masks, with more and with fewer keys than queries") {
  for (const DType dtype : {DType::float64, DType::float32}) {
    int number = 0;
    for (const Attention& attention : masked_attentions(dtype)) {
      CAPTURE(number++);
      attention.forward();
      const Reference right = attention.reference();
      CHECK(distance(attention.y.values(), right.y) < tolerance(attention.sizes, dtype));
      const Numbers lse = attention.lse.values();
      for (std::size_t i = 0; i < lse.size(); ++i) {
        CHECK((lse[i] == right.lse[i] || std::abs(lse[i] - right.lse[i]) < 8 * tolerance(attention.sizes, dtype)));
      }
    }
  }
}

TEST_CASE("attention_backward: agrees with its definition under masks, with more and with fewer keys than queries") {
  for (const DType dtype : {DType::float64, DType::float32}) {
    int number = 0;
    for (const Attention& attention : masked_attentions(dtype, 2)) {
      CAPTURE(number++);
      attention.forward();
      const Tensor dq = attention.gradient(attention.q), dk = attention.gradient(attention.k),
                   dv = attention.gradient(attention.v);
      attention.backward({.tensor = dq}, {.tensor = dk}, {.tensor = dv});
      Reference right = attention.reference();
      const Sizes& sizes = attention.sizes;
      const double bound = static_cast<double>(std::max(sizes.columns, sizes.value_columns)) * tolerance(sizes, dtype);
      for (Index copy = 0; copy < 2; ++copy) {
        const auto own = [&](const Tensor& all, const Tensor& one) { return part(all.values(), copy, one.size()); };
        Numbers right_dq(right.q.size()), right_dk(right.k.size()), right_dv(right.v.size());
        right.backward(own(attention.dy, attention.y), right_dq, right_dk, right_dv);
        CHECK(distance(own(dq, attention.q), right_dq) < bound);
        CHECK(distance(own(dk, attention.k), right_dk) < bound);
        CHECK(distance(own(dv, attention.v), right_dv) < bound);
      }
    }
  }
}

TEST_CASE("attention: without queries the gradients of keys and values are 0, without keys the result is") {
  const Attention no_query{{1, 0, 1, 2, 3}}, no_key{{1, 2, 1, 2, 0}};
  const Tensor dk = no_query.gradient(no_query.k), dv = no_query.gradient(no_query.v);
  no_query.forward();
  no_query.backward({}, {.tensor = dk}, {.tensor = dv});
  CHECK(dk.values() == Numbers(6));
  CHECK(dv.values() == Numbers(6));
  const Tensor dq = no_key.gradient(no_key.q);
  no_key.forward();
  no_key.backward({.tensor = dq}, {}, {});
  CHECK(no_key.y.values() == Numbers(4));
  CHECK(dq.values() == Numbers(4));
}

TEST_CASE("attention: what a mask hides changes no bit of any result, be it huge, infinite or NaN") {
  // The third key is hidden from all queries, the second query sees nothing.
  const Tensor mask = indices({1, 1, 3, 3}, std::vector<std::int32_t>{1, 1, 0, 0, 0, 0, 0, 1, 0});
  Attention attention{{1, 3, 1, 2}, DType::float64, 1, false, mask};
  const auto results = [&] {
    const Tensor dq = attention.gradient(), dk = attention.gradient(), dv = attention.gradient();
    attention.forward();
    attention.backward({.tensor = dq}, {.tensor = dk}, {.tensor = dv});
    std::vector<Numbers> all;
    for (const Tensor& result : {attention.y, attention.lse, dq, dk, dv}) all.push_back(result.values());
    return all;
  };
  const std::vector<Numbers> right = results();
  CHECK(part(right[0], 1, 2) == Numbers{0, 0});
  CHECK(part(right[2], 1, 2) == Numbers{0, 0});
  CHECK(part(right[3], 2, 2) == Numbers{0, 0});
  CHECK(part(right[4], 2, 2) == Numbers{0, 0});
  for (const double value : {1e10, kNaN, std::numeric_limits<double>::infinity()}) {
    CAPTURE(value);
    attention.k.mutable_data<double>()[4] = value;
    attention.v.mutable_data<double>()[5] = value;
    attention.q.mutable_data<double>()[2] = value;
    attention.dy.mutable_data<double>()[3] = value;
    const std::vector<Numbers> got = results();
    for (std::size_t i = 0; i < right.size(); ++i) CHECK(distance(got[i], right[i]) < 1e-15);
  }
}

TEST_CASE("attention: a prefix of a causal sequence has the prefix of the result") {
  const Attention whole{{1, 100, 2, 4}};
  whole.forward();
  const Numbers right = whole.y.values();
  for (const Index length : {1, 40, 64, 99}) {
    Attention prefix{{1, length, 2, 4}};
    const auto cut = [&](const Tensor& x) {
      return tensor({1, length, 8}, part(x.values(), 0, length * 8), x.dtype());
    };
    prefix.q = cut(whole.q);
    prefix.k = cut(whole.k);
    prefix.v = cut(whole.v);
    prefix.forward();
    CHECK(distance(prefix.y.values(), part(right, 0, length * 8)) < 1e-15);
  }
}
