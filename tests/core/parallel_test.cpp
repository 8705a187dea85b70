#include <doctest/doctest.h>

#include <atomic>
#include <thread>
#include <vector>

#include <jnorm/core/error.hpp>
#include <jnorm/core/parallel.hpp>

using namespace jnorm;

namespace {

// Sets the number of threads for one test.
struct WithThreads {
  explicit WithThreads(int threads) : before(thread_count()) { set_thread_count(threads); }
  ~WithThreads() { set_thread_count(before); }
  int before;
};

}  // namespace

TEST_CASE("parallel_for: every index is visited once, in chunks that follow from count and grain alone") {
  for (const int threads : {1, 2, 5}) {
    const WithThreads with(threads);
    for (const Index count : {1, 7, 64, 1000}) {
      for (const Index grain : {1, 3, 64}) {
        std::vector<std::atomic<int>> visits(static_cast<std::size_t>(count));
        std::atomic<bool> aligned = true;
        parallel_for(count, grain, [&](Index begin, Index end) {
          const bool whole = begin % grain == 0 && (end - begin == grain || end == count);
          if (!whole && count > grain) aligned = false;
          for (Index i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
        });
        CHECK(aligned);
        for (const auto& visit : visits) CHECK(visit == 1);
      }
    }
  }
}

TEST_CASE("parallel_for: nothing is called for no items") {
  int calls = 0;
  parallel_for(0, 4, [&](Index, Index) { ++calls; });
  CHECK(calls == 0);
}

TEST_CASE("parallel_for: thousands of short loops in a row lose nothing") {
  const WithThreads with(4);
  std::atomic<Index> total = 0;
  for (int loop = 0; loop < 20000; ++loop) {
    parallel_for(5, 1, [&](Index begin, Index end) { total += end - begin; });
  }
  CHECK(total == 100000);
}

TEST_CASE("parallel_for: a loop inside a loop runs on the thread that is in it") {
  const WithThreads with(3);
  std::atomic<Index> total = 0;
  std::atomic<bool> stayed = true;
  parallel_for(6, 1, [&](Index, Index) {
    const std::thread::id outer = std::this_thread::get_id();
    parallel_for(10, 1, [&](Index begin, Index end) {
      if (std::this_thread::get_id() != outer) stayed = false;
      total += end - begin;
    });
  });
  CHECK(total == 60);
  CHECK(stayed);
}

TEST_CASE("parallel_for: two threads that both have loops don't meet") {
  std::atomic<Index> total = 0;
  const auto loops = [&] {
    set_thread_count(2);
    for (int i = 0; i < 2000; ++i) {
      parallel_for(4, 1, [&](Index begin, Index end) { total += end - begin; });
    }
  };
  std::thread other(loops);
  const WithThreads with(2);
  loops();
  other.join();
  CHECK(total == 16000);
}

TEST_CASE("set_thread_count: it must be positive") {
  CHECK_THROWS_WITH_AS(set_thread_count(0), "threads: expected a positive number, got 0", Error);
}
