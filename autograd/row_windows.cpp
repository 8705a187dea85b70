#include <jnorm/autograd/row_windows.hpp>

namespace jnorm {

namespace {

bool has_bit(std::uint32_t bits, std::size_t i) { return (bits >> i & 1u) != 0; }

// Tokens and other int32 values have one element a row.
Index rows_of(const Tensor& input) { return input.dtype() == DType::int32 ? input.size() : input.rows(); }

}  // namespace

RowWindows::RowWindows(const Tape& tape, const Node& node, RowRange live)
    : tape_(tape),
      node_(node),
      sequences_(node.operation->description().earlier_inputs != 0),
      output_rows_(all_rows(node.value)),
      earlier_rows_(output_rows_),
      output_shape_(node.value.shape()) {
  if (live != output_rows_ && knows_rows()) cut_to(live);
}

// The marked inputs have as many rows as the output. A broadcast along rows doesn't keep to that.
bool RowWindows::knows_rows() const {
  const Description& description = node_.operation->description();
  if (description.row_inputs == 0) return false;
  if (sequences_ && node_.value.rank() != 3) return false;
  for (std::size_t i = 0; i < node_.input_count; ++i) {
    if (!has_bit(description.row_inputs | description.earlier_inputs, i)) continue;
    if (rows_of(input_value(i)) != node_.value.rows()) return false;
  }
  return true;
}

void RowWindows::cut_to(RowRange live) {
  output_rows_ = earlier_rows_ = live;
  if (sequences_) {
    const Index length = node_.value.dim(1);
    const Index first = live.begin / length, last = (live.end - 1) / length;
    earlier_rows_.begin = first * length;
    if (first != last) output_rows_ = earlier_rows_ = {first * length, (last + 1) * length};
  }
  is_cut_ = output_rows_ != all_rows(node_.value);
  if (is_cut_) output_shape_ = shape_of(output_rows_, node_.value.row_length());
}

bool RowWindows::is_row_input(std::size_t i) const { return has_bit(node_.operation->description().row_inputs, i); }

bool RowWindows::is_earlier_input(std::size_t i) const {
  return has_bit(node_.operation->description().earlier_inputs, i);
}

RowRange RowWindows::input_rows(std::size_t i) const {
  if (is_cut_ && is_row_input(i)) return output_rows_;
  if (is_cut_ && is_earlier_input(i)) return earlier_rows_;
  return all_rows(input_value(i));
}

// Rows of one sequence, or of several whole ones: [r, H], and [B, r/B, H] where the operation takes sequences.
Shape RowWindows::shape_of(RowRange rows, Index row_length) const {
  if (!sequences_) return {rows.count(), row_length};
  const Index length = node_.value.dim(1);
  const Index batches = (rows.count() + length - 1) / length;
  return {batches, rows.count() / batches, row_length};
}

Tensor RowWindows::cut(const Tensor& value, RowRange rows) const {
  const Index length = value.size() / node_.value.rows();
  const Shape shape = value.dtype() == DType::int32 ? Shape{rows.count()} : shape_of(rows, length);
  Tensor window = Tensor::uninitialized(shape, value.dtype(), value.device());
  value.device().kernels().copy_block(value, {.count = 1, .length = rows.count() * length, .from = rows.begin * length},
                                      window);
  return window;
}

// [R] or [R, ...], or beside sequences [B, ..., T], whose last axis is cut within one sequence.
Tensor RowWindows::cut_saved(const Tensor& value) const {
  const Index rows = node_.value.rows();
  const Index piece = value.size() / (sequences_ ? node_.value.dim(0) : rows);  // of a sequence, or of a row
  if (!sequences_) {
    const Shape shape = piece == 1 ? Shape{output_rows_.count()} : Shape{output_rows_.count(), piece};
    return cut(value, output_rows_).reshape(shape);
  }
  const Index length = node_.value.dim(1);
  const Index batch = output_rows_.begin / length;
  const Shape& cut_shape = output_shape_;  // [b, t, H]
  const Shape shape = value.shape().with_axis(0, cut_shape[0]).with_axis(-1, cut_shape[1]);
  Tensor window = Tensor::uninitialized(shape, value.dtype(), value.device());
  value.device().kernels().copy_block(value,
                                      {.count = shape.size() / cut_shape[1],
                                       .length = cut_shape[1],
                                       .from = batch * piece + output_rows_.begin % length,
                                       .from_stride = length,
                                       .to_stride = cut_shape[1]},
                                      window);
  return window;
}

const Tensor& RowWindows::output() const {
  if (!is_cut_) return node_.value;
  if (!output_.defined()) output_ = cut(node_.value, output_rows_);
  return output_;
}

const Tensor& RowWindows::input(std::size_t i) const {
  if (!is_cut_ || !(is_row_input(i) || is_earlier_input(i))) return input_value(i);
  if (!inputs_[i].defined()) inputs_[i] = cut(input_value(i), input_rows(i));
  return inputs_[i];
}

const Tensor& RowWindows::saved(std::size_t i) const {
  const Tensor& whole = tape_.saved(node_)[i];
  if (!is_cut_ || !has_bit(node_.operation->description().row_saved, i)) return whole;
  if (saved_.empty()) saved_.resize(node_.saved_count);
  if (!saved_[i].defined()) saved_[i] = cut_saved(whole);
  return saved_[i];
}

}  // namespace jnorm
