#include <jnorm/layers/data_source.hpp>

#include <jnorm/core/expect.hpp>

namespace jnorm {

Batch DataSource::next(Index size) { return draw_batch(Part::training, rng_, size); }

Batch DataSource::validation(Index size, Index number) const {
  expect(number >= 0, "validation: the batch's number must not be negative, but is {}", number);
  if (!has_validation()) fail(ErrorKind::state, "validation: no part of the data is held out");
  Rng rng = rng_.split("validation").split(std::to_string(number));  // whatever was drawn so far
  return draw_batch(Part::validation, rng, size);
}

Batch DataSource::draw_batch(Part part, Rng& rng, Index size) const {
  expect(size > 0, "batch: the number of sequences must be positive, but is {}", size);
  const Index length = context();
  Batch batch{{Tensor::uninitialized({size, length}, DType::int32)},
              Tensor::uninitialized({size, length}, DType::int32)};
  const auto row_length = static_cast<std::size_t>(length);
  for (Index row = 0; row < size; ++row) {
    draw(part, rng, {batch.tokens.output_data<std::int32_t>() + row * length, row_length},
         {batch.targets.output_data<std::int32_t>() + row * length, row_length});
  }
  return batch;
}

}  // namespace jnorm
