#include <doctest/doctest.h>

#include <jnorm/cuda/bytes_moved.hpp>

using namespace jnorm;
using namespace jnorm::cuda;

TEST_CASE("bytes moved: reductions read each element once, and write and read partial sums") {
  CHECK(row_reduction_bytes(8192, 4096, 4) == 134217728);
  CHECK(column_sum_bytes(8192, 4096, 2, 0) == 67108864);
  CHECK(column_sum_bytes(8192, 4096, 2, 64) == 67108864 + 2097152);
  CHECK(global_norm_bytes(124439808, 4) == 497759232);
}

TEST_CASE("bytes moved: a step reads the gradient, and reads and writes the parameter and its moments") {
  CHECK(optimizer_step_bytes(1000, 4, 2, 4) == 28000);  // AdamW in float32
  CHECK(optimizer_step_bytes(1000, 2, 2, 4) == 22000);  // in bfloat16, moments in float32
  CHECK(optimizer_step_bytes(1000, 4, 0, 4) == 12000);  // plain SGD
}

TEST_CASE("bytes moved: counts beyond 32 bits") { CHECK(row_reduction_bytes(1 << 20, 1 << 16, 4) == 274877906944); }
