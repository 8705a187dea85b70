#include <jnorm/core/tensor.hpp>

#include <algorithm>
#include <cstring>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/kernels.hpp>

namespace jnorm {

Tensor Tensor::uninitialized(const Shape& shape, DType dtype, Device device) {
  Tensor result;
  const Index bytes = checked_product(shape.size(), size_of(dtype));
  const DeviceInterface& interface = device.interface();
  result.storage_ = StorageHandle(interface.allocate(interface, static_cast<std::size_t>(bytes)));
  result.shape_ = shape;
  result.dtype_ = dtype;
  return result;
}

Tensor Tensor::reshape(const Shape& shape) const {
  expect(shape.size() == size(), "reshape: {} has {} elements, but {} needs {}", shape_, size(), shape, shape.size());
  Tensor result = *this;
  result.shape_ = shape;
  return result;
}

Tensor Tensor::first_rows(Index count) const {
  expect(rank() > 0 && count >= 0 && count <= dim(0), "first_rows: {} has no {} rows", shape_, count);
  Tensor result = *this;
  result.shape_ = shape_.with_axis(0, count);
  return result;
}

namespace {

template <class T>
double widen(T value) {
  if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>) {
    return static_cast<float>(value);
  } else {
    return static_cast<double>(value);
  }
}

}  // namespace

double Tensor::at(std::initializer_list<Index> indices) const {
  expect(static_cast<int>(indices.size()) == rank(), "at: {} has {} axes, but {} indices were given", shape_, rank(),
         indices.size());
  Index offset = 0;
  int axis = 0;
  for (const Index index : indices) {
    expect(index >= 0 && index < shape_[axis], "at: index {} is out of range for axis {} of {}", index, axis, shape_);
    offset = row_major_offset(offset, shape_[axis], index);
    ++axis;
  }
  const Tensor here = to(Device::cpu());
  return dispatch_any("at", dtype_, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return widen(here.data<T>()[offset]);
  });
}

double Tensor::item() const {
  expect(defined() && size() == 1, "item: expected a tensor of one element, got {}",
         defined() ? to_string(shape_) : "an undefined one");
  return values().front();
}

std::vector<double> Tensor::values() const {
  const Tensor here = to(Device::cpu());
  std::vector<double> result(static_cast<std::size_t>(size()));
  dispatch_any("values", dtype_, [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::transform(here.data<T>(), here.data<T>() + size(), result.begin(), widen<T>);
  });
  return result;
}

Tensor Tensor::to(DType dtype) const {
  if (dtype == dtype_) return *this;
  Tensor result = uninitialized(shape_, dtype, device());
  device().kernels().convert(*this, result);
  return result;
}

Tensor Tensor::to(Device device) const {
  if (!defined()) fail_undefined();
  const DeviceInterface& from = *storage_->device;
  const DeviceInterface& target = device.interface();
  if (&from == &target) return *this;
  if (!from.is_host() && !target.is_host()) return to(Device::cpu()).to(device);
  Tensor result = *this;
  if (target.is_host() && storage_->host_copy != nullptr) {
    storage_->host_copy->references.fetch_add(1, std::memory_order_relaxed);
    result.storage_ = StorageHandle(storage_->host_copy);
    return result;
  }
  const auto count = static_cast<std::size_t>(bytes());
  result.storage_ = StorageHandle(target.allocate(target, count));
  if (target.is_host()) {
    from.copy_to_host(*storage_.get(), result.storage_->data, count);
    return result;
  }
  target.copy_from_host(storage_->data, *result.storage_.get(), count);
  if (dtype_ == DType::int32) {
    storage_->references.fetch_add(1, std::memory_order_relaxed);
    result.storage_->host_copy = storage_.get();
  }
  return result;
}

Tensor Tensor::clone() const {
  Tensor result = uninitialized(shape_, dtype_, device());
  device().kernels().convert(*this, result);
  return result;
}

void Tensor::make_unique() {
  if (!unique()) *this = clone();
}

void Tensor::fail_undefined() { fail(ErrorKind::argument, "tensor: expected a tensor, got an undefined one"); }

void Tensor::fail_access(DType asked) const {
  if (!defined()) fail_undefined();
  if (storage_->data == nullptr) {
    fail(ErrorKind::argument, "tensor {}: its elements are on {}, where the host can't read them; copy it with {}",
         shape_, device().name(), "to(Device::cpu())");
  }
  fail(ErrorKind::argument, "tensor {}: its elements are {}, but {} was asked for", shape_, dtype_, asked);
}

Tensor zeros(const Shape& shape, DType dtype, Device device) { return full(shape, 0.0, dtype, device); }

Tensor ones(const Shape& shape, DType dtype, Device device) { return full(shape, 1.0, dtype, device); }

Tensor full(const Shape& shape, double value, DType dtype, Device device) {
  Tensor result = Tensor::uninitialized(shape, dtype, device);
  device.kernels().fill(result, value);
  return result;
}

Tensor identity(Index size, DType dtype, Device device) {
  std::vector<double> values(static_cast<std::size_t>(checked_product(size, size)));
  for (Index i = 0; i < size; ++i) values[static_cast<std::size_t>(row_major_offset(i, size, i))] = 1.0;
  return tensor({size, size}, values, dtype).to(device);
}

Tensor tensor(std::initializer_list<double> values, DType dtype) {
  return tensor(Shape{static_cast<Index>(values.size())}, std::span<const double>(values.begin(), values.size()),
                dtype);
}

Tensor tensor(std::initializer_list<std::initializer_list<double>> rows, DType dtype) {
  const std::size_t width = rows.size() == 0 ? 0 : rows.begin()->size();
  std::vector<double> values;
  values.reserve(rows.size() * width);
  for (const auto& row : rows) {
    expect(row.size() == width, "tensor: the rows have different lengths, {} and {}", width, row.size());
    values.insert(values.end(), row.begin(), row.end());
  }
  return tensor(Shape{static_cast<Index>(rows.size()), static_cast<Index>(width)}, values, dtype);
}

Tensor tensor(const Shape& shape, std::span<const double> values, DType dtype) {
  expect(static_cast<Index>(values.size()) == shape.size(), "tensor: {} has {} elements, but {} values were given",
         shape, shape.size(), values.size());
  Tensor wide = Tensor::uninitialized(shape, DType::float64);
  std::copy(values.begin(), values.end(), wide.output_data<double>());
  return wide.to(dtype);
}

Tensor indices(const Shape& shape, std::span<const std::int32_t> values) {
  expect(static_cast<Index>(values.size()) == shape.size(), "indices: {} has {} elements, but {} values were given",
         shape, shape.size(), values.size());
  Tensor result = Tensor::uninitialized(shape, DType::int32);
  std::copy(values.begin(), values.end(), result.output_data<std::int32_t>());
  return result;
}

std::string to_string(const Tensor& tensor) {
  if (!tensor.defined()) return "undefined tensor";
  constexpr std::size_t shown = 12;
  const std::vector<double> values = tensor.values();
  std::string text = fmt::format("{} {} {{", tensor.dtype(), tensor.shape());
  for (std::size_t i = 0; i < std::min(values.size(), shown); ++i) {
    text += fmt::format("{}{:.6g}", i == 0 ? "" : ", ", values[i]);
  }
  return text + (values.size() > shown ? ", ...}" : "}");
}

}  // namespace jnorm
