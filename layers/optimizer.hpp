#pragma once

#include <span>
#include <vector>

#include <jnorm/autograd/parameter.hpp>
#include <jnorm/layers/parameter_groups.hpp>
#include <jnorm/layers/state.hpp>

namespace jnorm {

struct AdamStep;

// Changes parameters in place, from their gradients. Constructors and set_learning_rate throw Error(argument) on
// options that are negative, NaN or infinite, and on a group's pattern that no parameter fits.
//
// Groups of parameters may have a learning rate and a weight decay of their own. Where a parameter fits several
// patterns, a later group's values replace an earlier one's.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // One step of every parameter that has a gradient; it consumes the gradients, so that the next backward starts anew.
  // A parameter without a gradient stays as it is, and so do its moments and its count of steps.
  void step();
  // Consumes the gradients too, and changes nothing else.
  void skip_step();

  double learning_rate() const { return learning_rate_; }
  void set_learning_rate(double learning_rate);

  // Copies of all that later steps depend on beside the parameters and the options, by "<parameter's path>.<what>".
  NamedTensors state() const;
  // Strict, as Module::load_state. Going on from a loaded state gives the same bits as never having stopped.
  void load_state(const NamedTensors& state);

 protected:
  // What is remembered of one parameter. Moments have its shape and dtype, but are at least float32.
  struct Slot {
    Parameter* parameter;
    double learning_rate_scale = 1.0;
    std::optional<double> weight_decay = std::nullopt;  // in place of the options'
    Tensor first_moment;                                // or undefined
    Tensor second_moment;                               // or undefined
    Index steps = 0;
  };

  // A parameter that stands twice, as a shared one may, is stepped once. Throws Error(argument) on a null pointer.
  Optimizer(std::span<Parameter* const> parameters, std::span<const ParameterGroup> groups, double learning_rate,
            int moments);

  double learning_rate_of(const Slot& slot) const { return learning_rate_ * slot.learning_rate_scale; }

  // Steps all of these parameters, which have gradients. Their slots' steps count this one already.
  virtual void update(std::span<Slot* const> slots) = 0;

 private:
  void apply(const ParameterGroup& group, std::span<Parameter* const> parameters);
  static void expect_same_dtype(const Slot& slot);

  std::vector<Slot> slots_;
  double learning_rate_;
};

struct SgdOptions {
  double learning_rate = 1e-2;
  double momentum = 0.0;      // velocity = momentum velocity + g; p -= learning_rate velocity
  double weight_decay = 0.0;  // g gains weight_decay p
  std::vector<ParameterGroup> groups = {};
};

class Sgd : public Optimizer {
 public:
  explicit Sgd(std::span<Parameter* const> parameters, const SgdOptions& options = {});

 private:
  void update(std::span<Slot* const> slots) override;
  SgdOptions options_;
};

struct AdamOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9;    // in [0, 1)
  double beta2 = 0.999;  // in [0, 1)
  double eps = 1e-8;     // added to the root of the corrected second moment; positive
  double weight_decay = 0.0;
  std::vector<ParameterGroup> groups = {};
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
  AdamStep step_of(const Slot& slot) const;
  void update(std::span<Slot* const> slots) override;
  AdamOptions options_;
  WeightDecay decay_;
};

struct AdamWOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 1e-2;
  bool decay_vectors = false;  // whether gains and biases, of one axis, decay too; a group's weight_decay is obeyed
  std::vector<ParameterGroup> groups = {};
};

// AdamW (Loshchilov and Hutter 2019): Adam where the decay is decoupled from the moments,
// p -= learning_rate weight_decay p.
class AdamW : public Adam {
 public:
  explicit AdamW(std::span<Parameter* const> parameters, const AdamWOptions& options = {});
};

}  // namespace jnorm
