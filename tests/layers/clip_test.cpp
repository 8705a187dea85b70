#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include <jnorm/core/error.hpp>
#include <jnorm/layers/clip.hpp>

#include "support/close.hpp"

using namespace jnorm;

namespace {

// Parameters with these gradients.
struct Gradients {
  explicit Gradients(const std::vector<Tensor>& gradients) {
    for (const Tensor& gradient : gradients) {
      owned.push_back(std::make_unique<Parameter>("p", zeros(gradient.shape(), gradient.dtype())));
      owned.back()->add_gradient(gradient);
      list.push_back(owned.back().get());
    }
  }
  const Tensor& operator[](std::size_t i) const { return list[i]->gradient(); }

  std::vector<std::unique_ptr<Parameter>> owned;
  std::vector<Parameter*> list;
};

}  // namespace

TEST_CASE("clip: one factor brings the norm of all gradients together to max_norm") {
  const Gradients gradients({tensor({3, 0}), tensor({4})});
  CHECK(clip_gradient_norm(gradients.list, 1.0) == 5.0);
  CHECK(gradients[0] == close({0.6, 0}));
  CHECK(gradients[1] == close({0.8}));
}

TEST_CASE("clip: gradients within max_norm keep their bits") {
  const Gradients gradients({tensor({0.1, 0.2})});
  CHECK(clip_gradient_norm(gradients.list, 1.0) == doctest::Approx(0.2236068));
  CHECK(gradients[0].values() == tensor({0.1, 0.2}).values());
}

// Clipped after each of them, they would leave 5 - 2 = 3.
TEST_CASE("clip: micro-batches' gradients of 6 and -2 add up to 4, which a max_norm of 5 leaves") {
  const Gradients gradients({tensor({6})});
  gradients.list[0]->add_gradient(tensor({-2}));
  CHECK(clip_gradient_norm(gradients.list, 5.0) == 4.0);
  CHECK(gradients[0].item() == 4.0);
}

TEST_CASE("clip: a norm whose square overflows float32 is right") {
  const Gradients gradients(std::vector<Tensor>(100, tensor({1e20})));
  CHECK(clip_gradient_norm(gradients.list, 1.0) == doctest::Approx(1e21));
  CHECK(gradients[0] == close({0.1}));
  CHECK(gradients[99] == close({0.1}));
}

TEST_CASE("clip: a norm whose square overflows float64 is right") {
  const Gradients gradients(std::vector<Tensor>(100, tensor({1e200}, DType::float64)));
  CHECK(clip_gradient_norm(gradients.list, 1.0) == doctest::Approx(1e201));
  CHECK(gradients[99] == close({0.1}));
}

TEST_CASE("clip: a norm that isn't finite is reported, and the gradients stay") {
  const double infinity = std::numeric_limits<double>::infinity();
  const Gradients gradients({tensor({infinity}), tensor({7})});
  CHECK(clip_gradient_norm(gradients.list, 1.0) == infinity);
  CHECK(gradients[1].item() == 7.0);
  const Gradients undefined({tensor({std::numeric_limits<double>::quiet_NaN()}), tensor({7})});
  CHECK(std::isnan(clip_gradient_norm(undefined.list, 1.0)));
  CHECK(undefined[1].item() == 7.0);
}

TEST_CASE("clip: empty gradients are skipped, and the norm over nothing is 0") {
  CHECK(clip_gradient_norm(std::vector<Parameter*>(), 1.0) == 0.0);
  const Gradients gradients({zeros({0}), tensor({2})});
  CHECK(clip_gradient_norm(gradients.list, 1.0) == 2.0);
  CHECK(gradients[1].item() == 1.0);
}

TEST_CASE("clip: a parameter without a gradient doesn't count") {
  Parameter p("p", zeros({1}));
  Parameter* const list[] = {&p};
  CHECK(clip_gradient_norm(list, 1.0) == 0.0);
  CHECK_FALSE(p.has_gradient());
}

TEST_CASE("clip: gradients that share their storage are scaled once") {
  const Tensor shared = tensor({3});
  const Gradients gradients({shared, shared});
  clip_gradient_norm(gradients.list, 1.0);
  CHECK(gradients[0] == close({0.7071068}));
  CHECK(gradients[1] == close({0.7071068}));
  CHECK(shared.item() == 3.0);
}

TEST_CASE("clip: a max_norm that isn't positive is refused") {
  CHECK_THROWS_WITH_AS(clip_gradient_norm(std::vector<Parameter*>(), 0.0),
                       "clip_gradient_norm: max_norm must be positive, but is 0", Error);
  CHECK_THROWS_AS(clip_gradient_norm(std::vector<Parameter*>(), std::numeric_limits<double>::quiet_NaN()), Error);
}

TEST_CASE("clip: by value, each element is moved into the range for itself") {
  const Gradients gradients({tensor({3, -0.5}), tensor({-4})});
  clip_gradient_value(gradients.list, 1.0);
  CHECK(gradients[0] == close({1, -0.5}, 0.0));
  CHECK(gradients[1] == close({-1}, 0.0));
}

TEST_CASE("clip: by value, infinity becomes the bound and NaN stays NaN") {
  const double infinity = std::numeric_limits<double>::infinity();
  const Gradients gradients({tensor({infinity, std::numeric_limits<double>::quiet_NaN()})});
  clip_gradient_value(gradients.list, 2.0);
  CHECK(gradients[0].at({0}) == 2.0);
  CHECK(std::isnan(gradients[0].at({1})));
}

TEST_CASE("clip: by value, empty and missing gradients are skipped") {
  Parameter missing("p", zeros({1}));
  const Gradients gradients({zeros({0})});
  Parameter* const list[] = {&missing, gradients.list[0]};
  clip_gradient_value(list, 1.0);
  CHECK_FALSE(missing.has_gradient());
  CHECK_THROWS_WITH_AS(clip_gradient_value(list, 0.0), "clip_gradient_value: max_value must be positive, but is 0",
                       Error);
}
