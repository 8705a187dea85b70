#pragma once

#include <string>
#include <string_view>

#include <jnorm/core/random.hpp>
#include <jnorm/core/tensor.hpp>
#include <jnorm/layers/model_input.hpp>
#include <jnorm/layers/objective.hpp>

namespace jnorm {

// What a model reads, and the token that it has to say at each position: kIgnoreIndex where the loss shall not look.
struct Batch : ModelInput {
  Tensor targets;  // [B, T] of int32
};

// How long sequences are: `most`, or somewhere from `least` on, every length equally likely.
struct Lengths {
  Index least = 0;
  Index most = 0;

  // A least length of 0 stands for the most. Throws Error(argument) with `what` unless 0 < least <= most.
  static Lengths from(std::string_view what, Index least, Index most);

  bool vary() const { return least < most; }
  Index draw(Rng& rng) const { return vary() ? least + rng.below(most - least + 1) : most; }
  std::string in_words() const;  // "6", or "2 to 6"
};

// Where batches come from: examples, which the objective turns into what a model reads and says. The generator belongs
// to the source alone, so what it draws depends on the seed and on how many batches were drawn, and on nothing that a
// model, an initialization or an evaluation does.
class DataSource {
 public:
  virtual ~DataSource() = default;

  // Tokens lie in [0, vocabulary): the data's own ones, and after them the special ones.
  Index vocabulary() const { return own_vocabulary() + special_tokens().count(); }
  virtual Index own_vocabulary() const = 0;
  SpecialTokens special_tokens() const;
  Index context() const;  // the most positions that a sequence or a source has
  Objective objective() const { return options_.objective; }

  virtual bool has_validation() const { return true; }
  // What the sequences are drawn from, for a checkpoint that must not be resumed with other data. No path.
  virtual std::string description() const = 0;
  virtual std::string warning() const { return ""; }  // one line for the user, or nothing

  // The next `size` sequences for training. Where lengths vary, all are filled up with padding to the longest that the
  // data can have, and the batch has masks; else it has none. Throws Error(argument) unless size > 0.
  Batch next(Index size);
  // Batch `number` of the held-out sequences, the same ones whenever it is asked for. Throws Error(argument) unless
  // size > 0 and number >= 0, and Error(state) if there is no validation part.
  Batch validation(Index size, Index number) const;

  Rng::State state() const { return rng_.state(); }
  void set_state(const Rng::State& state) { rng_ = Rng::from_state(state); }

 protected:
  enum class Part { training, validation };

  // Throws Error(argument) unless the mask fraction lies in (0, 1].
  explicit DataSource(const Rng& rng, const ObjectiveOptions& options = {});
  DataSource(const DataSource&) = default;
  DataSource& operator=(const DataSource&) = default;

  virtual Example draw(Part part, Rng& rng) const = 0;
  virtual ExampleSize longest() const = 0;             // of all examples
  virtual bool lengths_vary() const { return false; }  // unless all examples are as long

 private:
  Batch draw_batch(Part part, Rng& rng, Index size) const;

  Rng rng_;
  ObjectiveOptions options_;
};

// Throws Error(argument), with both numbers, if a model's vocabulary is smaller than the data need.
void expect_vocabulary(Index model_vocabulary, const DataSource& data);

}  // namespace jnorm
