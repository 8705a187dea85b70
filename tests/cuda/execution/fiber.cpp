#include "fiber.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <new>

#include <boost/context/detail/fcontext.hpp>

namespace jnorm::cuda::execution {

namespace {

// Pages that are never touched cost nothing. Below the stack lies a page that may not be touched.
constexpr std::size_t kStackBytes = std::size_t{256} * 1024;
constexpr std::size_t kGuardBytes = 4096;

using boost::context::detail::transfer_t;

thread_local Fiber* beginning = nullptr;

}  // namespace

// A switch carries the fiber that is left, so that where it goes on can be noted on the other side.
struct Fiber::Entry {
  static void arrive(transfer_t from, void* saved) {
    auto& before = *static_cast<Fiber*>(from.data);
    before.context_ = from.fctx;
    sanitizer::arrive(saved, before.stack_);
  }
  static void begin(transfer_t from) {
    Fiber& self = *beginning;
    arrive(from, nullptr);
    while (true) self.run_();
  }
};

Fiber::Fiber(void (*run)()) : run_(run) {
  void* const memory = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = memory;
  mprotect(memory_, kGuardBytes, PROT_NONE);
  stack_ = {static_cast<char*>(memory_) + kGuardBytes, kStackBytes};
  char* const top = static_cast<char*>(memory_) + kGuardBytes + kStackBytes;
  context_ = boost::context::detail::make_fcontext(top, kStackBytes, Entry::begin);
  sanitizer_thread_ = sanitizer::make_thread();
}

Fiber::~Fiber() {
  if (memory_ == nullptr) return;
  sanitizer::end_thread(sanitizer_thread_);
  sanitizer::forget(stack_);
  munmap(memory_, kGuardBytes + kStackBytes);
}

void Fiber::switch_to(Fiber& next) {
  void* saved = nullptr;
  if (memory_ == nullptr) sanitizer_thread_ = sanitizer::current_thread();
  sanitizer::leave(&saved, next.stack_);
  sanitizer::run_as(next.sanitizer_thread_);
  beginning = &next;
  Entry::arrive(boost::context::detail::jump_fcontext(next.context_, this), saved);
}

void FiberPool::begin_block(int threads) {
  constexpr std::size_t many = 512, more = 256;
  most_ = std::max({most_, many, static_cast<std::size_t>(threads) + more});
  if (!sanitizer::kSeesRaces) turn_ = 0;
}

Fiber& FiberPool::next() {
  if (turn_ == most_) turn_ = 0;
  if (turn_ == fibers_.size()) fibers_.push_back(std::make_unique<Fiber>(run_));
  return *fibers_[turn_++];
}

void FiberPool::discard(Fiber& fiber) {
  for (std::unique_ptr<Fiber>& kept : fibers_) {
    if (kept.get() == &fiber) kept = std::make_unique<Fiber>(run_);
  }
}

}  // namespace jnorm::cuda::execution
