#pragma once

#include <jnorm/autograd/var.hpp>
#include <jnorm/core/tensor.hpp>

namespace jnorm {

class KeyValueCache;

// What the layers of one forward pass share beside the value that goes through them.
struct Pass {
  Tensor mask = {};          // [B, T] of int32: 1 where a position of x counts, 0 where it is padding; undefined: all 1
  Var memory = {};           // [B, S, dim]: an encoder's output, which cross-attention reads
  Tensor memory_mask = {};   // [B, S]: the mask of the encoder's positions
  Index first_position = 0;  // of x's first token in its sequence
  // Of the tokens before x's, which attention sees and adds x's to; nullptr: x is all that there is. The memory may
  // be undefined where the cache holds what cross-attention needs of it.
  KeyValueCache* cache = nullptr;
  Var block_input = {};  // what entered the block that a sublayer belongs to
};

}  // namespace jnorm
