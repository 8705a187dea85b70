// Fits y = sin(2 x) with one hidden layer: a model, a tape, an optimizer, and the loop that joins them.

#include <jnorm/jnorm.hpp>

using namespace jnorm;

// A module owns its layers under names; the names are the paths of its parameters: "hidden.weight".
class Curve : public Module {
 public:
  explicit Curve(const Rng& rng)
      : hidden_(add_random<Linear>("hidden", rng, Index{1}, Index{32})),
        output_(add_random<Linear>("output", rng, Index{32}, Index{1})) {}

  Var operator()(const Var& x) { return output_(tanh(hidden_(x))); }  // [R, 1] -> [R, 32] -> [R, 1]

 private:
  Linear& hidden_;
  Linear& output_;
};

int main() {
  const Rng rng(1);
  Rng points = rng.split("points");
  const Tensor x = rand_uniform({128, 1}, points, -2.0, 2.0);
  const Tensor target = from_xtensor<float>(xt::sin(2.0F * as_xtensor<float>(x)));

  Curve model(rng.split("model"));
  AdamW optimizer(model.parameters(), {.learning_rate = 1e-2});
  Tape tape;
  double last = 0.0;
  for (int step = 0; step <= 1000; ++step) {
    tape.reset();  // forgets the recorded values and keeps their memory
    const Var loss = mean(square(model(tape.constant(x)) - target));
    tape.backward(loss);  // adds to the parameters' gradients
    optimizer.step();     // consumes them
    last = loss.item();
    if (step % 250 == 0) print("step", step, "loss", last);
  }
  return last < 1e-3 ? 0 : 3;
}
