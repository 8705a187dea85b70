#include <doctest/doctest.h>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/core/random.hpp>
#include <jnorm/layers/feed_forward.hpp>
#include <jnorm/layers/norm.hpp>
#include <jnorm/layers/residual.hpp>

using namespace jnorm;

namespace {

// A sublayer whose parts can be called by themselves.
struct Parts {
  explicit Parts(const Placement& placement) {
    auto branch_part = std::make_unique<FeedForward>(FeedForwardConfig{.dim = 8, .ffn = 16}, Rng(1));
    branch = branch_part.get();
    sublayer = std::make_unique<ResidualSublayer>(placement.rule({}), NormConfig{.dim = 8}, std::move(branch_part));
    Rng rng(2);
    x = tape.variable(randn({3, 8}, rng));
  }

  Var n(const Var& input) { return layer_norm(input); }  // gamma and beta are 1 and 0 at the start
  Var f(const Var& input) { return (*branch)(input); }

  Tape tape;
  Var x;
  Layer* branch;
  std::unique_ptr<ResidualSublayer> sublayer;
};

}  // namespace

TEST_CASE("residual: pre is x + F(N(x))") {
  Parts parts(Placement::pre);
  const Var y = (*parts.sublayer)(parts.x);
  CHECK(y.value().values() == (parts.x + parts.f(parts.n(parts.x))).value().values());
}

TEST_CASE("residual: post is N(x + F(x))") {
  Parts parts(Placement::post);
  const Var y = (*parts.sublayer)(parts.x);
  CHECK(y.value().values() == parts.n(parts.x + parts.f(parts.x)).value().values());
}

TEST_CASE("residual: in pre the branch takes what the norm gives, in post what the sublayer takes") {
  Parts pre(Placement::pre);
  (*pre.sublayer)(pre.x);
  CHECK(pre.tape.input("norm").index() == pre.x.index());
  CHECK(pre.tape.input("branch").index() == pre.tape.output("norm").index());
  Parts post(Placement::post);
  const Var y = (*post.sublayer)(post.x);
  CHECK(post.tape.input("branch").index() == post.x.index());
  CHECK(post.tape.output("norm").index() == y.index());
}
