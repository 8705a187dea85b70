// What runs the kernels of the other tests on a CPU, and its reports of what no GPU allows or defines.

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <jnorm/cuda/launch.cuh>
#include <jnorm/cuda/pack.cuh>

#include "cuda/execution/fault.hpp"
#include "cuda/execution/memory_limit.hpp"
#include "cuda/test_device.hpp"

namespace jnorm::cuda {

namespace {

using doctest::Contains;
using execution::Fault;
using test::for_each_schedule;
using test::test_context;
using test::test_device;

Tensor device_zeros(Index count) { return zeros({count}, DType::float32, test_device()); }

// The elements of y [count], which the kernel takes, after a launch.
std::vector<double> run(const LaunchConfig& config, void (*kernel)(float*), Index count) {
  const Tensor y = device_zeros(count);
  launch("kernel", test_context(), config, kernel, output<float>(y));
  return y.values();
}

float as_float(Index number) { return static_cast<float>(number); }

JNORM_KERNEL(64) write_place(float* y) {
  const Index block = block_y() * grid_x() + block_x();
  y[block * block_size() + thread_index()] = as_float(100 * block_y() + 10 * block_x() + thread_index() / 32);
}

JNORM_KERNEL(32) collect(float* y) {
  const int lane = thread_index();
  y[lane] = shuffle_xor(as_float(lane), 3);
  y[32 + lane] = static_cast<float>(shuffle(0.5 * lane, 7));
  y[64 + lane] = as_float(ballot(lane < 5));
}

// y counts how many came before, in the order in which threads run.
JNORM_KERNEL(64) write_order(float* y) {
  auto* const arrived = reinterpret_cast<int*>(y + 64);
  y[thread_index()] = as_float(*arrived);
  atomic_add(arrived, 1);
}

JNORM_KERNEL(64) pass_left_through_shared_memory(float* y) {
  auto* const shared = dynamic_smem<float>();
  shared[thread_index()] = as_float(thread_index());
  block_barrier();
  y[thread_index()] = shared[(thread_index() + 1) % block_size()];
}

JNORM_KERNEL(32) read_shared_memory(float* y) { y[thread_index()] = dynamic_smem<float>()[thread_index()]; }

}  // namespace

TEST_CASE("execution: every thread of every block runs, and knows its place") {
  for_each_schedule([] {
    const std::vector<double> y = run({.blocks_x = 3, .threads = 64, .blocks_y = 2}, write_place, 384);
    CHECK(y[0] == 0);
    CHECK(y[63] == 1);
    CHECK(y[160] == 21);
    CHECK(y[192] == 100);
    CHECK(y[383] == 121);
  });
}

TEST_CASE("execution: lanes of a warp exchange what they bring") {
  for_each_schedule([] {
    const std::vector<double> y = run({.threads = 32}, collect, 96);
    for (std::size_t lane = 0; lane < 32; ++lane) {
      CHECK(y[lane] == static_cast<double>(lane ^ 3));
      CHECK(y[32 + lane] == 3.5);
      CHECK(y[64 + lane] == 31);
    }
  });
}

TEST_CASE("execution: schedules differ in the order of threads, one schedule doesn't from run to run") {
  std::vector<std::vector<double>> orders;
  for_each_schedule([&] { orders.push_back(run({.threads = 64}, write_order, 65)); });
  CHECK(orders[0] != orders[1]);
  CHECK(orders[0] == run({.threads = 64}, write_order, 65));
}

TEST_CASE("execution: what is written before a barrier is read after it, in every order") {
  for_each_schedule([] {
    const std::vector<double> y = run({.threads = 64, .shared_bytes = 256}, pass_left_through_shared_memory, 64);
    CHECK(y[0] == 1);
    CHECK(y[31] == 32);
    CHECK(y[63] == 0);
  });
}

TEST_CASE("execution: shared memory that nobody wrote is NaN, in the second block too") {
  for (const double value : run({.blocks_x = 2, .threads = 32, .shared_bytes = 128}, read_shared_memory, 32)) {
    CHECK(std::isnan(value));
  }
}

TEST_CASE("execution: an exception comes through a launch, and the next launch runs") {
  const auto thrower = [](float* /*y*/) {
    block_barrier();
    if (thread_index() == 5) throw std::runtime_error("thrown on a fiber");
    block_barrier();
  };
  CHECK_THROWS_WITH_AS(run({.threads = 64}, thrower, 64), "thrown on a fiber", std::runtime_error);
  CHECK(run({.threads = 32}, collect, 96)[0] == 3);
}

// Each fault is found in every schedule.
void expect_fault(void (*kernel)(float*), const std::string& report) {
  for_each_schedule([&] { CHECK_THROWS_WITH_AS(run({.threads = 64}, kernel, 256), Contains(report.c_str()), Fault); });
}

TEST_CASE("execution: a barrier is divergent where lanes of its warps have ended") {
  const auto kernel = [](float* /*y*/) {
    if (thread_index() < 40) block_barrier();
  };
  expect_fault(kernel, "kernel: block (0, 0): thread 32 waits at a barrier at execution_test.cpp:");
  expect_fault(kernel, "of its warp has ended: the barrier is divergent");
}

TEST_CASE("execution: a barrier is divergent where threads wait at two lines") {
  expect_fault(
      [](float* /*y*/) {
        if (thread_index() < 32) {  // NOLINT(bugprone-branch-clone): the two lines are what is tested
          block_barrier();
        } else {
          block_barrier();
        }
      },
      "thread 0 waits at a barrier at execution_test.cpp:");
}

TEST_CASE("execution: a barrier is divergent where others wait for their warp") {
  expect_fault(
      [](float* /*y*/) {
        if (thread_index() < 40) {
          block_barrier();
        } else {
          ballot(true);
        }
      },
      "thread 0 waits at a barrier at execution_test.cpp:");
}

TEST_CASE("execution: whole warps may end before a barrier of the others") {
  CHECK_NOTHROW(run(
      {.threads = 64},
      [](float* /*y*/) {
        if (thread_index() >= 32) block_barrier();
      },
      64));
}

TEST_CASE("execution: lanes that call different collectives are reported") {
  expect_fault(
      [](float* y) {
        if (thread_index() % 2 == 0) {
          y[thread_index()] = shuffle_xor(1.0F, 2);
        } else {
          y[thread_index()] = as_float(ballot(true));
        }
      },
      " waits in ballot at execution_test.cpp:");
}

TEST_CASE("execution: a collective that a lane doesn't reach is reported") {
  expect_fault(
      [](float* y) {
        if (thread_index() != 40) y[thread_index()] = shuffle(1.0F, 0);
      },
      "but thread 40 of its warp has ended");
}

TEST_CASE("execution: a misaligned pack is reported, an aligned one isn't") {
  expect_fault(
      [](float* y) {
        if (thread_index() == 33) store_pack(y + 3, Pack<float, 4>{});
      },
      "thread 33 loads or stores 16 bytes at 0x");
  CHECK_NOTHROW(run(
      {.threads = 64}, [](float* y) { store_pack(y + Index{4} * thread_index(), Pack<float, 4>{}); }, 256));
}

TEST_CASE("execution: the limits of GPUs hold") {
  const auto nothing = [](float* /*y*/) {};
  const auto expect_refused = [&](const LaunchConfig& config, const char* reason) {
    CHECK_THROWS_WITH_AS(run(config, nothing, 1), Contains(reason), Fault);
  };
  expect_refused({.threads = 32, .blocks_y = 65536}, "kernel: 1 x 65536 blocks of 32 threads");
  expect_refused({.blocks_x = Index{1} << 31, .threads = 32}, "x has 1 to 2147483647 blocks");
  expect_refused({.threads = 1056}, "a block has 1 to 1024 threads");
  expect_refused({.threads = 48}, "whole warps");
  expect_refused({.threads = 32, .shared_bytes = 232449}, "less shared memory");
  CHECK_NOTHROW(run({.threads = 1024, .shared_bytes = 232448, .blocks_y = 2}, nothing, 1));
}

TEST_CASE("execution: a device has no more memory than it is said to have, and goes on after a refusal") {
  test_context().memory.trim();
  execution::set_memory_limit(1 << 20);
  CHECK_THROWS_WITH(device_zeros(1 << 20), Contains("out of memory"));
  CHECK(device_zeros(1 << 10).values()[0] == 0);
  execution::set_memory_limit(execution::kDefaultMemoryLimit);
}

}  // namespace jnorm::cuda
