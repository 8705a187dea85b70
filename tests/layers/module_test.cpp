#include <doctest/doctest.h>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/core/error.hpp>
#include <jnorm/layers/module.hpp>

#include "support/close.hpp"

using namespace jnorm;

namespace {

// y = scale x.
class Scale : public Layer {
 public:
  explicit Scale(double scale) : scale_(add_parameter("scale", tensor({scale}))) {}
  Parameter& scale() { return scale_; }

 protected:
  Var forward(const Var& x, const Pass& /*pass*/, SourceLine line) override {
    return multiply(x, x.tape().parameter(scale_, line), line);
  }

 private:
  Parameter& scale_;
};

class Pair : public Module {
 public:
  Pair() : first(add("first", std::make_unique<Scale>(2.0))), shift(add_parameter("shift", zeros({2, 3}))) {
    auto chain = std::make_unique<Sequence>();
    chain->append(std::make_unique<Scale>(3.0));
    chain->append(std::make_unique<Scale>(5.0));
    rest = &add("rest", std::move(chain));
  }

  Scale& first;
  Parameter& shift;
  Sequence* rest;
};

// Lets a test add to a module from outside.
class Open : public Module {
 public:
  using Module::add;
  using Module::add_parameter;
};

std::vector<std::string> names_of(const Module& module) {
  std::vector<std::string> names;
  for (const auto& [name, parameter] : module.named_parameters()) names.push_back(name);
  return names;
}

}  // namespace

TEST_CASE("module: parameters are named by dotted paths, in the order in which they were added") {
  CHECK(names_of(Pair()) == std::vector<std::string>{"first.scale", "shift", "rest.0.scale", "rest.1.scale"});
}

TEST_CASE("module: a child names its parameters from itself, and a parameter knows its whole path") {
  const Pair pair;
  CHECK(names_of(*pair.rest) == std::vector<std::string>{"0.scale", "1.scale"});
  CHECK(pair.rest->parameters()[1]->path() == "rest.1.scale");
}

TEST_CASE("module: the count of parameters is of numbers, not of tensors") { CHECK(Pair().parameter_count() == 9); }

TEST_CASE("module: a name that is empty, dotted or taken is refused") {
  Open module;
  module.add_parameter("weight", zeros({1}));
  CHECK_THROWS_WITH_AS(module.add_parameter("", zeros({1})), doctest::Contains("got ''"), Error);
  CHECK_THROWS_WITH_AS(module.add_parameter("a.b", zeros({1})), doctest::Contains("no dot, got 'a.b'"), Error);
  CHECK_THROWS_WITH_AS(module.add("weight", std::make_unique<Pair>()), doctest::Contains("'weight' is taken"), Error);
}

TEST_CASE("module: a part that comes after the module became a child is refused, since the parent wouldn't know it") {
  Open parent;
  Open& child = parent.add("child", std::make_unique<Open>());
  CHECK_THROWS_WITH_AS(child.add_parameter("late", zeros({1})), doctest::Contains("module child: 'late' was added"),
                       Error);
}

TEST_CASE("module: a parameter has storage of its own") {
  const Tensor given = tensor({1, 2});
  Open module;
  CHECK_FALSE(module.add_parameter("weight", given).value().shares_storage_with(given));
}

TEST_CASE("module: a state that doesn't fit lists everything that differs, and changes nothing") {
  Pair pair;
  const NamedTensors state{{"first.scale", tensor({7})}, {"shift", zeros({3, 2})}, {"bias", zeros({1})}};
  CHECK_THROWS_WITH_AS(pair.load_state(state),
                       "load_state: the names or shapes differ; 2 missing: rest.0.scale, rest.1.scale; "
                       "1 unexpected: bias; 1 of another shape: shift (expected float32 [2, 3], got float32 [3, 2])",
                       Error);
  CHECK(pair.first.scale().value().item() == 2.0);
}

TEST_CASE("module: a state may stand in any order and in another dtype") {
  Pair pair;
  pair.load_state({{"rest.1.scale", tensor({1})},
                   {"rest.0.scale", tensor({8}, DType::float64)},
                   {"shift", ones({2, 3})},
                   {"first.scale", tensor({9})}});
  CHECK(pair.first.scale().value().item() == 9.0);
  CHECK(pair.rest->parameters()[0]->value().item() == 8.0);
  CHECK(pair.rest->parameters()[0]->value().dtype() == DType::float32);
}

TEST_CASE("module: state and model don't share storage, in either direction") {
  Pair pair;
  const NamedTensors state = pair.state();
  CHECK_FALSE(state[0].second.shares_storage_with(pair.first.scale().value()));
  pair.load_state(state);
  CHECK_FALSE(state[0].second.shares_storage_with(pair.first.scale().value()));
}

TEST_CASE("module: conversion changes the dtype of all parameters and drops their gradients") {
  Pair pair;
  pair.first.scale().add_gradient(ones({1}));
  pair.to(DType::float64);
  CHECK(pair.rest->parameters()[1]->value().dtype() == DType::float64);
  CHECK(pair.first.scale().value().item() == 2.0);
  CHECK_FALSE(pair.first.scale().has_gradient());
}

TEST_CASE("module: training mode reaches all children") {
  Pair pair;
  CHECK((*pair.rest)[1].training());
  pair.set_training(false);
  CHECK_FALSE((*pair.rest)[1].training());
}

TEST_CASE("layer: a child's call is found on the tape by its path") {
  Pair pair;
  Tape tape;
  const Var x = tape.variable(tensor({1, 10}));
  const Var y = (*pair.rest)(x);
  CHECK(y.value() == close({15, 150}));
  CHECK(tape.input("rest.1").index() == tape.output("rest.0").index());
  CHECK(tape.output("rest").index() == y.index());
}

TEST_CASE("layer: what it records bears the caller's line") {
  Scale scale(2.0);
  Tape tape;
  const Var y = scale(tape.variable(tensor({1})), {"train.cpp", 17});
  CHECK(tape.node(y.index()).line.line == 17);
}

TEST_CASE("sequence: a layer out of range is refused with the number of layers") {
  const Pair pair;
  CHECK_THROWS_WITH_AS((*pair.rest)[2], doctest::Contains("it has 2 layers, so there is no layer 2"), Error);
}
