// Every placement's sublayer against its formula, written out by hand. The branch is what it is; only the way in which
// it joins the stream differs. Norms have gamma and beta of their own, so that none stands in for another.

#include <doctest/doctest.h>

#include <cmath>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/core/error.hpp>
#include <jnorm/core/matrix_measures.hpp>
#include <jnorm/core/operations.hpp>
#include <jnorm/core/random.hpp>
#include <jnorm/layers/feed_forward.hpp>
#include <jnorm/layers/norm.hpp>
#include <jnorm/layers/residual.hpp>

#include "support/close.hpp"

using namespace jnorm;

namespace {

constexpr Index kDim = 8;

// The fourth of nine layers.
constexpr SublayerPlace kAttention{.layer = 4, .layers = 9, .branch = SublayerPlace::Branch::attention};
constexpr SublayerPlace kFeedForward{.layer = 4, .layers = 9, .branch = SublayerPlace::Branch::feed_forward};

Tensor random_rows(std::uint64_t seed, Index width = kDim) {
  Rng rng(seed);
  return randn({3, width}, rng, DType::float64);
}

// A sublayer whose parts can be called by themselves.
struct Parts {
  explicit Parts(const ResidualRule& rule, Index width = kDim) {
    auto branch_part = std::make_unique<FeedForward>(FeedForwardConfig{.dim = kDim, .ffn = 16}, Rng(1));
    branch = branch_part.get();
    sublayer = std::make_unique<ResidualSublayer>(rule, NormConfig{.dim = kDim}, std::move(branch_part));
    sublayer->to(DType::float64);
    Rng rng(3);
    for (const auto& [name, parameter] : sublayer->named_parameters()) {
      if (name.find("norm.") == std::string::npos) continue;
      parameter->set_value(add(parameter->value(), randn(parameter->shape(), rng, DType::float64)));
    }
    x = tape.variable(random_rows(2, width));
  }
  explicit Parts(const Placement& placement, const SublayerPlace& place = kFeedForward, Index width = kDim)
      : Parts(placement.rule(place), width) {}

  Parameter& parameter(const std::string& name) {
    for (const auto& [candidate, found] : sublayer->named_parameters()) {
      if (candidate == name) return *found;
    }
    FAIL("no parameter " << name);
    return *sublayer->parameters()[0];
  }
  Var normalized(const std::string& norm, const Var& input) {
    return layer_norm(input, tape.parameter(parameter(norm + ".gamma")), tape.parameter(parameter(norm + ".beta")));
  }
  Var n(const Var& input) { return normalized("norm", input); }  // the first norm on the way
  Var n2(const Var& input) { return normalized("output_norm", input); }
  Var f(const Var& input) { return (*branch)(input); }
  Var y(const Pass& pass = {}) { return (*sublayer)(x, pass); }

  Tape tape;
  Var x;
  Layer* branch;
  std::unique_ptr<ResidualSublayer> sublayer;
};

bool same(const Var& a, const Var& b) { return relative_distance(a.value(), b.value()) < 1e-15; }

// A branch that gives the same whatever it gets.
class Given : public Layer {
 public:
  explicit Given(Tensor value) : value_(std::move(value)) {}

 protected:
  Var forward(const Var& x, const Pass& /*pass*/, SourceLine /*line*/) override { return x.tape().constant(value_); }

 private:
  Tensor value_;
};

}  // namespace

TEST_CASE("residual: pre is x + F(N(x))") {
  Parts p(Placement::pre);
  CHECK(same(p.y(), p.x + p.f(p.n(p.x))));
}

TEST_CASE("residual: post is N(x + F(x))") {
  Parts p(Placement::post);
  CHECK(same(p.y(), p.n(p.x + p.f(p.x))));
}

TEST_CASE("residual: sandwich is x + N'(F(N(x)))") {
  Parts p(Placement::sandwich);
  CHECK(same(p.y(), p.x + p.n2(p.f(p.n(p.x)))));
}

TEST_CASE("residual: reordered is x + N(F(x))") {
  Parts p(Placement::reordered);
  CHECK(same(p.y(), p.x + p.n(p.f(p.x))));
}

TEST_CASE("residual: deepnorm is N(alpha x + F(x)) with alpha = (2 L)^(1/4)") {
  Parts p(Placement::deepnorm);
  CHECK(same(p.y(), p.n(std::pow(18.0, 0.25) * p.x + p.f(p.x))));
}

TEST_CASE("residual: alpha multiplies the stream and not the branch, and the sum is normalized") {
  ResidualSublayer sublayer({.norm_sum = true, .skip_scale = 2.0}, {.dim = 2},
                            std::make_unique<Given>(tensor({3, -1})));
  Tape tape;
  CHECK(sublayer(tape.variable(tensor({1, 2}))).value() == close({0.999995, -0.999995}));  // of [5, 3]
}

TEST_CASE("residual: lns divides what the branch sees by the root of the layer's number") {
  Parts p(Placement::lns);
  CHECK(same(p.y(), p.x + p.f(0.5 * p.n(p.x))));
}

TEST_CASE("residual: b2t adds the block's input to the last sum") {
  Parts p(Placement::b2t);
  const Var bottom = p.tape.constant(random_rows(5));
  CHECK(same(p.y({.block_input = bottom}), p.n(p.x + p.f(p.x) + bottom)));
}

TEST_CASE("residual: b2t's attention is a Post-Norm sublayer, whatever entered the block") {
  Parts p(Placement::b2t, kAttention);
  CHECK(same(p.y({.block_input = p.tape.constant(random_rows(5))}), p.n(p.x + p.f(p.x))));
}

TEST_CASE("residual: residual keeps a normalized stream and one that only sums what the branches add") {
  Parts p(Placement::residual, kFeedForward, 2 * kDim);
  const Var first = slice(p.x, -1, {.stop = kDim}), second = slice(p.x, -1, {.start = kDim});
  CHECK(same(p.y(), concat({p.n(first + p.f(first)), second + p.f(first)}, -1)));
}

TEST_CASE("residual: mix is post in the first quarter of the layers, rounded down, and pre after it") {
  Parts post(Placement::mix, {.layer = 2, .layers = 9});
  CHECK(same(post.y(), post.n(post.x + post.f(post.x))));
  Parts pre(Placement::mix, {.layer = 3, .layers = 9});
  CHECK(same(pre.y(), pre.x + pre.f(pre.n(pre.x))));
}

TEST_CASE("residual: hybrid's attention has no norm but those of its heads") {
  Parts p(Placement::hybrid, kAttention);
  CHECK(Placement::hybrid.rule(kAttention).norm_heads);
  CHECK(same(p.y(), p.x + p.f(p.x)));
}

TEST_CASE("residual: hybrid's feed-forward sublayer is N(x) + F(N(x))") {
  Parts p(Placement::hybrid);
  CHECK_FALSE(Placement::hybrid.rule(kFeedForward).norm_heads);
  CHECK(same(p.y(), p.n(p.x) + p.f(p.n(p.x))));
}

TEST_CASE("residual: keel is N'(L x + F(N(x)))") {
  Parts p(Placement::keel);
  CHECK(same(p.y(), p.n2(9.0 * p.x + p.f(p.n(p.x)))));
}

TEST_CASE("residual: rezero starts as the identity, with one number lambda = 0 and no norm") {
  Parts p(Placement::rezero);
  CHECK(p.parameter("lambda").value() == close({0.0}, 0.0));
  CHECK(p.y().value().values() == p.x.value().values());
  CHECK(p.sublayer->children().size() == 1);
}

TEST_CASE("residual: rezero is x + lambda F(x)") {
  Parts p(Placement::rezero);
  p.parameter("lambda").set_value(tensor({-0.3}, DType::float64));
  CHECK(same(p.y(), p.x - 0.3 * p.f(p.x)));
}

TEST_CASE("residual: layerscale is x + diag(lambda) F(N(x))") {
  Parts p(Placement::layerscale);
  const Tensor lambda = tensor({1, 2, 3, 4, 5, 6, 7, 8}, DType::float64);
  p.parameter("lambda").set_value(lambda);
  CHECK(same(p.y(), p.x + p.tape.constant(lambda) * p.f(p.n(p.x))));
}

TEST_CASE("residual: layerscale's lambda starts at 0.1 up to 18 layers, at 1e-5 up to 24, and at 1e-6 beyond") {
  const auto start = [](Index layers) {
    return Parts(Placement::layerscale, {.layer = 1, .layers = layers}).parameter("lambda").value();
  };
  CHECK(start(18).values() == std::vector<double>(kDim, full({1}, 0.1).to(DType::float64).item()));
  CHECK(start(19).at({7}) == doctest::Approx(1e-5));
  CHECK(start(24).at({7}) == doctest::Approx(1e-5));
  CHECK(start(25).at({7}) == doctest::Approx(1e-6));
}

TEST_CASE("residual: branch_scaled is x + F(N(x))") {
  Parts p(Placement::branch_scaled);
  CHECK(same(p.y(), p.x + p.f(p.n(p.x))));
}

TEST_CASE("residual: none is x + F(x)") {
  Parts p(Placement::none);
  CHECK(same(p.y(), p.x + p.f(p.x)));
}

TEST_CASE("residual: in pre the branch takes what the norm gives, in post what the sublayer takes") {
  Parts pre(Placement::pre);
  pre.y();
  CHECK(pre.tape.input("norm").index() == pre.x.index());
  CHECK(pre.tape.input("branch").index() == pre.tape.output("norm").index());
  Parts post(Placement::post);
  const Var y = post.y();
  CHECK(post.tape.input("branch").index() == post.x.index());
  CHECK(post.tape.output("norm").index() == y.index());
}

TEST_CASE("residual: dropout is of what the branch adds, and of nothing else") {
  ResidualSublayer sublayer({.norm_input = true}, {.dim = 2}, std::make_unique<Given>(tensor({3, -1})), 1.0);
  Tape tape;
  CHECK(sublayer(tape.variable(tensor({1, 2}))).value() == close({1, 2}, 0.0));
}

TEST_CASE("residual: rules that contradict themselves are refused") {
  const auto make = [](const ResidualRule& rule) {
    return ResidualSublayer(rule, {.dim = 2}, std::make_unique<Given>(tensor({3, -1})));
  };
  CHECK_THROWS_WITH_AS(make({.norm_branch = true, .norm_sum = true}),
                       "residual: a norm of the branch and one of the sum exclude each other", Error);
  CHECK_THROWS_WITH_AS(make({.norm_skip = true}), "residual: norm_skip needs norm_input", Error);
}
