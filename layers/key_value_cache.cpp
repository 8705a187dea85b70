#include <jnorm/layers/key_value_cache.hpp>

#include <algorithm>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/kernels.hpp>

namespace jnorm {

namespace {

Index bytes_of(const Tensor& tensor) { return tensor.defined() ? tensor.bytes() : 0; }

// The first rows of [room, W] as [1, length, W]; shares storage.
Tensor first_rows(const Tensor& room, Index length) {
  return room.first_rows(length).reshape({1, length, room.dim(1)});
}

// [1, T, W] to the rows from `row` on.
void copy_rows(const Tensor& from, const Tensor& to, Index row) {
  from.device().kernels().copy_block(from, {.count = 1, .length = from.size(), .to = row * to.dim(1)}, to);
}

[[noreturn]] void fail_other_kind(const Tensor& room, const Tensor& rows) {
  fail(ErrorKind::argument,
       "cache: it holds {} of width {}, but the next tokens give {} of width {}; it serves one model and one number of "
       "sequences, so clear it before others",
       room.dtype(), room.defined() ? room.dim(1) : 0, rows.dtype(), rows.dim(2));
}

}  // namespace

Index KeyValueCache::bytes() const {
  Index sum = 0;
  for (const auto& entries : {room_, memory_}) {
    for (const auto& [layer, entry] : entries) sum += bytes_of(entry.keys) + bytes_of(entry.values);
  }
  return sum;
}

void KeyValueCache::truncate(Index length) {
  expect(length >= 0 && length <= length_, "cache: it has seen {} tokens, so it can't be cut to {}", length_, length);
  length_ = length;
}

KeyValueCache::Entry KeyValueCache::append(const Layer& layer, const Tensor& keys, const Tensor& values) {
  Entry& room = room_[&layer];
  append(room.keys, keys);
  append(room.values, values);
  const Index length = length_ + keys.dim(1);
  return {first_rows(room.keys, length), first_rows(room.values, length)};
}

void KeyValueCache::append(Tensor& room, const Tensor& rows) const {
  const Index length = length_ + rows.dim(1), width = rows.dim(2);
  const bool same_kind = room.defined() && room.dim(1) == width && room.dtype() == rows.dtype();
  if (length_ > 0 && !same_kind) fail_other_kind(room, rows);
  if (!same_kind || room.dim(0) < length) {
    const Index doubled = same_kind ? 2 * room.dim(0) : 0;
    Tensor larger = Tensor::uninitialized({std::max({length, reserved_, doubled}), width}, rows.dtype(), rows.device());
    if (length_ > 0) copy_rows(first_rows(room, length_), larger, 0);
    room = std::move(larger);
  }
  copy_rows(rows, room, length_);
}

const KeyValueCache::Entry& KeyValueCache::memory(const Layer& layer) const {
  const auto found = memory_.find(&layer);
  if (found == memory_.end()) {
    fail(ErrorKind::state, "cache: it holds nothing of a source; give the source with the first tokens");
  }
  return found->second;
}

}  // namespace jnorm
