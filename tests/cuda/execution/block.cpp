#include "block.hpp"

#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "fault.hpp"

namespace jnorm::cuda::execution {

constinit thread_local Place place;

namespace {

constexpr int kLanes = 32;

thread_local Block* running_block = nullptr;
thread_local Fiber host;  // the launch, between the threads' turns

thread_local FiberPool fibers([] { running_block->run_thread(); });

// All threads of a block begin after what was before the launch, and what follows it comes after all of them.
sanitizer::Meeting beginning, end;

const char* name_of(Collective kind) {
  switch (kind) {
    case Collective::shuffle_xor: return "shuffle_xor";
    case Collective::shuffle: return "shuffle";
    case Collective::ballot: return "ballot";
    case Collective::warp_barrier: return "warp_barrier";
  }
  return "";
}

std::string to_string(SourceLine line) { return fmt::format("{}:{}", line.file_name(), line.line); }

bool same_line(SourceLine a, SourceLine b) { return a.line == b.line && std::strcmp(a.file, b.file) == 0; }

}  // namespace

std::size_t Dice::below(std::size_t limit) {
  std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return (z ^ (z >> 31)) % limit;
}

void ReadyThreads::add(int thread) { at(count_++) = static_cast<short>(thread); }

void ReadyThreads::shuffle_last(int count, Dice& dice) {
  const int begin = count_ - count;
  for (int i = count - 1; i > 0; --i) {
    std::swap(at(begin + i), at(begin + static_cast<int>(dice.below(static_cast<std::size_t>(i) + 1))));
  }
}

int ReadyThreads::take() {
  --count_;
  if (last_first_) return at(count_);
  const int thread = at(0);
  first_ = (first_ + 1) % static_cast<int>(ring_.size());
  return thread;
}

Block::Block(const char* operation, int threads, const std::function<void()>& body, std::uint64_t seed)
    : operation_(operation),
      body_(body),
      threads_(static_cast<std::size_t>(threads)),
      warps_(static_cast<std::size_t>(threads / kLanes)),
      warp_meetings_(warps_.size()),
      ready_(threads, seed % 2 == 1),
      dice_(seed) {}

Block::~Block() { sanitizer::acquire(end); }

void Block::run(const Place& where) {
  place = where;
  running_block = this;
  live_ = static_cast<int>(threads_.size());
  arrived_ = 0;
  fibers.begin_block(live_);
  for (Thread& thread : threads_) thread = {.fiber = &fibers.next()};
  if (sanitizer::kSeesRaces) name_threads();
  for (Warp& warp : warps_) warp = {};
  ready_.clear();
  release(0, live_, State::running);

  sanitizer::release(beginning);
  let_others_run(host);
  if (live_ == 0) return;

  sanitizer::acquire(end);
  if (fault_.empty() && thrown_ == nullptr) report_nothing_can_run();
  discard_stopped_threads();
  if (thrown_ != nullptr) std::rethrow_exception(thrown_);
  throw Fault(fmt::format("{}: block ({}, {}): {}", operation_, where.block_x, where.block_y, fault_));
}

void Block::name_threads() {
  for (int thread = 0; thread < static_cast<int>(threads_.size()); ++thread) {
    const std::string name =
        fmt::format("{}: block ({}, {}) thread {}", operation_, place.block_x, place.block_y, thread);
    threads_[static_cast<std::size_t>(thread)].fiber->set_name(name.c_str());
  }
}

void Block::discard_stopped_threads() {
  for (const Thread& thread : threads_) {
    if (thread.state != State::ended) fibers.discard(*thread.fiber);
  }
}

Block::Thread& Block::running_thread() { return threads_[static_cast<std::size_t>(place.thread)]; }

// The next thread that can go on does; where there is none, the launch.
void Block::let_others_run(Fiber& from) {
  const bool stopped = !fault_.empty() || thrown_ != nullptr;
  if (stopped || ready_.empty()) {
    sanitizer::release(end);
    from.switch_to(host);
    return;
  }
  place.thread = ready_.take();
  Fiber& next = *running_thread().fiber;
  if (&next != &from) from.switch_to(next);
}

void Block::release(int first, int count, State waiting) {
  int released = 0;
  for (int thread = first; thread < first + count; ++thread) {
    State& state = threads_[static_cast<std::size_t>(thread)].state;
    if (state != waiting) continue;
    state = State::running;
    ready_.add(thread);
    ++released;
  }
  ready_.shuffle_last(released, dice_);
}

void Block::run_thread() {
  sanitizer::acquire(beginning);
  try {
    body_();
  } catch (...) {
    thrown_ = std::current_exception();
  }
  if (thrown_ != nullptr) let_others_run(*running_thread().fiber);
  sanitizer::release(end);
  end_thread();
  let_others_run(*running_thread().fiber);
}

void Block::end_thread() {
  const int warp = place.thread / kLanes;
  running_thread().state = State::ended;
  --live_;
  ++warps_[static_cast<std::size_t>(warp)].ended;
  if (const int waiting = find(warp * kLanes, kLanes, State::in_warp); waiting >= 0) {
    fault_ = fmt::format("{}, but thread {} of its warp has ended", describe(waiting), place.thread);
  }
  if (arrived_ > 0 && arrived_ == live_) end_barrier();
}

void Block::wait_at_barrier(SourceLine line) {
  Thread& self = running_thread();
  self.state = State::at_barrier;
  self.line = line;
  sanitizer::Meeting& meeting = meetings_.current();
  sanitizer::release(meeting);
  if (++arrived_ == live_) end_barrier();
  let_others_run(*running_thread().fiber);
  sanitizer::acquire(meeting);
}

void Block::end_barrier() {
  expect_whole_warps_at_barrier();
  arrived_ = 0;
  meetings_.odd = !meetings_.odd;
  release(0, static_cast<int>(threads_.size()), State::at_barrier);
}

void Block::expect_whole_warps_at_barrier() {
  const int first = find(0, static_cast<int>(threads_.size()), State::at_barrier);
  for (int thread = first; thread < static_cast<int>(threads_.size()); ++thread) {
    const Thread& other = threads_[static_cast<std::size_t>(thread)];
    if (other.state != State::at_barrier) continue;
    if (!same_line(other.line, threads_[static_cast<std::size_t>(first)].line)) {
      fault_ = fmt::format("{}, but {}: the barrier is divergent", describe(first), describe(thread));
    } else if (warps_[static_cast<std::size_t>(thread / kLanes)].ended > 0) {
      fault_ = fmt::format("{}, but thread {} of its warp has ended: the barrier is divergent", describe(thread),
                           find(thread / kLanes * kLanes, kLanes, State::ended));
    }
    if (!fault_.empty()) return;
  }
}

std::uint64_t Block::wait_in_warp(Collective kind, std::uint64_t value, int source_lane, SourceLine line) {
  const int number = place.thread / kLanes;
  Warp& warp = warps_[static_cast<std::size_t>(number)];
  Thread& self = running_thread();
  self = {.state = State::in_warp,
          .kind = kind,
          .source_lane = source_lane,
          .line = line,
          .value = value,
          .fiber = self.fiber};
  if (warp.ended > 0) {
    fault_ = fmt::format("{}, but thread {} of its warp has ended", describe(place.thread),
                         find(number * kLanes, kLanes, State::ended));
    stop();
  }
  if (warp.arrived == 0) warp.first_to_arrive = place.thread;
  const Thread& first = threads_[static_cast<std::size_t>(warp.first_to_arrive)];
  if (first.kind != kind || !same_line(first.line, line)) {
    fault_ = fmt::format("{}, but {}", describe(place.thread), describe(warp.first_to_arrive));
    stop();
  }
  // Shuffles and ballots promise no order of what is read and written beside them.
  sanitizer::Meeting* const meeting =
      kind == Collective::warp_barrier ? &warp_meetings_[static_cast<std::size_t>(number)].current() : nullptr;
  if (meeting != nullptr) sanitizer::release(*meeting);
  if (++warp.arrived == kLanes) end_collective(number);
  let_others_run(*running_thread().fiber);
  if (meeting != nullptr) sanitizer::acquire(*meeting);
  return running_thread().value;
}

void Block::end_collective(int warp) {
  Thread* const lanes = &threads_[static_cast<std::size_t>(warp * kLanes)];
  std::array<std::uint64_t, kLanes> brought{};
  std::uint64_t votes = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    brought[static_cast<std::size_t>(lane)] = lanes[lane].value;
    if (lanes[lane].value != 0) votes |= std::uint64_t{1} << lane;
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    lanes[lane].value = lanes[lane].kind == Collective::ballot
                            ? votes
                            : brought[static_cast<std::size_t>(lanes[lane].source_lane % kLanes)];
  }
  if (lanes->kind == Collective::warp_barrier) {
    bool& odd = warp_meetings_[static_cast<std::size_t>(warp)].odd;
    odd = !odd;
  }
  warps_[static_cast<std::size_t>(warp)].arrived = 0;
  release(warp * kLanes, kLanes, State::in_warp);
}

int Block::find(int first, int count, State state) const {
  for (int thread = first; thread < first + count; ++thread) {
    if (threads_[static_cast<std::size_t>(thread)].state == state) return thread;
  }
  return -1;
}

std::string Block::describe(int thread) const {
  const Thread& self = threads_[static_cast<std::size_t>(thread)];
  switch (self.state) {
    case State::at_barrier: return fmt::format("thread {} waits at a barrier at {}", thread, to_string(self.line));
    case State::in_warp:
      return fmt::format("thread {} waits in {} at {}", thread, name_of(self.kind), to_string(self.line));
    default: return fmt::format("thread {}", thread);
  }
}

void Block::report_nothing_can_run() {
  const int count = static_cast<int>(threads_.size());
  const int at_barrier = find(0, count, State::at_barrier), in_warp = find(0, count, State::in_warp);
  fault_ = at_barrier < 0
               ? fmt::format("{}, but not all of its warp do", describe(in_warp))
               : fmt::format("{}, but {}: the barrier is divergent", describe(at_barrier), describe(in_warp));
}

void Block::stop_misaligned(const void* address, std::size_t bytes, SourceLine line) {
  fault_ = fmt::format("thread {} loads or stores {} bytes at {}, which is misaligned, at {}", place.thread, bytes,
                       address, to_string(line));
  stop();
}

// No string may live on the stack of a thread that is stopped: nothing there is destroyed.
void Block::stop() {
  let_others_run(*running_thread().fiber);
  std::terminate();  // nobody goes on with it
}

void block_barrier(SourceLine line) { running_block->wait_at_barrier(line); }

std::uint64_t collective(Collective kind, std::uint64_t value, int source_lane, SourceLine line) {
  return running_block->wait_in_warp(kind, value, source_lane, line);
}

void report_misaligned(const void* address, std::size_t bytes, SourceLine line) {
  running_block->stop_misaligned(address, bytes, line);
}

}  // namespace jnorm::cuda::execution
