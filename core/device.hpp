#pragma once

#include <cstddef>
#include <string>

namespace jnorm {

struct Kernels;
struct Storage;

// What a device brings: where its memory comes from and the kernels that work on it. One constant object per device.
struct DeviceInterface {
  std::string (*name)(int ordinal);
  Storage* (*allocate)(const DeviceInterface& self, std::size_t bytes);
  void (*release)(Storage* storage) noexcept;
  const Kernels* kernels;
  int ordinal;
  // Between the host's memory and this device's. What was queued on the device before is done before; when they return,
  // the host's memory is free for other use. Absent on the CPU.
  void (*copy_from_host)(const void* from, const Storage& to, std::size_t bytes) = nullptr;
  void (*copy_to_host)(const Storage& from, void* to, std::size_t bytes) = nullptr;
  bool is_host() const { return copy_to_host == nullptr; }
};

// A place where tensors live and operations run: a value, cheap to copy and to compare.
class Device {
 public:
  static Device cpu();

  explicit constexpr Device(const DeviceInterface& interface) : interface_(&interface) {}

  std::string name() const { return interface_->name(interface_->ordinal); }  // "cpu", "cuda:0"
  const Kernels& kernels() const { return *interface_->kernels; }
  const DeviceInterface& interface() const { return *interface_; }

  friend bool operator==(Device a, Device b) { return a.interface_ == b.interface_; }

 private:
  const DeviceInterface* interface_;
};

}  // namespace jnorm
