#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <jnorm/autograd/parameter.hpp>
#include <jnorm/autograd/var.hpp>
#include <jnorm/core/random.hpp>
#include <jnorm/core/source_line.hpp>
#include <jnorm/layers/pass.hpp>
#include <jnorm/layers/state.hpp>

namespace jnorm {

// A tensor that belongs to a model's state and isn't trained, such as BatchNorm's running statistics.
struct Buffer {
  std::string name;
  std::string path;  // from the outermost module
  Tensor value;
};

// What a model is made of: parameters, buffers and child modules, each under a name. Names joined by dots are a path:
// "blocks.3.attention.branch.query.weight". A module adds them in its constructor, and owns them.
class Module {
 public:
  virtual ~Module() = default;
  Module(const Module&) = delete;  // optimizers and tapes know a parameter by its address
  Module& operator=(const Module&) = delete;

  const std::string& name() const { return name_; }  // what its parent calls it, "query"; empty for the outermost
  const std::vector<std::unique_ptr<Module>>& children() const { return children_; }

  // All parameters, the children's too, in the order in which they were added.
  const std::vector<Parameter*>& parameters() const { return parameters_; }
  std::vector<std::pair<std::string, Parameter*>> named_parameters() const;  // by the path from this module
  Index parameter_count() const;                                             // how many numbers they hold
  const std::vector<Buffer*>& buffers() const { return buffers_; }           // the children's too

  // Copies, on the CPU, of all parameters and then all buffers by path; what is trained later doesn't change them.
  NamedTensors state() const;
  // Copies the values in, in any order, converted to the dtypes and the device here. Strict: throws one Error(argument)
  // that lists all names that are missing, unexpected or of another shape, and changes nothing then.
  void load_state(const NamedTensors& state);

  // Whether layers that differ between training and evaluation do as in training. At first they do.
  bool training() const { return training_; }
  void set_training(bool training);

  // Starts the random numbers that layers draw in training, such as dropout's, anew: each layer's follow from `rng` and
  // its path. A trainer does so for every step, so that a resumed run draws what it would have drawn.
  virtual void start_random(const Rng& rng);

  // Converts the parameters, as from float32 to float64 for measurements, and drops their gradients. Buffers are at
  // least float32.
  virtual void to(DType dtype);
  // Moves parameters and buffers to a device, and drops gradients. What is given to the model and what it gives is on
  // that device then.
  virtual void to(Device device);
  Device device() const;  // where the parameters are; the CPU if there are none

 protected:
  Module() = default;

  // All throw Error(argument) on an empty name, one with a dot, or one that is taken, and Error(state) once the module
  // is itself part of another.
  Parameter& add_parameter(std::string name, Tensor value);
  Buffer& add_buffer(std::string name, Tensor value);
  template <class Child>
  Child& add(const std::string& name, std::unique_ptr<Child> child) {
    Child& result = *child;
    adopt(name, std::move(child));
    return result;
  }
  // Adds a Child(arguments..., stream) whose random stream is split off by its name: how a parameter starts follows
  // from the seed and its path alone, so models that differ elsewhere start with the same weights.
  template <class Child, class... Arguments>
  Child& add_random(const std::string& name, const Rng& rng, const Arguments&... arguments) {
    Rng stream = rng.split(name);
    return add(name, std::make_unique<Child>(arguments..., stream));
  }

 private:
  void adopt(const std::string& name, std::unique_ptr<Module> child);
  void expect_addable(const std::string& name) const;
  void prepend_to_paths(std::string_view parent);

  std::string name_;
  std::string path_;  // from the outermost module
  std::vector<std::unique_ptr<Parameter>> own_parameters_;
  std::vector<std::unique_ptr<Buffer>> own_buffers_;
  std::vector<std::unique_ptr<Module>> children_;
  std::vector<Parameter*> parameters_;
  std::vector<Buffer*> buffers_;
  bool training_ = true;
};

// A module that maps one value to another. Calling it runs forward in a scope of its name on x's tape and reports the
// call, so that tape.input(path) and tape.output(path) find it.
class Layer : public Module {
 public:
  // `line` is where the call stands; the layer's operations are recorded with it.
  Var operator()(const Var& x, const Pass& pass, SourceLine line = SourceLine::here());
  Var operator()(const Var& x, SourceLine line = SourceLine::here()) { return (*this)(x, Pass{}, line); }

 protected:
  virtual Var forward(const Var& x, const Pass& pass, SourceLine line) = 0;
};

// A parameter beside x: recorded on x's tape, in x's dtype. Where activations are narrower than the weights, this is
// the place at which the weights are rounded; their gradients come back in the weights' dtype.
Var parameter_for(const Var& x, Parameter& parameter, SourceLine line);

// Layers one after the other, named "0", "1", ...
class Sequence : public Layer {
 public:
  void append(std::unique_ptr<Layer> layer);
  Index size() const { return static_cast<Index>(layers_.size()); }
  Layer& operator[](Index index) const;  // throws Error(argument) if it is out of range

 protected:
  Var forward(const Var& x, const Pass& pass, SourceLine line) override;

 private:
  std::vector<Layer*> layers_;
};

}  // namespace jnorm
