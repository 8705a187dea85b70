// An operation of one's own, written as xtensor expressions, and its derivative checked: the right one, then one with a
// term dropped.

#include <jnorm/jnorm.hpp>

using namespace jnorm;

int main() {
  // swish(x) = x sigmoid(x).
  const auto forward = [](auto& x, auto& y) { y = x / (1 + xt::exp(-x)); };

  const Custom swish = custom("swish", forward, [](auto& x, auto& y, auto& dy, auto& dx) {
    dx = dy * (y + (1 - y) / (1 + xt::exp(-x)));  // y' = y + (1 - y) sigmoid(x)
  });
  const Custom careless = custom("careless swish", forward, [](auto& x, auto&, auto& dy, auto& dx) {
    dx = dy / (1 + xt::exp(-x));  // forgets that sigmoid(x) depends on x as well
  });

  Rng rng(1);
  const Tensor points = randn({3, 4}, rng);
  const GradientReport right = check_gradients(swish, {points});
  const GradientReport wrong = check_gradients(careless, {points});
  print("swish");
  print(right);
  print("\ncareless swish");
  print(wrong);

  // It is recorded like any other operation.
  Tape tape;
  const Var x = tape.variable(tensor({-1, 0, 1}), "x");
  tape.backward(sum(swish(x)));
  print("\nd sum(swish(x)) / dx at -1, 0, 1:", x.gradient());
  return right.passed() && !wrong.passed() ? 0 : 3;
}
