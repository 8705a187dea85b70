#include <jnorm/layers/model_summary.hpp>

#include <algorithm>
#include <map>

namespace jnorm {

namespace {

// "blocks.3.ffn.norm.gamma" -> "blocks.*.ffn.norm.gamma"
std::string without_number(const std::string& path) {
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    if (path.find_first_not_of("0123456789", begin) >= end) return path.substr(0, begin) + "*" + path.substr(end);
    begin = end + 1;
  }
  return path;
}

// Rows that differ in their layer's number alone become one.
class Rows {
 public:
  void add(SummaryRow row) {
    const std::string pattern = without_number(row.path);
    const auto [place, is_new] = places_.try_emplace(
        pattern + to_string(row.shape) + to_string(row.dtype) + (row.trainable ? "" : " frozen"), rows_.size());
    if (is_new) {
      rows_.push_back(std::move(row));
      return;
    }
    SummaryRow& first = rows_[place->second];
    ++first.count;
    first.path = pattern;
  }
  std::vector<SummaryRow> all() { return std::move(rows_); }

 private:
  std::vector<SummaryRow> rows_;
  std::map<std::string, std::size_t> places_;
};

template <class Measure>
Index total(const std::vector<SummaryRow>& rows, const Measure& measure) {
  Index sum = 0;
  for (const SummaryRow& row : rows) sum += measure(row);
  return sum;
}

}  // namespace

Index ModelSummary::parameters() const {
  return total(rows, [](const SummaryRow& row) { return row.buffer ? 0 : row.numbers(); });
}

Index ModelSummary::trainable_parameters() const {
  return total(rows, [](const SummaryRow& row) { return row.buffer || !row.trainable ? 0 : row.numbers(); });
}

Index ModelSummary::parameter_bytes() const {
  return total(rows, [](const SummaryRow& row) { return row.buffer ? 0 : row.bytes(); });
}

Index ModelSummary::buffer_bytes() const {
  return total(rows, [](const SummaryRow& row) { return row.buffer ? row.bytes() : 0; });
}

ModelSummary summary(const Module& model) {
  Rows rows;
  for (const auto& [path, parameter] : model.named_parameters()) {
    rows.add({.path = path,
              .shape = parameter->shape(),
              .dtype = parameter->value().dtype(),
              .trainable = parameter->trainable()});
  }
  for (const Buffer* buffer : model.buffers()) {
    rows.add({.path = buffer->path,
              .shape = buffer->value.shape(),
              .dtype = buffer->value.dtype(),
              .buffer = true,
              .trainable = false});
  }
  return {rows.all()};
}

}  // namespace jnorm
