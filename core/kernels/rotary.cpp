// Rotary position embedding. Derivation: autograd/ops/rotary.md.
//
//   [ROT.1]  a_c = p base^(-2c/d), the angle of pair c of d/2 in position p
//   [ROT.2]  y_c = cos(a_c) x_c - sin(a_c) x_(c + d/2)     y_(c + d/2) = sin(a_c) x_c + cos(a_c) x_(c + d/2)
//   [ROT.3]  the derivative turns back: [ROT.2] with -a_c

#include <cmath>
#include <vector>

#include <jnorm/core/dtype.hpp>
#include <jnorm/core/kernels/cpu.hpp>
#include <jnorm/core/kernels/rows.hpp>

namespace jnorm::cpu {

// Angles are float64 whatever the table is: in float32 an angle near 100,000 is off by 0.004.
void rotary_table(double base, Index first_position, const Tensor& table) {
  const Index half = table.row_length() / 2;
  std::vector<double> speeds(static_cast<std::size_t>(half));
  for (Index c = 0; c < half; ++c) {
    speeds[static_cast<std::size_t>(c)] = std::pow(base, -static_cast<double>(c) / static_cast<double>(half));
  }
  dispatch_wide("rotary_table", table.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Rows rows = output_rows<T>(table);
    for_each_row(table, [&](Index r) {
      const auto position = static_cast<double>(first_position + r);
      for (Index c = 0; c < half; ++c) {
        const double angle = position * speeds[static_cast<std::size_t>(c)];  // [ROT.1]
        rows[r][c] = static_cast<T>(std::cos(angle));
        rows[r][half + c] = static_cast<T>(std::sin(angle));
      }
    });
  });
}

void rotary(Turn turn, const Tensor& x, const Tensor& table, const Tensor& table_rows, const Destination& y) {
  if (!y.wanted() || x.size() == 0) return;
  dispatch_wide("rotary", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Index columns = table.row_length(), half = columns / 2, period = table_rows.size();
    const Rows in = rows_of<T>(x), turns = rows_of<T>(table);
    const Rows out = output_rows<T>(y.tensor);
    const auto* const table_row = table_rows.data<std::int32_t>();
    const Batch<T> sign(T(turn == Turn::forwards ? 1 : -1));
    for_each_row(x, [&](Index r) {
      const T* const cosines = turns[table_row[r % period]];
      const T* const sines = cosines + half;
      for (Index head = 0; head < in.length; head += columns) {
        for_each_batch<T>(0, half, [=, from = in[r] + head, to = out[r] + head, add = y.add](auto at) {
          const Batch<T> cosine = at.load(cosines), sine = sign * at.load(sines);
          const Batch<T> first = at.load(from), second = at.load(from + half);
          put(at, to, cosine * first - sine * second, add);
          put(at, to + half, sine * first + cosine * second, add);  // [ROT.2], [ROT.3]
        });
      }
    });
  });
}

}  // namespace jnorm::cpu
