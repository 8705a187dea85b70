#include "interrupt.hpp"

namespace jnorm {

namespace {

std::atomic<bool> stop_requested{false};  // a signal handler can reach only a global
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void request_stop(int signal) {
  if (stop_requested.exchange(true)) std::raise(signal);  // SA_RESETHAND: now with its usual effect
}

}  // namespace

InterruptGuard::InterruptGuard() {
  stop_requested = false;
  struct sigaction action {};
  action.sa_handler = request_stop;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &earlier_interrupt_);
  sigaction(SIGTERM, &action, &earlier_terminate_);
  sigaction(SIGHUP, nullptr, &earlier_hangup_);
  if (earlier_hangup_.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);  // nohup asks to go on
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &earlier_interrupt_, nullptr);
  sigaction(SIGTERM, &earlier_terminate_, nullptr);
  sigaction(SIGHUP, &earlier_hangup_, nullptr);
}

const std::atomic<bool>& InterruptGuard::requested() const { return stop_requested; }

}  // namespace jnorm
