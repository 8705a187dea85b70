#include <jnorm/layers/data_source.hpp>

#include <algorithm>
#include <span>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/kernels.hpp>

namespace jnorm {

namespace {

Tensor uninitialized_rows(Index size, Index length) { return Tensor::uninitialized({size, length}, DType::int32); }

std::span<std::int32_t> row_of(Tensor& tensor, Index row) {
  const Index length = tensor.dim(1);
  return {tensor.output_data<std::int32_t>() + row * length, static_cast<std::size_t>(length)};
}

// The values, and `filler` after them.
void fill_row(Tensor& tensor, Index row, const std::vector<std::int32_t>& values, std::int32_t filler) {
  const std::span<std::int32_t> all = row_of(tensor, row);
  std::fill(std::copy(values.begin(), values.end(), all.begin()), all.end(), filler);
}

void fill_mask(Tensor& mask, Index row, std::size_t length) {
  fill_row(mask, row, std::vector<std::int32_t>(length, 1), 0);
}

}  // namespace

Lengths Lengths::from(std::string_view what, Index least, Index most) {
  const Lengths lengths{.least = least == 0 ? most : least, .most = most};
  expect(lengths.least > 0 && lengths.least <= most, "{}: the smallest length must lie in [1, {}], but is {}", what,
         most, least);
  return lengths;
}

std::string Lengths::in_words() const { return vary() ? fmt::format("{} to {}", least, most) : std::to_string(most); }

DataSource::DataSource(const Rng& rng, const ObjectiveOptions& options) : rng_(rng), options_(options) {
  const double fraction = options.mask_fraction;
  expect(fraction > 0.0 && fraction <= 1.0, "data: the mask fraction must lie in (0, 1], but is {}", fraction);
}

SpecialTokens DataSource::special_tokens() const {
  return jnorm::special_tokens(options_.objective, own_vocabulary(), lengths_vary());
}

Index DataSource::context() const {
  const ModelExampleSize size = model_example_size(longest(), options_.objective);
  return std::max(size.tokens, size.source);
}

Batch DataSource::next(Index size) { return draw_batch(Part::training, rng_, size); }

Batch DataSource::validation(Index size, Index number) const {
  expect(number >= 0, "validation: the batch's number must not be negative, but is {}", number);
  if (!has_validation()) fail(ErrorKind::state, "validation: no part of the data is held out");
  Rng rng = rng_.split("validation").split(std::to_string(number));  // whatever was drawn so far
  return draw_batch(Part::validation, rng, size);
}

Batch DataSource::draw_batch(Part part, Rng& rng, Index size) const {
  expect(size > 0, "batch: the number of sequences must be positive, but is {}", size);
  const ModelExampleSize most = model_example_size(longest(), options_.objective);
  const bool padded = lengths_vary(), sourced = most.source > 0;
  Batch batch{{uninitialized_rows(size, most.tokens)}, uninitialized_rows(size, most.tokens)};
  if (padded) batch.mask = uninitialized_rows(size, most.tokens);
  if (sourced) batch.source = uninitialized_rows(size, most.source);
  if (padded && sourced) batch.source_mask = uninitialized_rows(size, most.source);

  const std::int32_t padding = special_tokens().padding.value_or(0);
  for (Index row = 0; row < size; ++row) {
    const ModelExample example = model_example(draw(part, rng), options_, own_vocabulary(), rng);
    fill_row(batch.tokens, row, example.tokens, padding);
    fill_row(batch.targets, row, example.targets, kIgnoreIndex);
    if (padded) fill_mask(batch.mask, row, example.tokens.size());
    if (sourced) fill_row(batch.source, row, example.source, padding);
    if (padded && sourced) fill_mask(batch.source_mask, row, example.source.size());
  }
  return batch;
}

void expect_vocabulary(Index model_vocabulary, const DataSource& data) {
  const Index special = data.special_tokens().count();
  expect(model_vocabulary >= data.vocabulary(),
         "vocabulary: the model has {} tokens, but the data need {} ({} of their own, {} special); take a model with "
         "more tokens, or other data",
         model_vocabulary, data.vocabulary(), data.own_vocabulary(), special);
}

}  // namespace jnorm
