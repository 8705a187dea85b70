#include <jnorm/layers/placement.hpp>

#include <jnorm/layers/names.hpp>

namespace jnorm {

std::span<const Placement* const> Placement::all() {
  static constexpr const Placement* placements[] = {&Placement::pre, &Placement::post};
  return placements;
}

const Placement& Placement::named(std::string_view name) {
  std::vector<std::string> names;
  for (const Placement* placement : all()) {
    if (name == placement->name) return *placement;
    names.emplace_back(placement->name);
  }
  fail_unknown_name("placement", name, names);
}

}  // namespace jnorm
