#pragma once

// Kernels that move elements, described by a walk over both tensors.

#include <jnorm/cuda/config.hpp>
#include <jnorm/cuda/divide.cuh>
#include <jnorm/cuda/pack.cuh>
#include <jnorm/cuda/walk.hpp>

namespace jnorm::cuda {

// A walk as device code takes it.
struct DeviceWalk {
  Divisor size[Shape::kMaxRank];
  Index from_step[Shape::kMaxRank], to_step[Shape::kMaxRank];
  int rank;
  Index from, to, count;

  explicit DeviceWalk(const Walk& walk) : rank(walk.rank), from(walk.from), to(walk.to), count(walk.count) {
    for (int axis = 0; axis < Shape::kMaxRank; ++axis) {
      const bool exists = axis < rank && walk[axis].size > 0;
      size[axis] = Divisor(exists ? walk[axis].size : 1);
      from_step[axis] = walk[axis].from;
      to_step[axis] = walk[axis].to;
    }
  }
};

struct Offsets {
  Index from, to;
};

// Where element i of the walk lies in either tensor.
JNORM_DEVICE Offsets offsets_of(const DeviceWalk& walk, Index i) {
  Offsets at{walk.from, walk.to};
  JNORM_UNROLL
  for (int axis = 0; axis < Shape::kMaxRank; ++axis) {
    if (axis >= walk.rank) break;
    const Index rest = axis + 1 < walk.rank ? walk.size[axis].quotient(i) : 0;
    const Index position = i - rest * walk.size[axis].value();
    at.from += position * walk.from_step[axis];
    at.to += position * walk.to_step[axis];
    i = rest;
  }
  return at;
}

constexpr int kCopiesInFlight = 4;  // loads of a thread before its first store

// y[to] = x[from] along the walk, in units that are copied as they are.
template <class Unit>
JNORM_KERNEL(kElementwiseThreads)
copy_kernel(DeviceWalk walk, const Unit* x, Unit* y) {
  const Index threads = grid_x() * block_size();
  for (Index first = block_x() * block_size() + thread_index(); first < walk.count;
       first += kCopiesInFlight * threads) {
    Unit units[kCopiesInFlight];
    Index places[kCopiesInFlight];
    JNORM_UNROLL
    for (int k = 0; k < kCopiesInFlight; ++k) {
      const Index i = first + k * threads;
      if (i >= walk.count) continue;
      const Offsets at = offsets_of(walk, i);
      units[k] = load_aligned<Unit>(x + at.from);
      places[k] = at.to;
    }
    JNORM_UNROLL
    for (int k = 0; k < kCopiesInFlight; ++k) {
      if (first + k * threads < walk.count) store_aligned<Unit>(y + places[k], units[k]);
    }
  }
}

template <class T>
JNORM_DEVICE T sum_of(T a, T b) {
  if constexpr (std::is_same_v<T, std::int32_t>) {
    return a + b;
  } else {
    return narrow<T>(widen(a) + widen(b));
  }
}

// y[to] += x[from].
template <class T>
JNORM_KERNEL(kElementwiseThreads)
add_kernel(DeviceWalk walk, const T* x, T* y) {
  const Index threads = grid_x() * block_size();
  for (Index i = block_x() * block_size() + thread_index(); i < walk.count; i += threads) {
    const Offsets at = offsets_of(walk, i);
    y[at.to] = sum_of(y[at.to], x[at.from]);
  }
}

// Transposes. Neighbours in x are `p` apart from neighbours in y, so a block takes a square of both axes through shared
// memory: it reads along x's last axis and writes along y's.
constexpr int kTileThreads = 256;

// The axis along which x is contiguous, and the one along which y is; `others` walks over the rest.
struct Transpose {
  Index x_axis, y_axis;  // sizes
  Index y_step_of_x_axis, x_step_of_y_axis;
  Divisor tiles_x, tiles_y;  // how many tiles along each
  DeviceWalk others;
};

template <class Unit>
JNORM_KERNEL(kTileThreads)
transpose_kernel(Transpose t, const Unit* x, Unit* y) {
  Unit* const tile = dynamic_smem<Unit>();
  const Index batch_and_row = t.tiles_x.quotient(block_x()), batch = t.tiles_y.quotient(batch_and_row);
  const Index along_x = (block_x() - batch_and_row * t.tiles_x.value()) * kTile;
  const Index along_y = (batch_and_row - batch * t.tiles_y.value()) * kTile;
  const Offsets base = offsets_of(t.others, batch);
  const int lane = lane_index();
  constexpr int warps = kTileThreads / kWarpSize, rows_of_a_warp = kTile / warps;
  JNORM_UNROLL
  for (int k = 0; k < rows_of_a_warp; ++k) {
    const int row = warp_index() + k * warps;
    if (along_y + row < t.y_axis && along_x + lane < t.x_axis) {
      const Index from = base.from + (along_y + row) * t.x_step_of_y_axis + along_x + lane;
      tile[row * kTileRow + lane] = load_aligned<Unit>(x + from);
    }
  }
  block_barrier();
  JNORM_UNROLL
  for (int k = 0; k < rows_of_a_warp; ++k) {
    const int row = warp_index() + k * warps;
    if (along_x + row < t.x_axis && along_y + lane < t.y_axis) {
      const Index to = base.to + (along_x + row) * t.y_step_of_x_axis + along_y + lane;
      store_aligned<Unit>(y + to, tile[lane * kTileRow + row]);
    }
  }
}

}  // namespace jnorm::cuda
