#include <jnorm/layers/evaluation_mode.hpp>

#include <doctest/doctest.h>

#include <jnorm/core/error.hpp>

using namespace jnorm;

namespace {

struct Nested : Module {
  Nested() : inner(add("inner", std::make_unique<Sequence>())) {}
  Sequence& inner;
};

}  // namespace

TEST_CASE("evaluation mode: after it, an exception too, each module is as it was") {
  Nested model;
  model.inner.set_training(false);
  try {
    const EvaluationMode evaluation(model);
    CHECK_FALSE(model.training());
    throw Error(ErrorKind::state, "on the way");
  } catch (const Error&) {
  }
  CHECK(model.training());
  CHECK_FALSE(model.inner.training());
}
