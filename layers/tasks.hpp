#pragma once

// Built-in tasks: sequences that are made up, whose answer a model can be held to.
//
// copy, reverse and sort have n symbols 0 .. symbols - 1, and a separator, the token `symbols`:
//
//   copy     3 1 2 | 3 1 2      reverse   3 1 2 | 2 1 3      sort     3 1 2 | 1 2 3
//
// A sequence has 2n + 1 tokens. A decoder sees the first 2n and has to say the next token at each; the loss looks at
// the answer alone (the targets of the separator and of what follows it). An untrained model's loss is about ln(symbols
// + 1), that of one that knows only which tokens are symbols ln(symbols). What other models read of it:
// layers/objective.hpp. With a smallest length, n differs from sequence to sequence.
//
// modular_addition has a, b in [0, modulus) and the token `modulus` for "=":
//
//   modular_addition   a b = (a + b mod modulus)
//
// A decoder sees the first 3 tokens; the loss looks at the last one's target. A fraction of the modulus^2 pairs is held
// out for validation and never seen in training; which ones depends on the generator's seed.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <jnorm/layers/data_source.hpp>

namespace jnorm {

struct TaskOptions {
  Index length = 6;                  // n, or the largest n; of copy, reverse and sort
  Index min_length = 0;              // of those three: n is drawn from [min_length, length]; 0: it is `length`
  Index symbols = 12;                // of copy, reverse and sort
  Index modulus = 97;                // of modular_addition
  double validation_fraction = 0.1;  // of modular_addition's pairs
  ObjectiveOptions objective = {};
};

const std::vector<std::string>& task_names();
void expect_task(std::string_view name);  // throws Error(argument) on an unknown one, with the nearest right name

// The task sets the vocabulary and the context. Throws Error(argument) on an unknown name, on sizes that aren't
// positive or too large, and on a smallest length outside [0, length].
std::unique_ptr<DataSource> make_task(std::string_view name, const TaskOptions& options, const Rng& rng);

}  // namespace jnorm
