// The executor behind on_cpu.hpp: threads, blocks, and what runs next.
//
// A fiber takes CUDA threads one after another and runs each to its end; only a thread that has to wait keeps
// its fiber, and another fiber goes on with the rest. A kernel without barriers therefore needs one fiber and
// no switch.
//
// A fiber that waits switches to the next one directly. A long launch in ascending order is shared by several
// OS threads (grid.hpp): each has an executor of its own and takes whole blocks.
//
// Everything that orders memory between threads passes through release_barrier, complete_collective, fence
// and atomic_point: there an observer (observer.hpp) is told.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cuda_impl/simt/async_copies.hpp"
#include "cuda_impl/simt/fiber.hpp"
#include "cuda_impl/simt/grid.hpp"
#include "cuda_impl/simt/observer.hpp"
#include "cuda_impl/simt/on_cpu.hpp"

namespace sinktrap::simt {

inline constexpr unsigned kWarp = 32;
inline constexpr unsigned kMaxBlockThreads = 1024;          // CUDA: maximum threads per block
inline constexpr std::size_t kMaxSharedBytes = 227 * 1024;  // sm_90, sm_100: opt-in maximum per block
inline constexpr unsigned kResidentBlocks = 4;              // blocks that interleave under a random schedule
inline constexpr std::uint64_t kIdleAtomics =
    10'000'000;  // atomics without progress that count as a livelock

inline constexpr std::uint64_t kSpin = 1024;  // atomics in a row that look like a spin wait

// The text that error() gives, for this OS thread.
void set_error(std::string text);
// The first damaged guard of the device allocations, as text; empty when all are whole. Reported damage is
// repaired.
std::string damaged_device_memory();

// "cuda_impl/forward.cu:31"
std::string text_of(const Site& site);
// Where an address lies, for reports: "device allocation 3 of 40 bytes, byte 8"; empty when in none.
std::string device_place(const void* address);

// Room for the guards and the alignment of a few variables beside what the hardware has.
inline constexpr std::size_t kSharedCapacity = kMaxSharedBytes + 32 * 1024;

// Shared memory of one block: variables between guard bytes.
class SharedMemory {
 public:
  SharedMemory() = default;
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();
  void reset();
  const void* base();  // of kSharedCapacity bytes
  // Null when the block has no room left.
  void* variable(const void* key, std::size_t bytes, std::size_t alignment);
  bool intact() const;

 private:
  struct Variable {
    const void* key;
    std::size_t begin, bytes;
  };
  std::unique_ptr<unsigned char[]> bytes_;
  std::vector<Variable> variables_;
  std::size_t used_ = 0;
};

enum class State : std::uint8_t { runnable, at_barrier, at_warp, returned };

struct Block;
struct Thread {
  State state = State::runnable;
  detail::WarpOperation operation{};
  unsigned linear = 0;
  uint3 index{};
  Block* block = nullptr;
  Fiber* fiber = nullptr;  // null: not started
  Site site{};
  std::uint32_t mask = 0;
  unsigned source = 0;
  std::uint64_t value = 0, result = 0;
  AsyncCopies copies;
  unsigned lane() const { return linear % kWarp; }
};

struct Block {
  unsigned slot = 0;  // its place among the blocks of its executor
  uint3 index{};
  dim3 shape{0, 0, 0};  // that `threads` is made for
  unsigned live = 0;    // threads that have not returned
  unsigned at_barrier = 0, at_warp = 0;
  unsigned started = 0;  // ascending schedule: threads [0, started) have begun
  std::size_t ready_head = 0;
  // Lanes of each warp that wait at a collective, and that have returned.
  std::uint32_t waiting[kMaxBlockThreads / kWarp]{}, returned[kMaxBlockThreads / kWarp]{};
  std::uint32_t mixed = 0;  // warps whose waiting lanes are not all at the same collective
  Site barrier{};
  std::vector<Thread> threads;
  std::vector<unsigned> unstarted;  // random schedule
  std::vector<Thread*> ready;       // waited, and may go on
  SharedMemory shared;
};

class Executor {
  using Clock = std::chrono::steady_clock;

 public:
  static Executor& of_this_thread();
  // Null without the race runtime, and for memory that is released when the thread ends.
  static Observer* observer_of_this_thread();
  Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  ~Executor();
  bool run(const Config& config, void (*call)(void*), void* closure);
  // Takes blocks of a launch that another executor began, until there are none; the fault that ended it, if
  // any.
  std::string help(Grid& grid);
  // Why this configuration cannot be launched; empty when it can.
  std::string refusal(const Config& config) const;

  void barrier(Site site);
  std::uint64_t collective(detail::WarpOperation operation, std::uint32_t mask, std::uint64_t value,
                           unsigned source, Site site);
  void* shared_variable(const void* key, std::size_t bytes, std::size_t alignment);
  void atomic_point(const void* address, std::size_t bytes, Site site);
  void fence(bool block_scope);
  void touch(detail::Access kind, const void* address, std::size_t bytes, Site site);
  // Called between memory accesses where the race runtime is linked: another thread may run here.
  void interrupt(bool in_any_schedule = false);
  // Now and then another thread runs: who reads a volatile variable may be waiting for it.
  void volatile_read();
  unsigned lane() const { return current_->lane(); }
  std::string who_runs() const;  // "block (0,0,0) thread (1,0,0)"; empty outside of kernels
  const Config& config() const { return *config_; }
  Observer* observer() const { return observer_.get(); }
  // Around work of the executor on behalf of the running thread: none of it is an access of the kernel.
  void leave() {
    if (observer_) observer_->leave();
  }
  void go_back() {
    if (observer_) enter(*current_);
  }
  AsyncCopies& copies() { return current_->copies; }
  [[noreturn]] void fail(const std::string& what);  // ends the launch, from the running thread
  std::uint64_t schedule = 0;

 private:
  struct Abandon {};  // unwinds a thread of a launch that has failed

  void prepare(Grid& grid);
  void run_blocks();
  Thread* pick();  // what runs next; null: nothing can
  Thread* pick_any();
  Thread* take(Block& block);
  Thread* take_ready(Block& block);
  bool start_block();  // false: there is none left
  void retire(Block& block);
  void work(Fiber& self);
  void run_thread(Thread& thread, Fiber& fiber);
  void finish(Thread& thread);
  void enter(Thread& thread);
  inline void wait();     // the current thread cannot go on: something else runs
  inline void go_away();  // the same, without the exception that ends a thread of a failed launch
  void make_ready(Thread& thread);
  void release_barrier(Block& block, Thread& last);
  bool lanes_agree(const Block& block, const Thread& self, unsigned lanes);
  void complete_collective(Block& block, unsigned first_lane, Thread& last);
  void go_on(Thread& last);
  void abandon_all();
  Fiber& idle_fiber();
  unsigned random(std::size_t below);
  void note_fault(const std::string& what);
  std::string describe(const Block& block) const;

  Grid* grid_ = nullptr;
  const Config* config_ = nullptr;
  void (*call_)(void*) = nullptr;
  void* closure_ = nullptr;
  Thread* current_ = nullptr;
  Thread* chosen_ = nullptr;  // handed to the fiber that is switched to, which begins it
  std::unique_ptr<Observer> observer_;
  std::string fault_;
  bool abandoning_ = false;
  std::uint64_t random_state_ = 0, idle_atomics_ = 0, volatile_reads_ = 0;
  std::uint64_t total_blocks_ = 0, block_step_ = 1, block_offset_ = 0;
  unsigned block_threads_ = 0;
  Helpers* look_helpers_ = nullptr;  // who may be asked in; null: nobody
  std::chrono::steady_clock::time_point started_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<Block*> resident_, free_;
  std::vector<Fiber*> idle_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  Fiber host_;
};

inline void Executor::enter(Thread& t) {
  current_ = &t;
  threadIdx = t.index;
  blockIdx = t.block->index;
  if (observer_) observer_->enter(t.block->slot, t.linear, t.fiber->stack(), t.fiber->stack_bytes());
}

inline Thread* Executor::take_ready(Block& b) {
  Thread* t = b.ready[b.ready_head++];
  if (b.ready_head == b.ready.size()) {
    b.ready.clear();
    b.ready_head = 0;
  } else if (b.ready_head >= block_threads_) {  // keeps the queue below the capacity that prepare reserved
    b.ready.erase(b.ready.begin(), b.ready.begin() + static_cast<std::ptrdiff_t>(b.ready_head));
    b.ready_head = 0;
  }
  return t;
}

inline Thread* Executor::pick() {
  if (schedule == 0 && !resident_.empty()) {  // what nearly every choice comes to
    Block& b = *resident_.front();
    if (b.started < block_threads_) return &b.threads[b.started++];
    if (b.ready_head < b.ready.size()) return take_ready(b);
  }
  return pick_any();
}

inline void Executor::make_ready(Thread& t) {
  t.state = State::runnable;
  t.block->ready.push_back(&t);
}

__attribute__((always_inline)) inline void Executor::go_away() {
  Thread& self = *current_;
  Thread* next = pick();
  if (next == nullptr) {
    self.fiber->switch_to(host_);
  } else if (next->fiber == nullptr) {
    Fiber& fiber = idle_fiber();
    chosen_ = next;
    self.fiber->switch_to(fiber);
  } else if (next != &self) {
    self.fiber->switch_to(*next->fiber);
  }
  enter(self);
}

__attribute__((always_inline)) inline void Executor::wait() {
  go_away();
  if (abandoning_) throw Abandon{};
}

}  // namespace sinktrap::simt
