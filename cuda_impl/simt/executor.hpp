// The executor behind on_cpu.hpp: threads, blocks, and what runs next.
//
// A fiber takes CUDA threads one after another and runs each to its end; only a thread that has to wait keeps
// its fiber, and another fiber goes on with the rest. A kernel without barriers therefore needs one fiber and
// no switch.
//
// Everything that orders memory between threads passes through three functions: release_barrier,
// complete_collective and atomic_point. A race detector attaches there, and to the accesses themselves.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cuda_impl/simt/async_copies.hpp"
#include "cuda_impl/simt/fiber.hpp"
#include "cuda_impl/simt/on_cpu.hpp"

namespace sinktrap::simt {

inline constexpr unsigned kWarp = 32;
inline constexpr unsigned kMaxBlockThreads = 1024;          // CUDA: maximum threads per block
inline constexpr std::size_t kMaxSharedBytes = 227 * 1024;  // sm_90, sm_100: opt-in maximum per block
inline constexpr unsigned kResidentBlocks = 4;              // blocks that interleave under a random schedule
inline constexpr std::uint64_t kIdleAtomics =
    10'000'000;  // atomics without progress that count as a livelock

// The text that error() gives, for this OS thread.
void set_error(std::string text);
// The first damaged guard of the device allocations, as text; empty when all are whole. Reported damage is
// repaired.
std::string damaged_device_memory();

// Shared memory of one block: variables between guard bytes.
class SharedMemory {
 public:
  void reset() { variables_.clear(), used_ = 0; }
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
  uint3 index{};
  dim3 shape{0, 0, 0};  // that `threads` is made for
  unsigned live = 0;    // threads that have not returned
  unsigned at_barrier = 0, at_warp = 0;
  unsigned started = 0;  // ascending schedule: threads [0, started) have begun
  std::size_t ready_head = 0;
  Site barrier{};
  std::vector<Thread> threads;
  std::vector<unsigned> unstarted;  // random schedule
  std::vector<Thread*> ready;       // waited, and may go on
  SharedMemory shared;
};

class Executor {
 public:
  static Executor& of_this_thread();
  bool run(const Config& config, void (*call)(void*), void* closure);

  void barrier(Site site);
  std::uint64_t collective(detail::WarpOperation operation, std::uint32_t mask, std::uint64_t value,
                           unsigned source, Site site);
  void* shared_variable(const void* key, std::size_t bytes, std::size_t alignment);
  void atomic_point();
  unsigned lane() const { return current_->lane(); }
  const Config& config() const { return *config_; }
  AsyncCopies& copies() { return current_->copies; }
  [[noreturn]] void fail(const std::string& what);  // ends the launch, from the running thread
  std::uint64_t schedule = 0;

 private:
  struct Abandon {};  // unwinds a thread of a launch that has failed

  std::string refusal(const Config& config) const;
  void prepare(const Config& config);
  Thread* pick();  // what runs next; null: nothing can
  Thread* pick_any();
  Thread* take(Block& block);
  void start_block();
  void retire(Block& block);
  void work(Fiber& self);
  void run_thread(Thread& thread, Fiber& fiber);
  void finish(Thread& thread);
  void enter(Thread& thread);
  void wait();  // suspends the current thread
  void make_ready(Thread& thread);
  void release_barrier(Block& block, Thread& last);
  void complete_collective(Block& block, unsigned first_lane, Thread& last);
  void abandon_all();
  Fiber& idle_fiber();
  unsigned random(std::size_t below);
  void note_fault(const std::string& what);
  std::string describe(const Block& block) const;

  const Config* config_ = nullptr;
  void (*call_)(void*) = nullptr;
  void* closure_ = nullptr;
  Thread* current_ = nullptr;
  Thread* chosen_ = nullptr;  // handed from a fiber to the host, or from the host to a fiber
  std::string fault_;
  bool abandoning_ = false;
  std::uint64_t random_state_ = 0, idle_atomics_ = 0;
  std::uint64_t total_blocks_ = 0, next_block_ = 0, block_step_ = 1, block_offset_ = 0;
  unsigned block_threads_ = 0;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<Block*> resident_, free_;
  std::vector<Fiber*> idle_;
  std::vector<std::unique_ptr<Fiber>> fibers_;  // last: its destructor resumes bodies, which use the rest
};

}  // namespace sinktrap::simt
