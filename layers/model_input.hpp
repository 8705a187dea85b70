#pragma once

#include <jnorm/core/tensor.hpp>

namespace jnorm {

// What a model reads: sequences of one length, and what their positions are. All tensors are of int32.
struct ModelInput {
  Tensor tokens;            // [B, T]
  Tensor mask = {};         // [B, T]: 1 where a position counts, 0 where it fills up a short sequence; undefined: all 1
  Tensor source = {};       // [B, S]: what an encoder reads; undefined for models without one
  Tensor source_mask = {};  // [B, S]: the same of the source
};

}  // namespace jnorm
