#pragma once

#include <string>

#include <jnorm/core/shape.hpp>

namespace jnorm {

// What a tape holds, in bytes. Storage that several values share counts once; parameters' values belong to the
// parameters and don't count.
struct TapeMemory {
  Index nodes = 0;       // how many
  Index node_bytes = 0;  // of the nodes themselves, kept over reset()
  Index value_bytes = 0;
  Index saved_bytes = 0;     // what derivatives need beside the values
  Index gradient_bytes = 0;  // of variables and retained nodes
  Index peak_bytes = 0;      // the most of values, saved tensors and gradients in backward() since reset()

  Index total() const { return node_bytes + value_bytes + saved_bytes + gradient_bytes; }
};
std::string to_string(const TapeMemory& memory);  // one line

}  // namespace jnorm
