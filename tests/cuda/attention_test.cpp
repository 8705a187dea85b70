#include "cuda/device_check.hpp"

using namespace jnorm;
using namespace jnorm::test;

namespace {

struct Sizes {
  Index batches = 1, heads = 1, key_heads = 1, queries = 1, keys = 1, columns = 1, value_columns = 1;
  bool causal = false;
};

struct Problem {
  AttentionSettings settings;
  Tensor q, k, v, mask, dy;  // dy of two copies

  Problem(const Sizes& s, DType dtype, const Tensor& chosen_mask = {})
      : settings{s.heads, 1 / std::sqrt(static_cast<double>(s.columns)), s.causal, s.key_heads},
        q(random({s.batches, s.queries, s.heads * s.columns}, dtype, 1)),
        k(random({s.batches, s.keys, s.key_heads * s.columns}, dtype, 2)),
        v(random({s.batches, s.keys, s.key_heads * s.value_columns}, dtype, 3)),
        mask(chosen_mask),
        dy(random({2, s.batches, s.queries, s.heads * s.value_columns}, dtype, 4)) {}

  Shape y_shape() const { return dy.shape().without_leading(); }
  Shape lse_shape() const { return {q.dim(0), settings.heads, q.dim(1)}; }
};

struct Results {
  Tensor y, lse, dq, dk, dv;
};

Results on_cpu(const Problem& p) {
  const Tensor q = p.q.to(DType::float64), k = p.k.to(DType::float64), v = p.v.to(DType::float64);
  const Index copies = p.dy.dim(0);
  const auto gradient = [&](const Tensor& of) { return garbage(of.shape().with_leading(copies), DType::float64); };
  Results right{garbage(p.y_shape(), DType::float64), garbage(p.lse_shape(), DType::float64), gradient(q), gradient(k),
                gradient(v)};
  cpu().attention(p.settings, q, k, v, p.mask, right.y, right.lse);
  cpu().attention_backward(p.settings, p.dy.to(DType::float64), q, k, v, p.mask, right.y, right.lse, {right.dq},
                           {right.dk}, {right.dv});
  return right;
}

Results on_the_device(const Problem& p) {
  const DType dtype = p.q.dtype();
  const Tensor q = on_device(p.q), k = on_device(p.k), v = on_device(p.v);
  const Tensor mask = p.mask.defined() ? on_device(p.mask) : Tensor();
  const Index copies = p.dy.dim(0);
  const auto gradient = [&](const Tensor& of) { return garbage_on_device(of.shape().with_leading(copies), dtype); };
  const Results got{garbage_on_device(p.y_shape(), dtype), garbage_on_device(p.lse_shape(), statistics_dtype(dtype)),
                    gradient(q), gradient(k), gradient(v)};
  device_kernels().attention(p.settings, q, k, v, mask, got.y, got.lse);
  device_kernels().attention_backward(p.settings, on_device(p.dy), q, k, v, mask, got.y, got.lse, {got.dq}, {got.dk},
                                      {got.dv});
  const Device host = Device::cpu();
  return {got.y.to(host), got.lse.to(host), got.dq.to(host), got.dk.to(host), got.dv.to(host)};
}

// Sums over some hundred pairs, and the one rounding of a narrow result.
double bound(DType dtype) { return std::max(a_few_roundings(dtype), 4 * tolerance(statistics_dtype(dtype))); }
// Gradients subtract rowsum(dy y), where a narrow y has been rounded: an error of some roundings of size |dy|.
double gradient_bound(DType dtype) {
  const bool narrow = statistics_dtype(dtype) != dtype;
  return narrow ? 16 * machine_epsilon(dtype) : bound(dtype);
}

void check_close(const Results& got, const Results& right, DType dtype) {
  CHECK(distance(got.y, right.y) < bound(dtype));
  CHECK(distance(got.lse, right.lse) < 4 * tolerance(statistics_dtype(dtype)));
  CHECK(distance(got.dq, right.dq) < gradient_bound(dtype));
  CHECK(distance(got.dk, right.dk) < gradient_bound(dtype));
  CHECK(distance(got.dv, right.dv) < gradient_bound(dtype));
}
void check_all(const Problem& p) {
  CAPTURE(p.q.dtype());
  CAPTURE(p.q.shape());
  CAPTURE(p.v.shape());
  CAPTURE(p.settings.causal);
  check_close(on_the_device(p), on_cpu(p), p.q.dtype());
}

// 1 for about two of three pairs; nothing for the last query of each matrix.
Tensor some_mask(const Shape& shape) {
  std::vector<std::int32_t> mask;
  const Index keys = shape.last(), queries = shape[2];
  for (Index i = 0; i < shape.size(); ++i) {
    const bool last = queries > 1 && i / keys % queries == queries - 1;
    mask.push_back(!last && i * i % 3 != 0 ? 1 : 0);
  }
  return indices(shape, mask);
}

}  // namespace

TEST_CASE("cuda attention: heads of every width of a tile, beyond it, and between, causal or not") {
  for (const DType dtype : kFloatingTypes) {
    for (const Index columns : {8, 20, 64, 72, 136}) {
      for (const bool causal : {false, true}) {
        if (!causal && dtype != DType::float32) continue;
        check_all({{.heads = 2,
                    .key_heads = 2,
                    .queries = 37,
                    .keys = 37,
                    .columns = columns,
                    .value_columns = columns,
                    .causal = causal},
                   dtype});
      }
    }
  }
}

TEST_CASE("cuda attention: several tiles of queries and keys, whole and not") {
  for (const bool causal : {false, true}) {
    for (const Index length : {64, 130}) {
      check_all({{.batches = 2,
                  .heads = 2,
                  .key_heads = 2,
                  .queries = length,
                  .keys = length,
                  .columns = 16,
                  .value_columns = 16,
                  .causal = causal},
                 DType::float32});
    }
  }
}

TEST_CASE("cuda attention: more or fewer keys than queries: the last of both are aligned") {
  for (const auto& [queries, keys] : std::vector<std::pair<Index, Index>>{{5, 100}, {100, 5}, {1, 70}, {70, 1}}) {
    for (const bool causal : {false, true}) {
      check_all({{.heads = 2,
                  .key_heads = 2,
                  .queries = queries,
                  .keys = keys,
                  .columns = 8,
                  .value_columns = 8,
                  .causal = causal},
                 DType::float32});
    }
  }
}

TEST_CASE("cuda attention: groups of query heads read one head of keys, and values have columns of their own") {
  for (const DType dtype : kFloatingTypes) {
    check_all({{.batches = 2,
                .heads = 6,
                .key_heads = 2,
                .queries = 9,
                .keys = 70,
                .columns = 5,
                .value_columns = 12,
                .causal = true},
               dtype});
    check_all({{.heads = 4, .key_heads = 1, .queries = 70, .keys = 9, .columns = 40, .value_columns = 3}, dtype});
  }
}

TEST_CASE("cuda attention: masks of every broadcast shape, with queries that see no key") {
  const Sizes sizes{
      .batches = 2, .heads = 2, .key_heads = 2, .queries = 67, .keys = 35, .columns = 8, .value_columns = 8};
  for (const Shape& shape : {Shape{1, 1, 1, 35}, Shape{2, 1, 1, 35}, Shape{1, 1, 67, 35}, Shape{2, 1, 67, 35},
                             Shape{1, 2, 67, 35}, Shape{2, 2, 67, 35}}) {
    for (const bool causal : {false, true}) {
      Sizes chosen = sizes;
      if (causal && shape != Shape{2, 1, 67, 35}) continue;
      chosen.causal = causal;
      const Problem problem(chosen, DType::float32, some_mask(shape));
      CAPTURE(shape);
      check_all(problem);
      if (shape[2] == 67) CHECK(on_the_device(problem).y.at({0, 66, 3}) == 0.0);
    }
  }
}

TEST_CASE("cuda attention: a key that is masked out reaches nothing, though it is NaN or infinite") {
  // y is [0, 1, 2, 3] for both queries, which see key 0 alone.
  for (const double hidden : {kNaN, kInfinity, 1e10}) {
    Problem problem({.queries = 2, .keys = 2, .columns = 4, .value_columns = 4}, DType::float32,
                    indices({1, 1, 2, 2}, std::vector<std::int32_t>{1, 0, 1, 0}));
    const Tensor rows = tensor({1, 2, 4}, std::vector<double>{0, 1, 2, 3, hidden, 5, 6, 7});
    problem.k = rows;
    problem.v = rows;
    const Results got = on_the_device(problem);
    CHECK(got.y.values() == std::vector<double>{0, 1, 2, 3, 0, 1, 2, 3});
    check_close(got, on_cpu(problem), DType::float32);
    CHECK(got.dk.at({0, 0, 1, 0}) == 0.0);
    CHECK(got.dv.at({0, 0, 1, 0}) == 0.0);
  }
}

TEST_CASE("cuda attention: a later token that is NaN reaches no earlier one, forward or backward") {
  Problem problem({.queries = 70, .keys = 70, .columns = 8, .value_columns = 8, .causal = true}, DType::float32);
  const auto spoil = [](const Tensor& x) {
    std::vector<double> values = x.values();
    std::fill(values.end() - 8, values.end(), kNaN);
    return tensor(x.shape(), values);
  };
  problem.q = spoil(problem.q), problem.k = spoil(problem.k), problem.v = spoil(problem.v);
  const Results got = on_the_device(problem), right = on_cpu(problem);
  check_close(got, right, DType::float32);
  CHECK_FALSE(std::isnan(got.y.at({0, 68, 0})));
  CHECK(std::isnan(got.y.at({0, 69, 0})));
  CHECK_FALSE(std::isnan(got.dq.at({0, 0, 68, 0})));
}

TEST_CASE("cuda attention: a NaN that is seen is not hidden") {
  Problem problem({.queries = 3, .keys = 3, .columns = 4, .value_columns = 4}, DType::float32);
  std::vector<double> keys = problem.k.values();
  keys[5] = kNaN;
  problem.k = tensor(problem.k.shape(), keys);
  CHECK(distance(on_the_device(problem).y, std::vector<double>(12, kNaN)) == 0.0);
}

TEST_CASE("cuda attention: scores beyond exp's range keep their softmax") {
  Problem problem({.queries = 5, .keys = 70, .columns = 8, .value_columns = 8}, DType::float32);
  problem.settings.scale = 100.0;  // scores of some hundreds
  const Results got = on_the_device(problem), right = on_cpu(problem);
  // A score of 1000 is rounded to 6e-5, which is the relative error of its weight.
  CHECK(distance(got.y, right.y) < 1e-3);
  CHECK(distance(got.lse, right.lse) < tolerance(DType::float32));
}

TEST_CASE("cuda attention: gradients are added where they shall be, and left out where nobody wants them") {
  for (const DType dtype : kFloatingTypes) {
    const Problem p({.heads = 2, .key_heads = 2, .queries = 9, .keys = 7, .columns = 8, .value_columns = 8}, dtype);
    const Results alone = on_the_device(p);
    const auto one_more = [&](const Tensor& gradient) {
      std::vector<double> values = gradient.values();
      for (double& value : values) value += 1.0;
      return values;
    };
    const auto ones_like = [&](const Tensor& x) { return on_device(ones(x.shape(), dtype)); };
    const Tensor dq = ones_like(alone.dq), dk = ones_like(alone.dk), dv = ones_like(alone.dv);
    const auto backward = [&](const Destination& to_q, const Destination& to_k, const Destination& to_v) {
      device_kernels().attention_backward(p.settings, on_device(p.dy), on_device(p.q), on_device(p.k), on_device(p.v),
                                          {}, on_device(alone.y), on_device(alone.lse), to_q, to_k, to_v);
    };
    backward({dq, true}, {}, {});
    backward({}, {dk, true}, {});
    backward({}, {}, {dv, true});
    backward({}, {}, {});
    // The gradient that was rounded before 1 was added, beside the sum that was rounded after.
    const double rounding = std::max(gradient_bound(dtype), 2 * machine_epsilon(dtype));
    CHECK(distance(dq.to(Device::cpu()), one_more(alone.dq)) < rounding);
    CHECK(distance(dk.to(Device::cpu()), one_more(alone.dk)) < rounding);
    CHECK(distance(dv.to(Device::cpu()), one_more(alone.dv)) < rounding);
  }
}

TEST_CASE("cuda attention: without keys y is 0 and lse -inf; without columns of values gradients are 0") {
  const Results none = on_the_device({{.queries = 3, .keys = 0, .columns = 4, .value_columns = 4}, DType::float32});
  CHECK(none.y.values() == std::vector<double>(12, 0.0));
  CHECK(none.lse.values() == std::vector<double>(3, -kInfinity));
  CHECK(none.dq.values() == std::vector<double>(24, 0.0));
  const Results empty = on_the_device({{.queries = 3, .keys = 3, .columns = 4, .value_columns = 0}, DType::float32});
  CHECK(empty.dq.values() == std::vector<double>(24, 0.0));
  CHECK(empty.dk.values() == std::vector<double>(24, 0.0));
}

TEST_CASE("cuda attention: the same bits in every run and under every order of threads") {
  const Problem problem(
      {.heads = 2, .key_heads = 1, .queries = 70, .keys = 70, .columns = 8, .value_columns = 8, .causal = true},
      DType::float32);
  const Results first = on_the_device(problem);
  for_each_schedule([&] {
    const Results again = on_the_device(problem);
    CHECK(identical(again.y, first.y));
    CHECK(identical(again.dq, first.dq));
    CHECK(identical(again.dk, first.dk));
    CHECK(identical(again.dv, first.dv));
  });
}
