#pragma once

// Flows of control that hand the processor to one another: each CUDA thread of a block runs on one.

#include <cstddef>
#include <memory>
#include <vector>

#include "sanitizer.hpp"

namespace jnorm::cuda::execution {

class Fiber {
 public:
  // A fiber with a stack of its own that calls run() again and again; between two rounds run() switches away.
  explicit Fiber(void (*run)());
  // The flow of control that makes it.
  Fiber() = default;
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Goes on with `next`, until some fiber switches back to this one, which is running.
  void switch_to(Fiber& next);
  // What the race sanitizer's reports call it.
  void set_name(const char* name) { sanitizer::name_thread(sanitizer_thread_, name); }

 private:
  struct Entry;

  void (*run_)() = nullptr;
  void* context_ = nullptr;  // where it goes on
  void* memory_ = nullptr;   // a guard page, then the stack
  sanitizer::Stack stack_;
  void* sanitizer_thread_ = nullptr;
};

// Fibers for the threads of a block. As the race sanitizer sees it, what runs on a fiber follows in order what ran
// there before; there, blocks that follow one another get other fibers as far as there are some. It compares each
// thread with all others, so that more fibers than are needed for this would cost much time.
class FiberPool {
 public:
  explicit FiberPool(void (*run)()) : run_(run) {}
  void begin_block(int threads);
  Fiber& next();
  void discard(Fiber& fiber);  // one that will not be gone on with where it stopped

 private:
  void (*run_)();
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::size_t turn_ = 0, most_ = 0;
};

}  // namespace jnorm::cuda::execution
