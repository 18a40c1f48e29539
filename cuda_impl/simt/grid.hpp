// One launch as the OS threads see it that work on it: which blocks are still to be taken. Helpers are asked
// in only when a launch has run for a while (kAlone), so that a small one costs nothing more.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "cuda_impl/simt/on_cpu.hpp"

namespace sinktrap::simt {

// Starting a helper that sleeps takes some 50 us until it runs, and its first blocks make fibers: below a
// millisecond there is nothing to gain.
inline constexpr std::chrono::microseconds kAlone{1000};
// How many blocks pass between two looks at the clock.
inline constexpr std::uint64_t kBlocksPerLook = 4;

struct Grid {
  Config config;
  void (*call)(void*) = nullptr;
  void* closure = nullptr;
  std::uint64_t blocks = 0;
  std::atomic<std::uint64_t> next{0};  // blocks below have been taken
  std::atomic<bool> failed{false};     // take no more
};

// Asks the helpers of this process in, one for each further processor, and waits for them. All of them run
// Executor::help on `grid`.
class Helpers {
 public:
  // Does nothing when another launch has them.
  void join(Grid& grid);
  // Blocks until no helper works on the grid. The first fault of a helper, if any.
  std::string wait();
  bool joined() const { return joined_; }

 private:
  bool joined_ = false;
};

}  // namespace sinktrap::simt
