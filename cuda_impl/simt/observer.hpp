// What somebody who watches memory accesses is told by the executor. The race runtime (race.hpp) is one; a
// program without one pays a comparison with null for each event.
//
// A thread is named by the slot of its block (blocks that run at the same time have different slots) and by
// its number in the block. All calls come from the OS thread of the launch.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "cuda_impl/simt/on_cpu.hpp"

namespace sinktrap::simt {

class Observer {
 public:
  virtual ~Observer() = default;

  // `schedule` as in simt::schedule.
  virtual void begin(const Config& config, unsigned slots, std::uint64_t schedule) = 0;
  // The text of what was found, empty when nothing was.
  virtual std::string end() = 0;

  virtual void start_block(unsigned slot, const uint3& index, const void* shared,
                           std::size_t shared_bytes) = 0;
  // The code of this thread runs from now on, on this stack.
  virtual void enter(unsigned slot, unsigned thread, const void* stack, std::size_t stack_bytes) = 0;

  // The running thread is in the executor, until the next enter.
  virtual void leave() = 0;

  // Events that order memory. All threads of the block have arrived at a barrier:
  virtual void barrier(unsigned slot) = 0;
  // The lanes of `mask`, of the warp that begins at thread `first`, have met at a __syncwarp:
  virtual void warp_sync(unsigned slot, unsigned first, std::uint32_t mask) = 0;
  // The running thread; __threadfence_block() has block scope, __threadfence() that of the device:
  virtual void fence(bool block_scope) = 0;

  // Outside of launches: device memory is fresh (allocated, and nobody has written it), or the host has
  // written it, or it is released (and then whoever has it next may have written it).
  virtual void device_memory(const void* address, std::size_t bytes, bool fresh) = 0;

  // Accesses of the running thread that no compiler reports, because the executor makes them.
  virtual void access(detail::Access kind, const void* address, std::size_t bytes, Site site) = 0;
};

// Set by the race runtime when it is linked; each executor then gets an observer of its own.
extern std::unique_ptr<Observer> (*make_observer)();

}  // namespace sinktrap::simt
