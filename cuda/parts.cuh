#pragma once

// Several tensors in one launch: a model has many parameters, most of them small, and a launch costs some microseconds
// however little it does.

#include <span>

#include <jnorm/cuda/config.hpp>
#include <jnorm/cuda/portable.cuh>

namespace jnorm::cuda {

// What a launch takes: parts, with what belongs to each, that are cut into chunks of kChunk elements. It is the
// argument of a kernel, and those have 4096 bytes in all.
template <class Own>
struct Parts {
  static constexpr int kMost = 4000 / static_cast<int>(sizeof(Own) + 2 * sizeof(Index));
  int count = 0;
  Own own[kMost];
  Index length[kMost];       // in elements
  Index first_chunk[kMost];  // of the part, among those of the launch
};

// The chunk of this block: the elements from `begin` to `end` of a part.
struct Chunk {
  int part = 0;
  Index begin, end;

  template <class Own>
  JNORM_DEVICE explicit Chunk(const Parts<Own>& parts) {
    int beyond = parts.count;  // the part is the last one that begins at this chunk or before
    while (beyond - part > 1) {
      const int middle = (part + beyond) / 2;
      (parts.first_chunk[middle] <= block_x() ? part : beyond) = middle;
    }
    begin = (block_x() - parts.first_chunk[part]) * kChunk;
    end = begin + kChunk < parts.length[part] ? begin + kChunk : parts.length[part];
  }
};

// Calls launch(parts, chunks) for all items, as often as their number needs. own_of(item) is what belongs to one.
template <class Own, class Item, class OwnOf, class LengthOf, class Launch>
void launch_parts(std::span<const Item> items, const OwnOf& own_of, const LengthOf& length_of, const Launch& launch) {
  static_assert(sizeof(Parts<Own>) <= 4064, "no room for a kernel's other arguments");
  Parts<Own> parts;
  Index chunks = 0;
  const auto flush = [&] {
    if (chunks > 0) launch(parts, chunks);
    parts.count = 0;
    chunks = 0;
  };
  for (const Item& item : items) {
    const Index length = length_of(item);
    if (length == 0) continue;
    if (parts.count == Parts<Own>::kMost) flush();
    parts.own[parts.count] = own_of(item);
    parts.length[parts.count] = length;
    parts.first_chunk[parts.count++] = chunks;
    chunks += ceil_divide(length, kChunk);
  }
  flush();
}

// Calls f(items) for those that follow one another with one dtype, as dtype_of(item) has it.
template <class Item, class DTypeOf, class F>
void for_each_dtype(std::span<const Item> items, const DTypeOf& dtype_of, const F& f) {
  for (std::size_t begin = 0, end = 0; begin < items.size(); begin = end) {
    while (end < items.size() && dtype_of(items[end]) == dtype_of(items[begin])) ++end;
    f(items.subspan(begin, end - begin));
  }
}

}  // namespace jnorm::cuda
