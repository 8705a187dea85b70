#include <jnorm/core/parallel.hpp>

#include <algorithm>

#include <omp.h>

#include <jnorm/core/expect.hpp>

namespace jnorm {

int thread_count() { return omp_get_max_threads(); }

void set_thread_count(int threads) {
  expect(threads > 0, "threads: expected a positive number, got {}", threads);
  omp_set_num_threads(threads);
}

void detail::run_chunks(Index count, Index grain, ChunkCall call, void* body) {
  const Index chunks = (count + grain - 1) / grain;
  const int threads = static_cast<int>(std::min<Index>(chunks, omp_in_parallel() != 0 ? 1 : omp_get_max_threads()));
  if (threads <= 1) {
    for (Index chunk = 0; chunk < chunks; ++chunk) {
      call(body, chunk * grain, std::min(count, (chunk + 1) * grain));
    }
    return;
  }
#pragma omp parallel for num_threads(threads) schedule(static)
  for (Index chunk = 0; chunk < chunks; ++chunk) {
    call(body, chunk * grain, std::min(count, (chunk + 1) * grain));
  }
}

}  // namespace jnorm
