#pragma once

// Rows of recorded values: what a sweep needs of an operation when its cotangents are zero in all other rows.

#include <array>
#include <vector>

#include <jnorm/autograd/row_range.hpp>
#include <jnorm/autograd/tape.hpp>

namespace jnorm {

inline RowRange all_rows(const Tensor& value) { return {0, value.rows()}; }

// An operation's recorded values, cut to the rows that a cotangent with the live rows `live` reaches; Description says
// which of them can be cut. The cut values are copies, made when they are asked for.
class RowWindows {
 public:
  RowWindows(const Tape& tape, const Node& node, RowRange live);

  // The rows of the cotangent that the operation must be given: `live`, or more where the operation mixes rows.
  RowRange output_rows() const { return output_rows_; }
  // The rows of input i that have a cotangent then.
  RowRange input_rows(std::size_t i) const;

  const Tensor& output() const;
  const Tensor& input(std::size_t i) const;
  const Tensor& saved(std::size_t i) const;
  const Shape& output_shape() const { return output_shape_; }  // of output()

 private:
  const Tensor& input_value(std::size_t i) const { return tape_.node(node_.inputs[i]).value; }
  bool knows_rows() const;
  bool is_row_input(std::size_t i) const;
  bool is_earlier_input(std::size_t i) const;
  void cut_to(RowRange live);
  Shape shape_of(RowRange rows, Index row_length) const;
  Tensor cut(const Tensor& value, RowRange rows) const;
  Tensor cut_saved(const Tensor& value) const;

  const Tape& tape_;
  const Node& node_;
  const bool sequences_;   // the operation takes [B, T, H]
  RowRange output_rows_;   // and of the inputs that the output's rows read row by row
  RowRange earlier_rows_;  // of those that they read from the start of the sequence
  bool is_cut_ = false;    // or else all values are whole
  Shape output_shape_;
  mutable Tensor output_;
  mutable std::array<Tensor, Node::kMaxInputs> inputs_;
  mutable std::vector<Tensor> saved_;
};

}  // namespace jnorm
