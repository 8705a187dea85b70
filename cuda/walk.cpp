#include <jnorm/cuda/walk.hpp>

namespace jnorm::cuda {

Walk make_walk(const Shape& sizes, const Strides& from, const Strides& to) {
  Walk walk{.from = from.offset, .to = to.offset, .count = sizes.size()};
  for (int a = sizes.rank() - 1; a >= 0; --a) {
    const auto axis = static_cast<std::size_t>(a);
    const WalkAxis outer{sizes[a], from.steps[axis], to.steps[axis]};
    if (outer.size == 1) continue;
    if (walk.rank > 0) {
      WalkAxis& inner = walk[walk.rank - 1];
      if (outer.from == inner.from * inner.size && outer.to == inner.to * inner.size) {
        inner.size *= outer.size;
        continue;
      }
    }
    walk[walk.rank++] = outer;
  }
  return walk;
}

Index unit_of(const Walk& walk, Index most) {
  if (walk.rank == 0 || walk[0].from != 1 || walk[0].to != 1) return 1;
  const auto fits = [&](Index unit) {
    bool whole = walk[0].size % unit == 0 && walk.from % unit == 0 && walk.to % unit == 0;
    for (int axis = 1; axis < walk.rank; ++axis) {
      whole = whole && walk[axis].from % unit == 0 && walk[axis].to % unit == 0;
    }
    return whole;
  };
  Index unit = most;
  while (unit > 1 && !fits(unit)) unit /= 2;
  return unit;
}

Walk in_units(Walk walk, Index unit) {
  if (unit == 1) return walk;
  walk[0].size /= unit;
  walk.from /= unit;
  walk.to /= unit;
  walk.count /= unit;
  for (int axis = 1; axis < walk.rank; ++axis) {
    walk[axis].from /= unit;
    walk[axis].to /= unit;
  }
  return walk;
}

Walk without_axis(const Walk& walk, int axis) {
  Walk rest{.from = walk.from, .to = walk.to};
  for (int a = 0; a < walk.rank; ++a) {
    if (a == axis) continue;
    rest[rest.rank++] = walk[a];
    rest.count *= walk[a].size;
  }
  return rest;
}

}  // namespace jnorm::cuda
