#include <jnorm/core/parallel.hpp>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include <jnorm/core/expect.hpp>

// Note [Threads that nobody waits for]
//
// The loops here take microseconds, and a thread that the system has put aside comes back after milliseconds. A barrier
// would wait for it; on a busy machine a training step then takes ten times as long as on one core. So the calling
// thread hands out chunks and takes them itself like any other: workers that are awake help, and it waits at the end
// only for chunks that a worker has begun.
//
// Workers spin for a moment after a loop, since the next one is near in a training step, and then sleep.

namespace jnorm {

namespace {

// About 50 microseconds of looking for the next loop before a worker sleeps.
constexpr int kSpins = 2000;

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// Workers that help one calling thread with one loop at a time.
class Team {
 public:
  explicit Team(int workers) {
    for (int i = 0; i < workers; ++i) threads_.emplace_back([this] { work(); });
  }

  ~Team() {
    stop_.store(true, std::memory_order_relaxed);
    announce();
    for (std::thread& thread : threads_) thread.join();
  }

  int workers() const { return static_cast<int>(threads_.size()); }

  void run(Index count, Index grain, detail::ChunkCall call, void* body) {
    const auto chunks = static_cast<std::uint64_t>((count + grain - 1) / grain);
    // Close the last loop for stragglers before its description changes, then open this one.
    const std::uint64_t loop = (ticket_.load(std::memory_order_relaxed) >> kIndexBits) + 1;
    ticket_.store(ticket_of(loop, kClosed), std::memory_order_release);
    call_.store(call, std::memory_order_release);
    body_.store(body, std::memory_order_release);
    count_.store(count, std::memory_order_release);
    grain_.store(grain, std::memory_order_release);
    finished_.store(0, std::memory_order_relaxed);
    ticket_.store(ticket_of(loop, 0), std::memory_order_release);
    announce();
    take_chunks();
    for (int spins = 0; finished_.load(std::memory_order_acquire) != chunks; ++spins) {
      spins < kSpins ? pause_briefly() : std::this_thread::yield();
    }
  }

 private:
  // A ticket is the loop's number and the next chunk's, so that a late worker can't take a chunk of one loop for
  // another's.
  static constexpr int kIndexBits = 40;
  static constexpr std::uint64_t kClosed = std::uint64_t{1} << (kIndexBits - 1);
  static constexpr std::uint64_t ticket_of(std::uint64_t loop, std::uint64_t index) {
    return loop << kIndexBits | index;
  }

  void announce() {
    epoch_.fetch_add(1, std::memory_order_release);
    epoch_.notify_all();
  }

  void take_chunks() {
    while (true) {
      const std::uint64_t ticket = ticket_.fetch_add(1, std::memory_order_acq_rel);
      const detail::ChunkCall call = call_.load(std::memory_order_acquire);
      void* const body = body_.load(std::memory_order_acquire);
      const Index count = count_.load(std::memory_order_acquire);
      const Index grain = grain_.load(std::memory_order_acquire);
      // What was read belongs to the ticket's loop if that is still the current one. If it isn't, the loop has ended
      // without this chunk, so there was none.
      if (ticket_.load(std::memory_order_acquire) >> kIndexBits != ticket >> kIndexBits) continue;
      const std::uint64_t index = ticket & ((std::uint64_t{1} << kIndexBits) - 1);
      if (index >= kClosed) return;
      const Index begin = static_cast<Index>(index) * grain;
      if (begin >= count) return;
      call(body, begin, std::min(count, begin + grain));
      finished_.fetch_add(1, std::memory_order_release);
    }
  }

  void work();

  alignas(64) std::atomic<std::uint64_t> ticket_{ticket_of(0, kClosed)};
  alignas(64) std::atomic<std::uint64_t> finished_{0};  // chunks
  alignas(64) std::atomic<std::uint32_t> epoch_{0};     // counts loops, for workers to wait on
  std::atomic<detail::ChunkCall> call_{nullptr};
  std::atomic<void*> body_{nullptr};
  std::atomic<Index> count_{0};
  std::atomic<Index> grain_{1};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

thread_local bool inside_a_loop = false;  // on workers and, during a loop, on its caller

void Team::work() {
  inside_a_loop = true;
  std::uint32_t seen = 0;
  while (true) {
    for (int spins = 0; spins < kSpins && epoch_.load(std::memory_order_acquire) == seen; ++spins) pause_briefly();
    epoch_.wait(seen, std::memory_order_acquire);
    seen = epoch_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) return;
    take_chunks();
  }
}

int initial_thread_count() {
  const char* const setting = std::getenv("OMP_NUM_THREADS");
  int threads = 0;
  if (setting != nullptr) {
    const std::string_view text(setting);
    std::from_chars(text.data(), text.data() + text.size(), threads);
  }
  return threads > 0 ? threads : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

thread_local int threads_of_this_thread = initial_thread_count();
thread_local std::unique_ptr<Team> team;  // made when a loop first needs it

}  // namespace

int thread_count() { return threads_of_this_thread; }

void set_thread_count(int threads) {
  expect(threads > 0, "threads: expected a positive number, got {}", threads);
  threads_of_this_thread = threads;
}

void detail::run_chunks(Index count, Index grain, ChunkCall call, void* body) {
  if (threads_of_this_thread == 1 || inside_a_loop) {
    for (Index begin = 0; begin < count; begin += grain) call(body, begin, std::min(count, begin + grain));
    return;
  }
  if (team == nullptr || team->workers() != threads_of_this_thread - 1) {
    team.reset();  // the old workers end before the new ones start
    team = std::make_unique<Team>(threads_of_this_thread - 1);
  }
  inside_a_loop = true;
  team->run(count, grain, call, body);
  inside_a_loop = false;
}

}  // namespace jnorm
