#include <doctest/doctest.h>

#include <jnorm/core/xtensor.hpp>

using namespace jnorm;

namespace {

// Whether as_xtensor takes an argument of this type.
template <class Argument>
concept Viewable = requires(Argument&& argument) {
  as_xtensor<double>(std::forward<Argument>(argument));
};

}  // namespace

TEST_CASE("as_xtensor: a temporary is refused by the compiler, since the view would outlive it") {
  CHECK(Viewable<const Tensor&>);
  CHECK(Viewable<Tensor&>);
  CHECK_FALSE(Viewable<Tensor>);
  CHECK_FALSE(Viewable<const Tensor>);
}

TEST_CASE("as_xtensor: the elements in the tensor's shape, without a copy") {
  const Tensor x = tensor({{1, 2, 3}, {4, 5, 6}}, DType::float64);
  const auto view = as_xtensor<double>(x);
  CHECK(view.dimension() == 2);
  CHECK(view(1, 0) == 4.0);
  CHECK(&view(0, 0) == x.data<double>());
}

TEST_CASE("as_xtensor: another element type is refused") {
  const Tensor x = tensor({1, 2});
  CHECK_THROWS_AS(as_xtensor<double>(x), Error);
}

TEST_CASE("mutate: writes to this tensor alone, and its version counts up") {
  Tensor x = tensor({1, 2}, DType::float64);
  const Tensor copy = x;
  mutate<double>(x) *= 3.0;
  CHECK(x.values() == std::vector<double>{3, 6});
  CHECK(copy.values() == std::vector<double>{1, 2});
  const std::uint32_t version = x.version();
  mutate<double>(x) += 1.0;
  CHECK(x.version() == version + 1);
}

TEST_CASE("from_xtensor: holds values, not an expression that refers to its operands") {
  xt::xarray<double> operand{1.0, 2.0};
  const Tensor squares = from_xtensor<double>(operand * operand);
  operand.fill(9.0);
  CHECK(squares.values() == std::vector<double>{1, 4});
}
