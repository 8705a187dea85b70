#include <cmath>
#include <limits>

#include "autograd/norm_check.hpp"

using namespace jnorm;
using namespace jnorm::test;

TEST_CASE("scale_norm: a gain of sqrt(H) leaves 64 ones as they are") {
  Tape tape;
  const Var y = scale_norm(tape.variable(ones({1, 64})), tape.variable(full({}, 8.0)), 0.0);
  for (const double element : y.value().values()) CHECK(element == doctest::Approx(1.0).epsilon(1e-7));
}

TEST_CASE("scale_norm: gradients of a row with eps [SN.2] [SN.3]") {
  Tape tape;
  const Var xs[] = {tape.variable(tensor({{3, 4}}, DType::float64)), tape.variable(full({}, 2.0, DType::float64))};
  const Var y = scale_norm(xs[0], xs[1], 11.0);
  const std::vector<Tensor> gradients = tape.gradients(y, xs, tensor({{1, 0}}, DType::float64));
  CHECK(y.value() == close({1, 4.0 / 3.0}, 1e-15));
  CHECK(gradients[0] == close({1.0 / 4.0, -1.0 / 9.0}, 1e-15));
  CHECK(gradients[1] == close({0.5}, 1e-15));
}

TEST_CASE("scale_norm: a gain that two of them share gets the sum of both gradients") {
  Tape tape;
  const Var x = tape.variable(tensor({{3, 4}}, DType::float64));
  const Var g = tape.variable(full({}, 2.0, DType::float64));
  tape.backward(sum(scale_norm(x, g, 0.0) + scale_norm(-x, g, 11.0)));
  CHECK(g.gradient() == close({7.0 / 5.0 - 7.0 / 6.0}, 1e-15));
}

TEST_CASE("scale_norm: with g = sqrt(H) it is rms_norm with an eps H times larger") {
  Tape tape;
  const Var x = tape.variable(random({3, 7}, 1));
  const Tensor scaled = scale_norm(x, tape.variable(full({}, std::sqrt(7.0), DType::float64)), 0.7).value();
  const Tensor rms = rms_norm(x, {}, 0.1).value();
  for (std::size_t i = 0; i < 21; ++i) CHECK(scaled.values()[i] == doctest::Approx(rms.values()[i]).epsilon(1e-14));
}

TEST_CASE("scale_norm: a zero row is 0 and has no gradient, with eps 0 too, to second order") {
  for (const double eps : {0.0, kNormEps}) {
    Tape tape;
    const Var x = tape.variable(tensor({{0, 0, 0}, {3, 0, 4}}, DType::float64));
    const Var y = scale_norm(x, tape.variable(full({}, 5.0, DType::float64)), eps);
    const Tensor dy = tensor({{1, 2, 3}, {0, 1, 0}}, DType::float64);
    const Var dx = tape.recorded_gradients(y, {&x, 1}, tape.constant(dy))[0];
    const Tensor second = tape.gradients(dx, {&x, 1}, ones({2, 3}, DType::float64))[0];
    CHECK(y.value().at({0, 1}) == 0.0);
    CHECK(std::isfinite(second.at({0, 0})));
    CHECK(std::isfinite(second.at({1, 0})));
    if (eps > 0.0) continue;
    CHECK(y.value() == close({0, 0, 0, 3, 0, 4}, 1e-15));
    CHECK(dx.value() == close({0, 0, 0, 0, 1, 0}, 1e-15));
    CHECK(tape.gradients(y, {&x, 1}, dy)[0] == close({0, 0, 0, 0, 1, 0}, 1e-15));
    CHECK(second.at({0, 0}) == 0.0);
  }
}

TEST_CASE("scale_norm: rows whose squares leave float32 are normalized") {
  Tape tape;
  CHECK(scale_norm(tape.variable(tensor({{1e25, 1e25, 1e25, 1e25}}))).value() == close({0.5, 0.5, 0.5, 0.5}));
  CHECK(scale_norm(tape.variable(tensor({{1e-25, 1e-25, 1e-25, -1e-25}})), {}, 0.0).value() ==
        close({0.5, 0.5, 0.5, -0.5}));
  const Var x = tape.variable(tensor({{3e25, 4e25}}));
  const Tensor dx = tape.gradients(scale_norm(x), {&x, 1}, tensor({{1, 0}}))[0];
  CHECK(affine(dx, 1e25, 0.0) == close({16.0 / 125.0, -12.0 / 125.0}));
}

TEST_CASE("scale_norm: NaN is not hidden") {
  Tape tape;
  const Tensor y = scale_norm(tape.variable(tensor({{1, std::nan("")}, {3, 4}})), {}, 0.0).value();
  CHECK(std::isnan(y.at({0, 0})));
  CHECK(y.at({1, 1}) == doctest::Approx(0.8));
}

TEST_CASE("scale_norm: a tensor of rank 3 is its rows") {
  Tape tape;
  const Tensor value = random({2, 3, 4}, 1), dy = random({2, 3, 4}, 2);
  const Var x = tape.variable(value), flat = tape.variable(value.reshape({6, 4}));
  const Var y = scale_norm(x), flat_y = scale_norm(flat);
  CHECK(y.value().values() == flat_y.value().values());
  CHECK(tape.gradients(y, {&x, 1}, dy)[0].values() ==
        tape.gradients(flat_y, {&flat, 1}, dy.reshape({6, 4}))[0].values());
}

TEST_CASE("scale_norm: the cotangent is not written") {
  check_cotangent_untouched([](const Var& x) { return scale_norm(x); }, {3, 5});
}

TEST_CASE("scale_norm: bad arguments are refused") {
  Tape tape;
  const Var x = tape.variable(ones({2, 4}));
  CHECK_THROWS_WITH_AS(scale_norm(x, {}, -1.0), doctest::Contains("scale_norm: eps must not be negative, but is -1"),
                       Error);
  CHECK_THROWS_AS(scale_norm(x, {}, std::numeric_limits<double>::quiet_NaN()), Error);
  CHECK_THROWS_WITH_AS(scale_norm(x, tape.variable(ones({4}))),
                       doctest::Contains("scale_norm: g must be one number, [] or [1], got [4]"), Error);
  CHECK_THROWS_AS(scale_norm(tape.variable(ones({}))), Error);
}
