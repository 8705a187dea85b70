#pragma once

#include <jnorm/core/shape.hpp>

namespace jnorm {

// Which residual sublayer of a model: what a placement or an initialization may depend on.
struct SublayerPlace {
  enum class Branch { attention, cross_attention, feed_forward };
  enum class Side { alone, encoder, decoder };  // alone: the model has one stack, of encoders or of decoders

  Index layer = 1;   // the block's number in its stack, from 1
  Index layers = 1;  // of its stack
  Branch branch = Branch::attention;
  Side side = Side::alone;
  Index encoder_layers = 0;  // of a model with both, N
  Index decoder_layers = 0;  // and M

  bool is_last_of_block() const { return branch == Branch::feed_forward; }
};

}  // namespace jnorm
