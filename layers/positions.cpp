#include <jnorm/layers/positions.hpp>

#include <cmath>

#include <jnorm/layers/names.hpp>

namespace jnorm {

namespace {

constexpr Named<Positions> kPositions[] = {{"learned", Positions::learned},
                                           {"sinusoidal", Positions::sinusoidal},
                                           {"rotary", Positions::rotary},
                                           {"none", Positions::none}};

}  // namespace

std::string to_string(Positions positions) { return name_of(kPositions, positions); }

Positions positions_from_string(std::string_view name) { return value_named("positions", kPositions, name); }

const std::vector<Positions>& all_positions() {
  static const std::vector<Positions> all = values_of(kPositions);
  return all;
}

Tensor sinusoidal_positions(Index length, Index dim, DType dtype) {
  expect(length > 0 && dim > 0, "sinusoidal_positions: expected positive sizes, got {} x {}", length, dim);
  Tensor table = Tensor::uninitialized({length, dim}, DType::float64);
  double* row = table.output_data<double>();
  for (Index position = 0; position < length; ++position, row += dim) {
    for (Index feature = 0; feature < dim; ++feature) {
      const auto pair = static_cast<double>(feature - feature % 2);  // 2i
      const double angle = static_cast<double>(position) * std::pow(10000.0, -pair / static_cast<double>(dim));
      row[feature] = feature % 2 == 0 ? std::sin(angle) : std::cos(angle);
    }
  }
  return table.to(dtype);
}

}  // namespace jnorm
