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

// Attention by its definition, in float64: plain loops over every head.
struct Reference {
  Index batches, length, heads, columns;
  Numbers q, k, v;
  Numbers y = Numbers(q.size()), lse{}, p{};  // p [batches, heads, length, length]

  std::size_t at(Index batch, Index row, Index head, Index column) const {
    return static_cast<std::size_t>(((batch * length + row) * heads + head) * columns + column);
  }
  double& p_at(Index batch, Index head, Index i, Index j) {
    return p[static_cast<std::size_t>(((batch * heads + head) * length + i) * length + j)];
  }
  double scale() const { return 1 / std::sqrt(static_cast<double>(columns)); }

  template <class F>
  void for_each_row(F&& f) {
    for (Index batch = 0; batch < batches; ++batch) {
      for (Index head = 0; head < heads; ++head) {
        for (Index i = 0; i < length; ++i) f(batch, head, i);
      }
    }
  }

  void forward() {
    p.assign(static_cast<std::size_t>(batches * heads * length * length), 0.0);
    for_each_row([&](Index batch, Index head, Index i) {
      double sum = 0;
      for (Index j = 0; j <= i; ++j) {
        double score = 0;
        for (Index c = 0; c < columns; ++c) score += q[at(batch, i, head, c)] * k[at(batch, j, head, c)];
        sum += p_at(batch, head, i, j) = std::exp(score * scale());
      }
      lse.push_back(std::log(sum));
      for (Index j = 0; j <= i; ++j) {
        p_at(batch, head, i, j) /= sum;
        for (Index c = 0; c < columns; ++c)
          y[at(batch, i, head, c)] += p_at(batch, head, i, j) * v[at(batch, j, head, c)];
      }
    });
  }

  // Adds to dq, dk and dv.
  void backward(const Numbers& dy, Numbers& dq, Numbers& dk, Numbers& dv) {
    for_each_row([&](Index batch, Index head, Index i) {
      Numbers dp(static_cast<std::size_t>(i + 1));
      double mean = 0;
      for (Index j = 0; j <= i; ++j) {
        for (Index c = 0; c < columns; ++c) {
          dp[static_cast<std::size_t>(j)] += dy[at(batch, i, head, c)] * v[at(batch, j, head, c)];
          dv[at(batch, j, head, c)] += p_at(batch, head, i, j) * dy[at(batch, i, head, c)];
        }
        mean += p_at(batch, head, i, j) * dp[static_cast<std::size_t>(j)];
      }
      for (Index j = 0; j <= i; ++j) {
        const double ds = p_at(batch, head, i, j) * (dp[static_cast<std::size_t>(j)] - mean) * scale();
        for (Index c = 0; c < columns; ++c) {
          dq[at(batch, i, head, c)] += ds * k[at(batch, j, head, c)];
          dk[at(batch, j, head, c)] += ds * q[at(batch, i, head, c)];
        }
      }
    });
  }
};

struct Sizes {
  Index batches, length, heads, columns;
  Shape shape() const { return {batches, length, heads * columns}; }
};

// Inputs, and what the kernel makes of them.
struct Attention {
  Sizes sizes;
  DType dtype = DType::float64;
  Index copies = 1;

  Tensor q = random_tensor(sizes.shape(), dtype, 1);
  Tensor k = random_tensor(sizes.shape(), dtype, 2);
  Tensor v = random_tensor(sizes.shape(), dtype, 3);
  Tensor dy = random_tensor(sizes.shape().with_leading(copies), dtype, 4);
  Tensor y = full(sizes.shape(), kNaN, dtype);
  Tensor lse = full({sizes.batches, sizes.heads, sizes.length}, kNaN, dtype);

  void forward() const { cpu::causal_attention(q, k, v, sizes.heads, y, lse); }
  void backward(const Destination& dq, const Destination& dk, const Destination& dv) const {
    cpu::causal_attention_backward(dy, q, k, v, y, lse, sizes.heads, dq, dk, dv);
  }
  Tensor gradient(double before = kNaN) const { return full(dy.shape(), before, dtype); }
  Reference reference() const {
    Reference result{sizes.batches, sizes.length, sizes.heads, sizes.columns, q.values(), k.values(), v.values()};
    result.forward();
    return result;
  }
};

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
  const double d = static_cast<double>(sizes.columns), t = static_cast<double>(sizes.length);
  return (t + (d + 2) * std::sqrt(d)) * machine_epsilon(dtype);
}

const std::initializer_list<Sizes> kSizes{{1, 1, 1, 1},   {2, 3, 1, 5},   {1, 5, 3, 4},  {2, 16, 4, 8},
                                          {1, 33, 2, 17}, {1, 64, 1, 16}, {2, 65, 2, 3}, {1, 129, 1, 8}};

Numbers part(const Numbers& values, Index number, Index size) {
  return {values.begin() + number * size, values.begin() + (number + 1) * size};
}

}  // namespace

TEST_CASE("causal_attention: agrees with its definition") {
  for (const DType dtype : {DType::float64, DType::float32}) {
    for (const Sizes& sizes : kSizes) {
      CAPTURE(sizes.shape());
      const Attention attention{sizes, dtype};
      attention.forward();
      const Reference right = attention.reference();
      CHECK(distance(attention.y.values(), right.y) < tolerance(sizes, dtype));
      CHECK(distance(attention.lse.values(), right.lse) < 4 * tolerance(sizes, dtype));  // lse reaches 5
    }
  }
}

TEST_CASE("causal_attention: the first position sees only itself") {
  const Attention attention{{1, 3, 1, 2}};
  attention.forward();
  CHECK(attention.y.at({0, 0, 0}) == attention.v.at({0, 0, 0}));
  CHECK(attention.y.at({0, 0, 1}) == attention.v.at({0, 0, 1}));
}

TEST_CASE("causal_attention: equal keys give the mean of the values so far") {
  Attention attention{{1, 4, 1, 1}};
  attention.k = full({1, 4, 1}, 1, DType::float64);
  attention.v = tensor({1, 4, 1}, Numbers{1, 2, 6, 7}, DType::float64);
  attention.forward();
  CHECK(distance(attention.y.values(), {1, 1.5, 3, 4}) < 1e-15);
}

TEST_CASE("causal_attention: huge scores are softened by their maximum") {
  Attention attention{{1, 2, 1, 1}, DType::float32};
  attention.q = full({1, 2, 1}, 1000);
  attention.k = tensor({1, 2, 1}, Numbers{1, 2}, DType::float32);
  attention.v = tensor({1, 2, 1}, Numbers{3, 5}, DType::float32);
  attention.forward();
  CHECK(attention.y.values() == Numbers{3, 5});
  CHECK(attention.lse.values() == Numbers{1000, 2000});
}

TEST_CASE("causal_attention: no batch, no position and no column are no work") {
  for (const Shape& shape : {Shape{0, 3, 4}, Shape{2, 0, 4}, Shape{2, 3, 0}}) {
    const Tensor x = Tensor::uninitialized(shape);
    const Tensor y = Tensor::uninitialized(shape);
    cpu::causal_attention(x, x, x, 2, y, Tensor::uninitialized({shape[0], 2, shape[1]}));
    cpu::causal_attention_backward(y, x, x, x, y, Tensor::uninitialized({shape[0], 2, shape[1]}), 2, {.tensor = y}, {},
                                   {});
  }
}

TEST_CASE("causal_attention_backward: agrees with its definition for each copy of dy") {
  for (const DType dtype : {DType::float64, DType::float32}) {
    for (const Sizes& sizes : kSizes) {
      for (const Index copies : {1, 3}) {
        CAPTURE(sizes.shape());
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

TEST_CASE("causal_attention_backward: adds where asked, and leaves out what nobody wants") {
  const Attention attention{{2, 70, 2, 3}, DType::float64, 2};
  attention.forward();
  const Tensor dq = attention.gradient(), dk = attention.gradient(), dv = attention.gradient();
  attention.backward({.tensor = dq}, {.tensor = dk}, {.tensor = dv});
  const Numbers right_q = dq.values(), right_k = dk.values(), right_v = dv.values();

  attention.backward({.tensor = dq, .add = true}, {.tensor = dk, .add = true}, {.tensor = dv, .add = true});
  const Numbers twice_q = dq.values(), twice_k = dk.values(), twice_v = dv.values();
  for (std::size_t i = 0; i < right_q.size(); ++i) {
    CHECK(twice_q[i] == doctest::Approx(2 * right_q[i]).epsilon(1e-12));
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

TEST_CASE("causal_attention: a NaN in a later position reaches no earlier one") {
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

TEST_CASE("causal_attention_backward: a NaN in an earlier cotangent reaches no later key or value") {
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
    "causal_attention_backward: a NaN in a later key reaches no earlier query's gradient, nor one in an earlier "
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

TEST_CASE("causal_attention: the number of threads changes no bit") {
  const int threads = thread_count();
  const Attention attention{{4, 100, 4, 8}, DType::float32, 2};
  const Tensor dq = attention.gradient(), dk = attention.gradient(), dv = attention.gradient();
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
  set_thread_count(threads);
}
