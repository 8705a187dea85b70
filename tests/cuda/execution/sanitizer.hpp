#pragma once

// What the sanitizers have to be told of fibers; nothing in a build without them. The unit that calls this is compiled
// without ThreadSanitizer's instrumentation even where kernels have it (JNORM_EXECUTION_RACES): what the execution
// itself reads and writes would otherwise look like races.

#include <cstddef>

#if defined(JNORM_EXECUTION_RACES)
// Of sanitizer/tsan_interface.h, which clang 14 doesn't install.
// NOLINTBEGIN(readability-identifier-naming)
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wreserved-identifier"
#endif
extern "C" {
void* __tsan_get_current_fiber(void);
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_set_fiber_name(void* fiber, const char* name);
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}
#if defined(__clang__)
#pragma clang diagnostic pop
#endif
// NOLINTEND(readability-identifier-naming)
#endif
#if defined(__SANITIZE_ADDRESS__)
#define JNORM_EXECUTION_ADDRESSES
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define JNORM_EXECUTION_ADDRESSES
#endif
#endif
#if defined(JNORM_EXECUTION_ADDRESSES)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace jnorm::cuda::execution::sanitizer {

// A point where some threads wait for others: what is written before one's release is seen after another's acquire.
struct Meeting {
  char address = 0;
};

#if defined(JNORM_EXECUTION_RACES)
inline constexpr bool kSeesRaces = true;
inline void release(Meeting& meeting) { __tsan_release(&meeting.address); }
inline void acquire(Meeting& meeting) { __tsan_acquire(&meeting.address); }
inline void* current_thread() { return __tsan_get_current_fiber(); }
inline void* make_thread() { return __tsan_create_fiber(0); }
inline void end_thread(void* thread) { __tsan_destroy_fiber(thread); }
inline void name_thread(void* thread, const char* name) { __tsan_set_fiber_name(thread, name); }
inline void run_as(void* thread) {
  constexpr unsigned without_order = 1;
  __tsan_switch_to_fiber(thread, without_order);
}
#else
inline constexpr bool kSeesRaces = false;
inline void release(Meeting& /*meeting*/) {}
inline void acquire(Meeting& /*meeting*/) {}
inline void* current_thread() { return nullptr; }
inline void* make_thread() { return nullptr; }
inline void end_thread(void* /*thread*/) {}
inline void name_thread(void* /*thread*/, const char* /*name*/) {}
inline void run_as(void* /*thread*/) {}
#endif

// A stack, as AddressSanitizer knows it.
struct Stack {
  const void* bottom = nullptr;
  std::size_t bytes = 0;
};

#if defined(JNORM_EXECUTION_ADDRESSES)
inline void leave(void** saved, const Stack& next) { __sanitizer_start_switch_fiber(saved, next.bottom, next.bytes); }
inline void arrive(void* saved, Stack& before) {
  __sanitizer_finish_switch_fiber(saved, &before.bottom, &before.bytes);
}
inline void forget(const Stack& stack) { __asan_unpoison_memory_region(stack.bottom, stack.bytes); }
#else
inline void leave(void** /*saved*/, const Stack& /*next*/) {}
inline void arrive(void* /*saved*/, Stack& /*before*/) {}
inline void forget(const Stack& /*stack*/) {}
#endif

}  // namespace jnorm::cuda::execution::sanitizer
