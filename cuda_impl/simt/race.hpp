// The race runtime: an Observer that keeps, for every two bytes of memory that kernels touch, who wrote them
// last and who has read them since, and knows what CUDA promises about order.
//
// Kernel sources are compiled with -fsanitize=thread, so that the compiler calls a function before each
// access (race_callbacks.cpp); the program is linked without libtsan, which has room for 256 threads only and
// loses races beyond that in silence. This runtime has no such limit.
//
// Two accesses to the same byte, at least one a write and not both atomic, are a race unless one of these
// orders them, directly or in a chain:
//   - they are of one thread;
//   - a __syncthreads of their block, or a __syncwarp of their lanes, lies between them (a shuffle or a vote
//     orders no memory: CUDA C++ Programming Guide, "Warp Shuffle Functions" and "Warp Vote Functions");
//   - fence and flag: the first thread passed __threadfence() and then an atomic on some address; the second
//   did
//     an atomic on that address later, and then passed __threadfence(). Both fences are needed (PTX ISA,
//     "Memory Consistency Model", release and acquire patterns). With __threadfence_block() for either of
//   them the two have to be threads of one block: the scope of both must include the other;
//   - they belong to different launches.
// Copies in flight (cp.async) race with every access to their target until the issuing thread has waited.
// A read of shared memory that nobody of the block has written is reported too, and one of device memory that
// nobody has written since it was allocated: no kernel, and no write, copy or fill of the host.
#pragma once
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cuda_impl/simt/observer.hpp"
#include "cuda_impl/simt/shadow.hpp"

namespace sinktrap::simt {

// What a thread knows of threads of other blocks, or of its own block since the last barrier: all that
// happened before the phase of a block, and up to the clock of a thread.
struct Knowledge {
  std::unordered_map<std::uint32_t, std::uint32_t> phases;   // block -> everything in earlier phases is known
  std::unordered_map<std::uint64_t, std::uint32_t> threads;  // block and thread -> known up to this clock
  void join(const Knowledge& other);
};
using Known = std::shared_ptr<const Knowledge>;

class RaceRuntime;
// That of the kernel whose own code runs on this OS thread; null outside of kernels, and while the executor
// or the runtime itself works: what they do is no access of the kernel, even where the linker has chosen an
// instrumented copy of a function that they share with it. (A library that is opened at run time reaches a
// variable of this model without a call.)
extern constinit thread_local RaceRuntime* t_race __attribute__((tls_model("initial-exec")));

class RaceRuntime final : public Observer {
 public:
  void begin(const Config& config, unsigned slots, std::uint64_t schedule) override;
  std::string end() override;
  void start_block(unsigned slot, const uint3& index, const void* shared, std::size_t shared_bytes) override;
  void enter(unsigned slot, unsigned thread, const void* stack, std::size_t stack_bytes) override;
  void leave() override { t_race = nullptr; }
  void barrier(unsigned slot) override;
  void warp_sync(unsigned slot, unsigned first, std::uint32_t mask) override;
  void fence(bool block_scope) override;
  void device_memory(const void* address, std::size_t bytes, bool fresh) override;
  void access(detail::Access kind, const void* address, std::size_t bytes, Site site) override;

  // From the compiler's callbacks; `pc` is where the access returns to.
  void access(detail::Access kind, const void* address, std::size_t bytes, const void* pc) {
    track(kind, reinterpret_cast<std::uintptr_t>(address), bytes, reinterpret_cast<std::uintptr_t>(pc));
  }
  // Acquire and, but for a read, release of an atomic, after it has been tracked.
  void meet_at(const void* address, detail::Access kind);
  // True now and then, at a rate that the schedule chooses: the thread is to be interrupted here.
  bool interrupt_here() { return --countdown_ == 0 && draw_countdown(); }
  // The running thread's own stack, and threadIdx and its kin, which the executor sets: no other thread sees
  // them.
  bool is_private(const volatile void* address) const {
    const auto a = reinterpret_cast<std::uintptr_t>(address);
    return a - stack_ < stack_bytes_ || a - indices_ < indices_bytes_;
  }

 private:
  // A stretch of one thread's run in which nothing was published: accesses name it.
  struct Segment {
    std::uint32_t block, phase, clock, thread;
  };
  struct ThreadState {
    std::uint64_t segment = 0;
    std::uint32_t phase = 0, clock = 0;
    std::uint32_t lanes[32]{};  // lanes of the own warp are known up to these clocks
    Known acquired;             // known
    Known pending;              // will be known after the next fence of device scope
    Known pending_in_block;     // will be known after the next fence of any scope: published in this block
    Known fenced;               // what the last fence of device scope published
    Known fenced_in_block;      // what the last fence of any scope published, to this block
  };
  struct BlockState {
    std::uint32_t serial = 0, phase = 0;
    std::uint64_t unique = 0;  // no other block of any launch has it
    Known acquired;
    std::uintptr_t shared = 0;
    std::size_t shared_bytes = 0;
  };
  struct Finding {
    bool unwritten = false, in_shared = false;
    Record now, other;
    std::uintptr_t address = 0;
  };

  void track(detail::Access kind, std::uintptr_t address, std::size_t bytes, std::uint64_t place);
  void read(Cell& cell, const Record& now, std::uintptr_t address, bool in_shared);
  void write(Cell& cell, const Record& now, std::uintptr_t address, bool in_shared);
  void add_reader(Cell& cell, const Record& now, bool in_shared);
  bool ordered(const Record& before, bool in_shared) const;
  bool conflicts(const Record& before, const Record& now, bool in_shared) const;
  bool is_mine(const Record& record) const;
  bool knows(const Segment& segment) const;
  void new_segment(ThreadState& thread, const BlockState& block, std::uint32_t number);
  Known snapshot() const;
  bool in_shared(std::uintptr_t address) const {
    return address - my_block_->shared < my_block_->shared_bytes;
  }
  void report(bool unwritten, const Record& now, const Record& other, std::uintptr_t address);
  std::string text_of(const Record& record) const;
  std::uint64_t place_of(Site site);
  bool draw_countdown();

  Shadow shadow_;
  std::vector<Segment> segments_;
  std::uint64_t first_segment_ = 1;  // of this launch; records of earlier ones are ordered before everything
  std::vector<ThreadState> threads_;
  std::vector<BlockState> blocks_;
  std::vector<uint3> block_index_;  // by serial
  std::uint64_t blocks_ever_ = 0;
  dim3 block_shape_;
  unsigned block_threads_ = 0;
  // What the fenced threads published at each atomic: to all, and to each block (serial).
  std::unordered_map<std::uintptr_t, Known> meetings_;
  std::map<std::pair<std::uintptr_t, std::uint32_t>, Known> meetings_in_block_;
  ThreadState* me_ = nullptr;
  BlockState* my_block_ = nullptr;
  std::uint32_t my_number_ = 0;
  std::uintptr_t stack_ = 0, indices_ = 0;
  std::size_t stack_bytes_ = 0, indices_bytes_ = 0;
  std::unordered_map<std::uint64_t, Site> sites_;
  std::vector<Finding> findings_;
  std::uint64_t conflicts_ = 0;
  std::uint64_t countdown_ = 0, random_ = 1, interval_ = 0;
};

}  // namespace sinktrap::simt
