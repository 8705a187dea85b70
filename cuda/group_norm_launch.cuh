#pragma once

// What the launchers of GroupNorm's kernels share.

#include <initializer_list>

#include <jnorm/cuda/group_norm_kernels.cuh>
#include <jnorm/cuda/launch.cuh>

namespace jnorm::cuda {

inline Index group_length(const ChannelLayout& layout) { return layout.channels / layout.groups * layout.inner; }

// int holds the length of a group that fits.
template <class T>
GroupNorm<T> group_norm_of(const ChannelLayout& layout, const Tensor& x, const Tensor& gamma) {
  return {.count = Divisor(layout.statistics()),
          .groups = Divisor(layout.groups),
          .inner = Divisor(layout.inner),
          .length = static_cast<int>(group_length(layout)),
          .channels = static_cast<int>(layout.channels / layout.groups),
          .share = 1.0 / static_cast<double>(group_length(layout)),
          .x = input<T>(x),
          .gamma = input<T>(gamma)};
}

// Calls f with the size of the packs that groups are read in: those of rows if they fit, and lie in two channels at
// most, or else 1.
template <class T, class F>
void with_group_pack(const GroupNorm<T>& norm, std::initializer_list<const T*> others, const F& f) {
  constexpr int pack = kRowPack<T>;
  bool fit = packs_fit<pack>(norm.x, norm.length) && (norm.inner.value() == 1 || norm.inner.value() >= pack);
  if (norm.inner.value() == 1) fit = fit && packs_fit<pack>(norm.gamma, norm.length);
  for (const T* other : others) fit = fit && packs_fit<pack>(other, norm.length);
  with_row_pack<T>(fit, f);
}

}  // namespace jnorm::cuda
