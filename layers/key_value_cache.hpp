#pragma once

#include <map>

#include <jnorm/core/tensor.hpp>

namespace jnorm {

class Layer;

// What the attention of a decoder computed of the tokens before: their keys and values, so that a token more costs one
// position's arithmetic and a look at the earlier keys, not a pass over all positions. Handed through a Pass; only
// values are kept, so it is used under NoRecord and in evaluation mode.
//
// All sequences of a batch have one length. A position's rows stand together, [T, B key_heads D], so that the first T
// positions are one piece of memory: attention reads them where they lie. Room that runs out is doubled.
class KeyValueCache {
 public:
  struct Entry {
    Tensor keys;
    Tensor values;
  };

  // `reserved`: positions to make room for at once.
  explicit KeyValueCache(Index reserved = 0) : reserved_(reserved) {}

  // How many tokens of a sequence all layers have seen: the position of the next one.
  Index length() const { return length_; }
  // Forgets the tokens from this position on; the room stays. Throws Error(argument) unless 0 <= length <= length().
  void truncate(Index length);
  void clear() { length_ = 0; }
  Index bytes() const;  // of the room, used or not

  // Writes what a layer computed of the next positions, each [1, T, W], behind those of the earlier ones, and returns
  // the keys and values of all, [1, length + T, W]. The length grows only once `advance` says that all layers have
  // theirs, so that a pass that failed halfway leaves no trace. Throws Error(argument) on another width or dtype than
  // before.
  Entry append(const Layer& layer, const Tensor& keys, const Tensor& values);
  void advance(Index positions) { length_ += positions; }

  // What a layer computed of an encoder's output, and the mask of its positions: they stay the same for all tokens.
  void keep_memory(const Layer& layer, const Tensor& keys, const Tensor& values) { memory_[&layer] = {keys, values}; }
  const Entry& memory(const Layer& layer) const;  // throws Error(state) if there is none
  void keep_memory_mask(const Tensor& mask) { memory_mask_ = mask; }
  const Tensor& memory_mask() const { return memory_mask_; }

 private:
  void append(Tensor& room, const Tensor& rows) const;

  Index reserved_;
  Index length_ = 0;
  std::map<const Layer*, Entry> room_;  // [room, W]
  std::map<const Layer*, Entry> memory_;
  Tensor memory_mask_;
};

}  // namespace jnorm
