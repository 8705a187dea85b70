#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include <jnorm/core/device.hpp>
#include <jnorm/core/dtype.hpp>
#include <jnorm/core/shape.hpp>
#include <jnorm/core/source_line.hpp>
#include <jnorm/core/storage.hpp>

namespace jnorm {

// An n-dimensional array: dtype, device, shape, and a handle on shared storage. Contiguous and row-major.
//
// A tensor is a value. Copies share storage until one of them is written through mutable_data (copy-on-write), so a
// write never changes another tensor. What is recorded on a tape or owned by a Parameter can be changed in place, seen
// by every handle, with write_in_place; it bumps the storage's version, and a sweep that needed the old values says so.
class Tensor {
 public:
  Tensor() = default;  // no tensor at all: defined() is false

  // Elements are not initialized. Throws Error(argument) on a bad shape and Error(io) when memory runs out.
  static Tensor uninitialized(const Shape& shape, DType dtype = DType::float32, Device device = Device::cpu());

  bool defined() const { return static_cast<bool>(storage_); }
  const Shape& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  Index dim(int axis) const { return shape_[axis]; }
  Index size() const { return shape_.size(); }
  DType dtype() const { return dtype_; }
  Index bytes() const { return size() * size_of(dtype_); }
  Device device() const {
    if (!defined()) fail_undefined();
    return Device(*storage_->device);
  }

  // Number of rows of the last axis: [2, 3, 4] has 6 rows of 4. A scalar is one row of 1.
  Index rows() const { return rank() == 0 ? 1 : (shape_.last() == 0 ? 0 : size() / shape_.last()); }
  Index row_length() const { return rank() == 0 ? 1 : shape_.last(); }

  // The elements. Throws Error(argument) if T isn't the dtype's type, the tensor is undefined, or it is on a device
  // whose memory the host can't read.
  template <class T>
  const T* data() const {
    expect_access(dtype_of<T>);
    return static_cast<const T*>(storage_->data);
  }
  // For writing: storage that others share is copied first.
  template <class T>
  T* mutable_data(SourceLine line = SourceLine::here()) {
    expect_access(dtype_of<T>);
    make_unique();
    mark_changed(line);
    return static_cast<T*>(storage_->data);
  }
  // For writing where every handle on the storage shall see the change.
  template <class T>
  T* write_in_place(SourceLine line = SourceLine::here()) const {
    expect_access(dtype_of<T>);
    mark_changed(line);
    return static_cast<T*>(storage_->data);
  }
  // For kernels that fill a tensor of their own: neither copies nor counts a change.
  template <class T>
  T* output_data() const {
    expect_access(dtype_of<T>);
    return static_cast<T*>(storage_->data);
  }
  // Where the elements begin: in the host's memory, or in that of the device that they are on.
  const void* raw_data() const { return storage_->data != nullptr ? storage_->data : storage_->device_data; }
  // The same for the kernels of a device that isn't the CPU.
  void* device_data() const { return storage_->device_data; }

  std::uint32_t version() const { return storage_->version; }
  SourceLine changed_at() const { return storage_->changed_at; }
  void mark_changed(SourceLine line) const {
    ++storage_->version;
    storage_->changed_at = line;
  }
  bool unique() const { return storage_.unique(); }
  bool shares_storage_with(const Tensor& other) const { return storage_.get() == other.storage_.get(); }

  // The same elements under another shape of the same size; shares storage. Throws Error(argument).
  Tensor reshape(const Shape& shape) const;
  // The first `count` elements along the leading axis; shares storage. Throws Error(argument) if there are fewer.
  Tensor first_rows(Index count) const;

  // One element, widened to double. Throws Error(argument) on a wrong number of indices or one out of range.
  double at(std::initializer_list<Index> indices) const;
  // The only element of a tensor of size 1, widened to double. Throws Error(argument) otherwise.
  double item() const;
  // All elements, widened to double, row-major.
  std::vector<double> values() const;

  Tensor to(DType dtype) const;    // converted, or itself
  Tensor to(Device device) const;  // copied, or itself
  Tensor on_host() const { return to(Device::cpu()); }
  Tensor clone() const;  // a copy with storage of its own

 private:
  void make_unique();
  void expect_access(DType asked) const {
    if (asked != dtype_ || !defined() || storage_->data == nullptr) [[unlikely]]
      fail_access(asked);
  }
  [[noreturn]] void fail_access(DType asked) const;
  [[noreturn]] static void fail_undefined();

  StorageHandle storage_;
  Shape shape_;
  DType dtype_ = DType::float32;
};

Tensor zeros(const Shape& shape, DType dtype = DType::float32, Device device = Device::cpu());
Tensor ones(const Shape& shape, DType dtype = DType::float32, Device device = Device::cpu());
Tensor full(const Shape& shape, double value, DType dtype = DType::float32, Device device = Device::cpu());
Tensor identity(Index size, DType dtype = DType::float32, Device device = Device::cpu());  // [size, size]

// From numbers: tensor({1, 2, 3}) is [3]; tensor({{1, 2}, {3, 4}}) is [2, 2]; tensor({2, 2}, values) takes any span.
Tensor tensor(std::initializer_list<double> values, DType dtype = DType::float32);
Tensor tensor(std::initializer_list<std::initializer_list<double>> rows, DType dtype = DType::float32);
Tensor tensor(const Shape& shape, std::span<const double> values, DType dtype = DType::float32);
// Indices for embeddings and targets: int32.
Tensor indices(const Shape& shape, std::span<const std::int32_t> values);

// A short readable form: shape, dtype and the first values.
std::string to_string(const Tensor& tensor);

}  // namespace jnorm
