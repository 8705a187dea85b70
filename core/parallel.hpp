#pragma once

#include <type_traits>

#include <jnorm/core/shape.hpp>

namespace jnorm {

// The number of threads that kernels called from this thread use, itself included. At first the number of cores that
// the process may use, or OMP_NUM_THREADS.
int thread_count();
void set_thread_count(int threads);  // throws Error(argument) if it isn't positive

// Calls body(begin, end) over [0, count) cut into chunks of `grain` (the last one shorter), on all threads.
// The chunks follow from count and grain alone, so results don't depend on the number of threads.
// Nested calls run on the calling thread. The body must not throw.
template <class Body>
void parallel_for(Index count, Index grain, Body&& body);

namespace detail {
using ChunkCall = void (*)(void* body, Index begin, Index end);
void run_chunks(Index count, Index grain, ChunkCall call, void* body);
}  // namespace detail

template <class Body>
void parallel_for(Index count, Index grain, Body&& body) {
  if (count <= grain) {  // the common case at toy sizes: no team is woken
    if (count > 0) body(Index{0}, count);
    return;
  }
  auto call = [](void* erased, Index begin, Index end) {
    (*static_cast<std::remove_reference_t<Body>*>(erased))(begin, end);
  };
  detail::run_chunks(count, grain, call, const_cast<void*>(static_cast<const void*>(&body)));
}

// A grain that gives each chunk about 32,768 elements of work, so that waking a thread pays.
constexpr Index grain_for(Index work_per_item) {
  constexpr Index target = 32768;
  return work_per_item >= target ? 1 : target / (work_per_item > 0 ? work_per_item : 1);
}

}  // namespace jnorm
