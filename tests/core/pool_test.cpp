#include <jnorm/core/pool.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <jnorm/core/error.hpp>

using namespace jnorm;

namespace {

// Runs the body on a thread of its own, whose pool is new: its counters start at 0.
template <class Body>
void with_new_pool(Body&& body) {
  std::thread(body).join();
}

}  // namespace

TEST_CASE("a second request of the same size asks the system for nothing") {
  with_new_pool([] {
    const pool::Block first = pool::take(1000);
    pool::give(first);
    const pool::Block second = pool::take(1000);
    CHECK(second.memory == first.memory);
    CHECK(pool::statistics().requests == 2);
    CHECK(pool::statistics().system_allocations == 1);
    pool::give(second);
  });
}

TEST_CASE("sizes of one class share their blocks, larger ones don't") {
  with_new_pool([] {
    pool::give(pool::take(1025));  // the class of 1025 to 1280 bytes
    pool::give(pool::take(1280));
    CHECK(pool::statistics().system_allocations == 1);
    pool::give(pool::take(1281));
    CHECK(pool::statistics().system_allocations == 2);
  });
}

TEST_CASE("a block holds what was asked for, wastes at most a quarter or 64 bytes, and is aligned to 64 bytes") {
  with_new_pool([] {
    for (std::int64_t bytes = 0; bytes < 5000; ++bytes) {
      const pool::Block block = pool::take(static_cast<std::size_t>(bytes));
      const std::int64_t size = pool::statistics().bytes_in_use;
      CHECK(size >= bytes);
      CHECK(size <= std::max<std::int64_t>(128, bytes + std::max<std::int64_t>(64, bytes / 4)));
      CHECK(reinterpret_cast<std::uintptr_t>(block.memory) % 64 == 0);
      std::memset(block.memory, 0xff, static_cast<std::size_t>(bytes));  // a sanitizer sees a block that is too short
      pool::give(block);
    }
  });
}

TEST_CASE("blocks that are held at the same time are different ones") {
  with_new_pool([] {
    const pool::Block a = pool::take(256);
    const pool::Block b = pool::take(256);
    CHECK(a.memory != b.memory);
    pool::give(a);
    pool::give(b);
  });
}

TEST_CASE("statistics tell what is in use, what was at most, and what is cached") {
  with_new_pool([] {
    const pool::Block a = pool::take(1024);
    const pool::Block b = pool::take(2048);
    pool::give(b);
    CHECK(pool::statistics().bytes_in_use == 1024);
    CHECK(pool::statistics().peak_bytes == 3072);
    CHECK(pool::statistics().bytes_cached == 2048);
    pool::reset_peak();
    CHECK(pool::statistics().peak_bytes == 1024);
    pool::give(a);
    CHECK(pool::statistics().bytes_in_use == 0);
    CHECK(pool::statistics().bytes_cached == 3072);
  });
}

TEST_CASE("trim gives the cached blocks back to the system, not those in use") {
  with_new_pool([] {
    const pool::Block kept = pool::take(1024);
    pool::give(pool::take(2048));
    pool::trim();
    CHECK(pool::statistics().bytes_cached == 0);
    CHECK(pool::statistics().bytes_in_use == 1024);
    std::memset(kept.memory, 0xff, 1024);
    pool::give(kept);
  });
}

TEST_CASE("a block that another thread took can be returned") {
  pool::Block block;
  with_new_pool([&block] { block = pool::take(4096); });
  with_new_pool([block] {
    pool::give(block);
    CHECK(pool::statistics().bytes_cached == 4096);
    CHECK(pool::take(4096).memory == block.memory);
    pool::give(block);
  });
}

TEST_CASE("a request beyond any memory is an error with its size") {
  CHECK_THROWS_WITH_AS(pool::take(std::size_t{1} << 46), "memory: 70368744177664 bytes were asked for at once", Error);
}
