#pragma once

#include <string>
#include <vector>

#include <jnorm/layers/module.hpp>

namespace jnorm {

// A model as a table: what it holds, of which shape, and how many bytes that takes.
struct SummaryRow {
  std::string path;  // "final_norm.gamma"; of several layers that have the same, "blocks.*.ffn.norm.gamma"
  Shape shape;
  DType dtype = DType::float32;
  Index count = 1;  // of layers that have it
  bool buffer = false;
  bool trainable = true;

  Index numbers() const { return count * shape.size(); }
  Index bytes() const { return numbers() * size_of(dtype); }
};

struct ModelSummary {
  std::vector<SummaryRow> rows;  // in the model's order: parameters, then buffers

  // Over all rows. A parameter that is used twice, as a tied embedding, stands once.
  Index parameters() const;
  Index trainable_parameters() const;
  Index parameter_bytes() const;
  Index buffer_bytes() const;
};

ModelSummary summary(const Module& model);

}  // namespace jnorm
