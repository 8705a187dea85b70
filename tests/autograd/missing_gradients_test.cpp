// Why a parameter has no gradient, or none but zeros.

#include <limits>

#include <doctest/doctest.h>

#include <jnorm/autograd/missing_gradients.hpp>
#include <jnorm/autograd/ops.hpp>
#include <jnorm/core/random.hpp>

using namespace jnorm;

namespace {

// Parameters of four numbers that are not special.
class MissingGradients {
 public:
  MissingGradients() {
    Rng rng(1);
    for (const char* name : {"a", "b"}) {
      parameters_.push_back(std::make_unique<Parameter>(name, randn({4}, rng, DType::float64)));
    }
  }
  Parameter& operator[](std::size_t i) { return *parameters_[i]; }

  std::vector<MissingGradient> after(const Var& loss) {
    std::vector<Parameter*> all;
    for (const auto& parameter : parameters_) all.push_back(parameter.get());
    return missing_gradients(loss, all);
  }

 private:
  std::vector<std::unique_ptr<Parameter>> parameters_;
};

}  // namespace

TEST_CASE("missing gradients: none where all is well") {
  MissingGradients given;
  Tape tape;
  const Var loss = sum(tape.parameter(given[0]) * tape.parameter(given[1]));
  tape.backward(loss);
  CHECK(given.after(loss).empty());
}

TEST_CASE("missing gradients: what the tape never saw, and what the loss doesn't depend on") {
  MissingGradients given;
  Tape tape;
  tape.parameter(given[0]);
  const Var loss = sum(square(tape.variable(ones({4}, DType::float64))));
  tape.backward(loss);
  const auto missing = given.after(loss);
  REQUIRE(missing.size() == 2);
  CHECK(missing[0].reason == NoGradient::unused);
  CHECK(missing[0].sentence == "a has no gradient: the loss doesn't depend on it");
  CHECK(missing[1].reason == NoGradient::not_recorded);
}

TEST_CASE("missing gradients: frozen") {
  MissingGradients given;
  given[1].set_trainable(false);
  Tape tape;
  const Var loss = sum(tape.parameter(given[0]) * tape.parameter(given[1]));
  tape.backward(loss);
  const auto missing = given.after(loss);
  REQUIRE(missing.size() == 1);
  CHECK(missing[0].parameter == "b");
  CHECK(missing[0].reason == NoGradient::frozen);
}

TEST_CASE("missing gradients: detached names what cuts it off") {
  MissingGradients given;
  Tape tape;
  const Var cut = detach(square(tape.parameter(given[0])), {"model.cpp", 7});
  Var uncounted;
  {
    const NoRecord scope(tape);
    uncounted = exp(tape.parameter(given[1]), {"model.cpp", 9});
  }
  const Var loss = sum(cut * uncounted * tape.variable(ones({4}, DType::float64)));
  tape.backward(loss);
  const auto missing = given.after(loss);
  REQUIRE(missing.size() == 2);
  CHECK(missing[0].reason == NoGradient::detached);
  CHECK(missing[0].sentence == "a has no gradient: detach (at model.cpp:7) cuts it off from the loss");
  CHECK(missing[1].sentence ==
        "b has no gradient: exp (at model.cpp:9) cuts it off from the loss, computed in a NoRecord scope");
}

TEST_CASE("missing gradients: before backward") {
  MissingGradients given;
  Tape tape;
  const Var loss = sum(tape.parameter(given[0]) * tape.parameter(given[1]));
  const auto missing = given.after(loss);
  REQUIRE(missing.size() == 2);
  CHECK(missing[0].reason == NoGradient::not_computed);
}

TEST_CASE("missing gradients: a number added before a LayerNorm is taken out by it") {
  Parameter weight("weight", tensor({2.0, -1.0, 0.5, 1.0}, DType::float64));
  Parameter shift("shift", tensor({0.25}, DType::float64));
  Tape tape;
  const Var normalized = layer_norm(tape.parameter(weight) + tape.parameter(shift), {}, {}, 1e-5, {"model.cpp", 5});
  const Var loss = sum(normalized * tensor({1.0, 2.0, -3.0, 0.5}, DType::float64));
  tape.backward(loss);
  Parameter* const both[] = {&weight, &shift};
  const auto missing = missing_gradients(loss, both);
  REQUIRE(missing.size() == 1);
  CHECK(missing[0].reason == NoGradient::zero_by_norm);
  CHECK(
      missing[0].sentence ==
      "shift has the gradient 0: it reaches the loss only through layer_norm (at model.cpp:5), which takes out what it "
      "adds");
}

TEST_CASE("missing gradients: zero that no norm explains") {
  MissingGradients given;
  Tape tape;
  const Var dead = relu(affine(square(tape.parameter(given[0])), -1.0, 0.0));
  const Var loss = sum(dead) + sum(square(tape.parameter(given[1])));
  tape.backward(loss);
  const auto missing = given.after(loss);
  REQUIRE(missing.size() == 1);
  CHECK(missing[0].reason == NoGradient::zero);
}

TEST_CASE("missing gradients: one vector added to all keys is taken out by attention's softmax") {
  Rng rng(1);
  Tape tape;
  Parameter bias("key.bias", randn({4}, rng, DType::float64));
  const auto drawn = [&] { return tape.variable(randn({1, 3, 4}, rng, DType::float64)); };
  const Var attended = causal_attention(drawn(), drawn() + tape.parameter(bias), drawn(), 2, {"model.cpp", 5});
  Parameter weight("weight", randn({1, 3, 4}, rng, DType::float64));
  const Var loss = sum(attended * tape.parameter(weight));
  tape.backward(loss);
  Parameter* const both[] = {&bias, &weight};
  const auto missing = missing_gradients(loss, both);
  REQUIRE(missing.size() == 1);
  CHECK(missing[0].reason == NoGradient::zero_by_norm);
  CHECK(missing[0].sentence.find("key.bias has the gradient 0: it reaches the loss only through causal_attention") ==
        0);
}

TEST_CASE("missing gradients: a NaN and an infinity aren't zero, and nothing is zero beside them") {
  MissingGradients given;
  Tape tape;
  const Var loss = sum(tape.parameter(given[0]) * tape.parameter(given[1]));
  for (const double value : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    given[0].clear_gradient();
    given[0].add_gradient(tensor({value, value, value, value}, DType::float64));
    given[1].clear_gradient();
    given[1].add_gradient(ones({4}, DType::float64));
    CHECK(given.after(loss).empty());
  }
}

TEST_CASE("missing gradients: a small gradient of a narrow dtype isn't zero") {
  Parameter weight("weight", tensor({2.0, -1.0}, DType::bfloat16)), small("small", tensor({1.0, 3.0}, DType::bfloat16));
  Tape tape;
  const Var loss = sum(tape.parameter(weight)) + sum(tape.parameter(small) * 0.01);
  tape.backward(loss);
  Parameter* const both[] = {&weight, &small};
  CHECK(missing_gradients(loss, both).empty());
}
