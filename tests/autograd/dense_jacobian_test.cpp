// Dense Jacobians carry only live rows. The witness: one cotangent at a time, which carries all of them.

#include <doctest/doctest.h>

#include <jnorm/autograd/linear_map.hpp>
#include <jnorm/autograd/ops.hpp>
#include <jnorm/autograd/sweep.hpp>
#include <jnorm/core/error.hpp>
#include <jnorm/core/matrix_measures.hpp>
#include <jnorm/core/operations.hpp>
#include <jnorm/core/parallel.hpp>
#include <jnorm/core/random.hpp>
#include <support/close.hpp>

using namespace jnorm;
using doctest::Contains;

namespace {

Tensor random(const Shape& shape, std::uint64_t seed) {
  Rng rng(seed);
  return randn(shape, rng, DType::float64);
}

Tensor one_hot(const Shape& shape, Index element) {
  std::vector<double> values(static_cast<std::size_t>(shape.size()));
  values[static_cast<std::size_t>(element)] = 1.0;
  return tensor(shape, values, DType::float64);
}

// d y / d x, a row a sweep.
Tensor row_by_row(const Var& y, const Var& x) {
  const LinearMap J = linearize(y, x);
  std::vector<double> values;
  for (Index i = 0; i < J.rows(); ++i) {
    const std::vector<double> row = J.apply_transposed(one_hot(y.shape(), i)).values();
    values.insert(values.end(), row.begin(), row.end());
  }
  return tensor({J.rows(), J.columns()}, values, DType::float64);
}

// How far the two are apart. Sums have up to some hundred terms: 1e-13 leaves room for their rounding alone.
constexpr double kRounding = 1e-13;
double error_of(const Var& y, const Var& x) { return relative_distance(jacobian(y, x), row_by_row(y, x)); }

// x [B, T, 6] with constants to build on.
struct Graph {
  Tape tape;
  Var x;
  explicit Graph(const Shape& shape = {2, 4, 6}) : x(tape.variable(random(shape, 1))) {}

  Var weight(Index out, Index in, std::uint64_t seed) { return tape.constant(random({out, in}, seed)); }
  Var attention(const Var& v) { return causal_attention(linear(v, weight(6, 6, 2)), linear(v, weight(6, 6, 3)), v, 2); }
};

struct WithThreads {
  explicit WithThreads(int threads) : before(thread_count()) { set_thread_count(threads); }
  ~WithThreads() { set_thread_count(before); }
  int before;
};

}  // namespace

TEST_CASE("dense Jacobian: every row-local operation alone") {
  Graph g;
  const Var positive = square(g.x) + 0.5;
  const Var other = g.tape.constant(random({2, 4, 6}, 5));
  const auto check = [&](const char* name, const Var& y) {
    CAPTURE(name);
    CHECK(error_of(y, g.x) < kRounding);
  };
  check("add", g.x + other);
  check("subtract", other - g.x);
  check("multiply", g.x * other);
  check("multiply by itself", g.x * g.x);
  check("divide", other / positive);
  check("affine", 2.0 - 3.0 * g.x);
  check("exp", exp(g.x));
  check("log", log(positive));
  check("sqrt", sqrt(positive));
  check("rsqrt", rsqrt(positive));
  check("reciprocal", reciprocal(positive));
  check("tanh", tanh(g.x));
  check("erf", erf(g.x));
  check("abs", abs(g.x));
  check("sign", sign(g.x));
  check("relu", relu(g.x));
  check("gelu", gelu(g.x));
  check("gelu_tanh", gelu_tanh(g.x));
  check("linear", linear(g.x, g.weight(3, 6, 6), g.tape.constant(random({3}, 7))));
  check("layer_norm", layer_norm(g.x, g.tape.constant(random({6}, 8)), g.tape.constant(random({6}, 9))));
  check("layer_norm without parameters", layer_norm(g.x));
  check("rms_norm", rms_norm(g.x, g.tape.constant(random({6}, 8))));
  check("softmax", softmax(g.x));
  check("log_softmax", log_softmax(g.x));
  check("rotary", rotary(g.x, 3, {.first_position = 1}));
  check("reshape that keeps the last axis", reshape(g.x, {8, 6}));
}

TEST_CASE("dense Jacobian: causal attention, in one sequence and in several") {
  for (const Index batch : {1, 2, 3}) {
    Graph g({batch, 5, 6});
    CHECK(error_of(g.attention(g.x), g.x) < kRounding);
    CHECK(error_of(causal_attention(g.x, g.x, g.x, 3), g.x) < kRounding);
  }
}

TEST_CASE("dense Jacobian: attention of a sequence longer than a block of queries") {
  Graph g({1, 70, 6});
  const Var y = linear(g.attention(g.x), g.weight(1, 6, 10));  // [1, 70, 1]: several rows a sweep
  CHECK(error_of(y, g.x) < kRounding);
}

TEST_CASE("dense Jacobian: short rows share a sweep, and may span sequences") {
  Graph g({3, 7, 6});
  CHECK(error_of(linear(g.attention(g.x), g.weight(2, 6, 10)), g.x) < kRounding);
}

TEST_CASE("dense Jacobian: rows longer than a sweep's cotangents") {
  Graph g({1, 3, 6});
  CHECK(error_of(linear(g.attention(g.x), g.weight(50, 6, 10)), g.x) < kRounding);
}

TEST_CASE("dense Jacobian: contributions with different rows are united, in either order") {
  Graph g;
  const Var attended = g.attention(g.x);
  CHECK(error_of(g.x + attended, g.x) < kRounding);
  CHECK(error_of(attended + g.x, g.x) < kRounding);
  CHECK(error_of(attended + gelu(g.x) + attended * g.x, g.x) < kRounding);
}

TEST_CASE("dense Jacobian: an operation that mixes rows reaches all of them") {
  Graph g({2, 3, 4});
  const Var normed = layer_norm(g.x);
  const Var permuted = gelu(permute(linear(normed, g.weight(4, 4, 2)), {2, 0, 1}));  // [4, 2, 3]
  CHECK(error_of(softmax(permuted), g.x) < kRounding);
  CHECK(error_of(layer_norm(transpose(normed)), g.x) < kRounding);
  CHECK(error_of(normed + reshape(permuted, {2, 3, 4}), g.x) < kRounding);  // its rows have other lengths
}

TEST_CASE("dense Jacobian: a product over tokens") {
  Graph g({2, 3, 3});
  const Var mixer = g.tape.constant(random({2, 3, 3}, 4));
  CHECK(error_of(gelu(matmul(mixer, layer_norm(g.x))), g.x) < kRounding);
  CHECK(error_of(softmax(matmul(g.x, g.x, false, true)), g.x) < kRounding);
}

TEST_CASE("dense Jacobian: a norm that is composed of sums and broadcasts") {
  Graph g;
  const Var centred = g.x - mean(g.x, {-1}, Keep::yes);
  CHECK(error_of(centred * rsqrt(mean(square(centred), {-1}, Keep::yes) + 1e-5), g.x) < kRounding);
}

TEST_CASE("dense Jacobian: broadcasts that keep rows, repeat one row, or repeat a table of rows") {
  Graph g;
  const Var column = g.tape.constant(random({2, 4, 1}, 5));
  CHECK(error_of(gelu(column * g.x), column) < kRounding);
  const Var row = g.tape.constant(random({6}, 5));
  CHECK(error_of(gelu(row * g.x), row) < kRounding);
  const Var table = g.tape.constant(random({4, 6}, 5));
  CHECK(error_of(gelu(table + g.x), table) < kRounding);
  const Var square_of_row = broadcast_to(row, {6, 6});  // as many rows as the row has elements
  CHECK(error_of(gelu(square_of_row), row) < kRounding);
}

TEST_CASE("dense Jacobian: with respect to what isn't in rows, a weight, a bias and a norm's gamma and beta") {
  Graph g;
  const Var weight = g.weight(3, 6, 6), bias = g.tape.constant(random({3}, 7));
  const Var gamma = g.tape.constant(random({3}, 8)), beta = g.tape.constant(random({3}, 9));
  const Var y = layer_norm(linear(g.attention(g.x), weight, bias), gamma, beta);
  for (const Var& parameter : {weight, bias, gamma, beta}) CHECK(error_of(y, parameter) < kRounding);
  const Var scale = g.tape.constant(random({6}, 10));
  CHECK(error_of(rms_norm(g.x, scale), scale) < kRounding);
}

TEST_CASE("dense Jacobian: with respect to an embedding's table") {
  Tape tape;
  const Var table = tape.variable(random({5, 6}, 1));
  const Var x = embedding(table, indices({2, 3}, std::vector<std::int32_t>{4, 0, 2, 2, 4, 1}));
  CHECK(error_of(x, table) < kRounding);
  CHECK(error_of(x + causal_attention(x, x, x, 2), table) < kRounding);
}

TEST_CASE("dense Jacobian: one tensor that is both rows and a weight") {
  Graph g({3, 3});
  CHECK(error_of(linear(g.x, g.x), g.x) < kRounding);
}

TEST_CASE("dense Jacobian: of a value that another one shares its cotangent with") {
  Graph g;
  const Var a = g.x * 2.0, b = g.x * 3.0;
  const Var product = a * b, rows = gelu(a);
  const Var shared = a + b;  // passes its cotangent on to both, before the others add to it
  CHECK(error_of(product + shared, g.x) < kRounding);
  CHECK(error_of(rows + g.attention(shared), g.x) < kRounding);
}

TEST_CASE("dense Jacobian: of a scalar, and with respect to one") {
  Graph g;
  CHECK(error_of(sum(square(g.attention(g.x))), g.x) < kRounding);
  const Var scalar = g.tape.constant(random({}, 3));
  CHECK(error_of(scalar * g.x, scalar) < kRounding);
  CHECK(error_of(scalar * scalar, scalar) < kRounding);
}

TEST_CASE("dense Jacobian: of a value by itself, the identity") {
  Graph g;
  CHECK(identity_distance(jacobian(g.x, g.x)) == 0.0);
}

TEST_CASE("dense Jacobian: from an inner node") {
  Graph g;
  const Var inner = g.attention(g.x);
  CHECK(error_of(inner + gelu(layer_norm(inner)), inner) < kRounding);
}

TEST_CASE("dense Jacobian: of values without elements, and of rows without elements") {
  Graph none({0, 4, 6});
  CHECK(jacobian(none.attention(none.x), none.x).shape() == Shape{0, 0});
  Graph empty_rows({2, 4, 0});
  CHECK(jacobian(gelu(empty_rows.x), empty_rows.x).shape() == Shape{0, 0});
  Graph g;
  const Var empty = linear(g.x, g.tape.constant(zeros({0, 6}, DType::float64)));
  CHECK(jacobian(empty, g.x).shape() == Shape{0, 48});
}

TEST_CASE("dense Jacobian: bit for bit the same with any number of threads") {
  Graph g({2, 9, 6});
  const Var y = g.x + linear(gelu(linear(g.attention(layer_norm(g.x)), g.weight(40, 6, 4))), g.weight(6, 40, 5));
  const auto with_threads = [&](int threads) {
    const WithThreads with(threads);
    return jacobian(y, g.x).values();
  };
  const std::vector<double> alone = with_threads(1);
  CHECK(with_threads(2) == alone);
  CHECK(with_threads(5) == alone);
}

TEST_CASE(
    "dense Jacobian: a changed value is an error before anything is computed, and one in a thread comes through") {
  Graph g;
  const Var y = square(g.x);
  g.x.value().write_in_place<double>();
  CHECK_THROWS_WITH_AS(jacobian(y, g.x), Contains("jacobian: square saved x at version 0"), Error);
}

TEST_CASE("dense Jacobian: leaves gradients, and the tape's next sweep, as they were") {
  Graph g;
  const Var y = sum(square(g.x));
  const std::vector<double> before = g.tape.gradients(y, {&g.x, 1}).front().values();
  jacobian(g.attention(g.x), g.x);
  CHECK_THROWS_AS(g.x.gradient(), Error);
  CHECK(g.tape.gradients(y, {&g.x, 1}).front().values() == before);
}
