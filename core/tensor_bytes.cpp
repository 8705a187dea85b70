#include <jnorm/core/tensor_bytes.hpp>

#include <bit>
#include <cstring>

#include <jnorm/core/expect.hpp>

namespace jnorm {

static_assert(std::endian::native == std::endian::little, "the file formats are little-endian");

std::string_view bytes_of(const Tensor& tensor) {
  expect(tensor.defined() && tensor.device() == Device::cpu(), "save: expected a tensor on the CPU, got {}",
         tensor.defined() ? "one on " + tensor.device().name() : "an undefined one");
  return {static_cast<const char*>(tensor.raw_data()), static_cast<std::size_t>(tensor.bytes())};
}

Tensor tensor_from_bytes(const Shape& shape, DType dtype, std::string_view bytes) {
  Tensor result = Tensor::uninitialized(shape, dtype);
  expect(static_cast<Index>(bytes.size()) == result.bytes(), "load: {} {} has {} bytes, but {} were given", dtype,
         shape, result.bytes(), bytes.size());
  dispatch_any("load", dtype,
               [&]<class T>(TypeTag<T>) { std::memcpy(result.output_data<T>(), bytes.data(), bytes.size()); });
  return result;
}

}  // namespace jnorm
