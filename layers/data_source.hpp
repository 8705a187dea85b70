#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <jnorm/core/random.hpp>
#include <jnorm/core/tensor.hpp>
#include <jnorm/layers/model_input.hpp>

namespace jnorm {

// What a model reads, and the token that it has to say at each position: kIgnoreIndex where the loss shall not look.
struct Batch : ModelInput {
  Tensor targets;  // [B, T] of int32
};

// Where batches come from. The generator belongs to the source alone, so what it draws depends on the seed and on how
// many batches were drawn, and on nothing that a model, an initialization or an evaluation does.
class DataSource {
 public:
  virtual ~DataSource() = default;

  virtual Index vocabulary() const = 0;  // tokens lie in [0, vocabulary)
  virtual Index context() const = 0;     // T
  virtual bool has_validation() const { return true; }
  // What the sequences are drawn from, for a checkpoint that must not be resumed with other data. No path.
  virtual std::string description() const = 0;
  virtual std::string warning() const { return ""; }  // one line for the user, or nothing

  // The next `size` sequences for training. Throws Error(argument) unless size > 0.
  Batch next(Index size);
  // Batch `number` of the held-out sequences, the same ones whenever it is asked for. Throws Error(argument) unless
  // size > 0 and number >= 0, and Error(state) if there is no validation part.
  Batch validation(Index size, Index number) const;

  Rng::State state() const { return rng_.state(); }
  void set_state(const Rng::State& state) { rng_ = Rng::from_state(state); }

 protected:
  enum class Part { training, validation };

  explicit DataSource(const Rng& rng) : rng_(rng) {}
  DataSource(const DataSource&) = default;
  DataSource& operator=(const DataSource&) = default;

  // Fills one sequence of T tokens and its T targets.
  virtual void draw(Part part, Rng& rng, std::span<std::int32_t> tokens, std::span<std::int32_t> targets) const = 0;

 private:
  Batch draw_batch(Part part, Rng& rng, Index size) const;

  Rng rng_;
};

}  // namespace jnorm
