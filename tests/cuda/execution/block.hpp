#pragma once

// Runs the blocks of a kernel: each thread goes on to its next barrier or warp collective, in an order that a seed
// decides, and waits there for those that belong to it.

#include <array>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include <jnorm/cuda/config.hpp>

#include "fiber.hpp"
#include "machine.hpp"

namespace jnorm::cuda::execution {

// SplitMix64.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}
  std::size_t below(std::size_t limit);

 private:
  std::uint64_t state_;
};

// The threads of a block that can go on. Those that came first go on first, or, so that one warp runs far ahead of the
// others, those that came last.
class ReadyThreads {
 public:
  ReadyThreads(int capacity, bool last_first) : ring_(static_cast<std::size_t>(capacity)), last_first_(last_first) {}
  void clear() { first_ = count_ = 0; }
  bool empty() const { return count_ == 0; }
  void add(int thread);
  void shuffle_last(int count, Dice& dice);
  int take();

 private:
  short& at(int i) { return ring_[static_cast<std::size_t>((first_ + i) % static_cast<int>(ring_.size()))]; }

  std::vector<short> ring_;
  int first_ = 0, count_ = 0;
  bool last_first_;
};

class Block {
 public:
  // Blocks of one launch: `body` is what each thread runs.
  Block(const char* operation, int threads, const std::function<void()>& body, std::uint64_t seed);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  // Runs the block at that place. Throws the Fault of a thread that does what no GPU allows or defines; what the
  // body throws passes through.
  void run(const Place& where);

  // On a thread's fiber:
  void run_thread();
  void wait_at_barrier(SourceLine line);
  std::uint64_t wait_in_warp(Collective kind, std::uint64_t value, int source_lane, SourceLine line);
  [[noreturn]] void stop_misaligned(const void* address, std::size_t bytes, SourceLine line);

 private:
  enum class State : std::uint8_t { running, at_barrier, in_warp, ended };
  struct Thread {
    State state = State::running;
    Collective kind{};
    int source_lane = 0;
    SourceLine line{};
    std::uint64_t value = 0;
    Fiber* fiber = nullptr;
  };
  struct Warp {
    int arrived = 0, ended = 0;
    int first_to_arrive = 0;
  };
  // Where threads meet again and again: two in turn, so that one who still leaves doesn't meet those who arrive.
  struct Meetings {
    std::array<sanitizer::Meeting, 2> turns;
    bool odd = false;
    sanitizer::Meeting& current() { return turns[odd ? 1 : 0]; }
  };

  Thread& running_thread();
  [[noreturn]] void stop();
  void let_others_run(Fiber& from);
  void discard_stopped_threads();
  void name_threads();
  void release(int first, int count, State waiting);
  void end_thread();
  void end_barrier();
  void end_collective(int warp);
  int find(int first, int count, State state) const;  // a thread in that state, or -1
  void expect_whole_warps_at_barrier();
  void report_nothing_can_run();
  std::string describe(int thread) const;  // "thread 3 waits at a barrier at reduce.cuh:148"

  const char* operation_;
  const std::function<void()>& body_;
  int live_ = 0, arrived_ = 0;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::vector<Meetings> warp_meetings_;
  Meetings meetings_;
  ReadyThreads ready_;
  Dice dice_;
  std::string fault_;
  std::exception_ptr thrown_;
};

}  // namespace jnorm::cuda::execution
