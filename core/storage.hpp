#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include <jnorm/core/device.hpp>
#include <jnorm/core/source_line.hpp>

namespace jnorm {

// The header of a block of tensor memory, itself in the host's. On the CPU the elements follow it in the same
// 64-byte-aligned block.
struct alignas(64) Storage {
  std::atomic<std::uint32_t> references{1};
  std::uint32_t size_class = 0;
  std::uint32_t version = 0;    // counts changes in place
  SourceLine changed_at;        // the last one
  void* data = nullptr;         // the elements where the host reads them; null on another device
  void* device_data = nullptr;  // the elements on another device
  const DeviceInterface* device = nullptr;
  // Of indices that were copied to a device: the same elements in the host's memory, so that they can be checked and
  // read without waiting for the device. A counted reference.
  Storage* host_copy = nullptr;
};

// A counted handle on a Storage.
class StorageHandle {
 public:
  StorageHandle() = default;
  explicit StorageHandle(Storage* adopted) : storage_(adopted) {}
  StorageHandle(const StorageHandle& other) : storage_(other.storage_) {
    if (storage_ != nullptr) storage_->references.fetch_add(1, std::memory_order_relaxed);
  }
  StorageHandle(StorageHandle&& other) noexcept : storage_(std::exchange(other.storage_, nullptr)) {}
  StorageHandle& operator=(StorageHandle other) noexcept {
    std::swap(storage_, other.storage_);
    return *this;
  }
  ~StorageHandle() {
    if (storage_ != nullptr) drop();
  }

  Storage* get() const { return storage_; }
  Storage* operator->() const { return storage_; }
  explicit operator bool() const { return storage_ != nullptr; }
  bool unique() const { return storage_->references.load(std::memory_order_acquire) == 1; }

 private:
  void drop() noexcept {
    // The last handle needs no atomic decrement: nobody else can see the storage.
    if (unique() || storage_->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      storage_->device->release(storage_);
    }
  }

  Storage* storage_ = nullptr;
};

}  // namespace jnorm
