// Runs the kernels' tests on the first GPU, or says why there is none.

#define DOCTEST_CONFIG_IMPLEMENT
#include <cstdio>

#include <doctest/doctest.h>

#include "cuda/test_device.hpp"

bool jnorm::test::on_gpu() { return true; }
int jnorm::test::schedules() { return 1; }
void jnorm::test::set_schedule(std::uint64_t /*seed*/) {}

int main(int count, char** arguments) {
  if (const std::string reason = jnorm::cuda::why_none(); !reason.empty()) {
    std::printf("SKIP: %s\n", reason.c_str());
    return 0;
  }
  return doctest::Context(count, arguments).run();
}
