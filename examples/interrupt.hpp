#pragma once

#include <atomic>
#include <csignal>

namespace jnorm {

// While it lives, Control-C (a request to terminate, or a terminal that is closed) sets a flag instead of ending the
// program, so that a run can write its checkpoint. A second Control-C ends it at once.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  const std::atomic<bool>& requested() const;

 private:
  struct sigaction earlier_interrupt_ {};
  struct sigaction earlier_terminate_ {};
  struct sigaction earlier_hangup_ {};
};

}  // namespace jnorm
