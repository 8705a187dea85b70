#pragma once

#include <span>
#include <vector>

#include <jnorm/autograd/parameter.hpp>
#include <jnorm/layers/state.hpp>

namespace jnorm {

// Changes parameters in place, from their gradients. Constructors and set_learning_rate throw Error(argument) on
// options that are negative, NaN or infinite.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // One step of every parameter that has a gradient; it consumes the gradients, so that the next backward starts anew.
  // A parameter without a gradient stays as it is, and so do its moments and its count of steps.
  void step();

  double learning_rate() const { return learning_rate_; }
  void set_learning_rate(double learning_rate);

  // Copies of all that later steps depend on beside the parameters and the options, by "<parameter's path>.<what>".
  NamedTensors state() const;
  // Strict, as Module::load_state. Going on from a loaded state gives the same bits as never having stopped.
  void load_state(const NamedTensors& state);

 protected:
  // What is remembered of one parameter. Moments have its shape and dtype.
  struct Slot {
    Parameter* parameter;
    Tensor first_moment;   // or undefined
    Tensor second_moment;  // or undefined
    Index steps = 0;
  };

  // A parameter that stands twice, as a shared one may, is stepped once. Throws Error(argument) on a null pointer.
  Optimizer(std::span<Parameter* const> parameters, double learning_rate, int moments);

  virtual void update(Slot& slot) = 0;  // slot.steps counts this step already

 private:
  static void expect_same_dtype(const Slot& slot);

  std::vector<Slot> slots_;
  double learning_rate_;
};

struct SgdOptions {
  double learning_rate = 1e-2;
  double momentum = 0.0;      // velocity = momentum velocity + g; p -= learning_rate velocity
  double weight_decay = 0.0;  // g gains weight_decay p
};

class Sgd : public Optimizer {
 public:
  explicit Sgd(std::span<Parameter* const> parameters, const SgdOptions& options = {});

 private:
  void update(Slot& slot) override;
  SgdOptions options_;
};

struct AdamOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9;    // in [0, 1)
  double beta2 = 0.999;  // in [0, 1)
  double eps = 1e-8;     // added to the root of the corrected second moment; positive
  double weight_decay = 0.0;
};

// Adam (Kingma and Ba 2015), in step t of a parameter:
//   m = beta1 m + (1 - beta1) g    v = beta2 v + (1 - beta2) g^2
//   p -= learning_rate m_hat / (sqrt(v_hat) + eps),  m_hat = m / (1 - beta1^t),  v_hat = v / (1 - beta2^t)
// Here weight_decay is the L2 penalty's: g gains weight_decay p.
class Adam : public Optimizer {
 public:
  explicit Adam(std::span<Parameter* const> parameters, const AdamOptions& options = {});

 protected:
  struct WeightDecay {
    bool decoupled = false;
    bool vectors = true;
  };
  Adam(const char* name, std::span<Parameter* const> parameters, const AdamOptions& options, WeightDecay decay);

 private:
  void update(Slot& slot) override;
  AdamOptions options_;
  WeightDecay decay_;
};

struct AdamWOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 1e-2;
  bool decay_vectors = false;  // whether gains and biases, of one axis, decay too
};

// AdamW (Loshchilov and Hutter 2019): Adam where the decay is decoupled from the moments,
// p -= learning_rate weight_decay p.
class AdamW : public Adam {
 public:
  explicit AdamW(std::span<Parameter* const> parameters, const AdamWOptions& options = {});
};

}  // namespace jnorm
