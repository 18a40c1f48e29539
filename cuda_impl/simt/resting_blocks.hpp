// Blocks behind device allocations. Under AddressSanitizer a block that was given back rests, poisoned,
// before it is used again: each access to released memory is found while it does, as in AddressSanitizer's
// own quarantine, at a fraction of what an allocation costs there (a fuzzer makes some dozen in each of
// thousands of executions a second). In other builds a block comes from the system and goes straight back.
//
// These blocks are mapped, not allocated: libFuzzer takes an execution that allocates more than it frees for
// a leak, and searches all memory for it.
#pragma once
#include <array>
#include <cstddef>

namespace sinktrap::simt {

class RestingBlocks {
 public:
  // Blocks begin at multiples of this, and their sizes are: the alignment of cudaMalloc.
  static constexpr std::size_t kStep = 256;

  // A block of `bytes`, or null when there is no memory. Poisoned under AddressSanitizer; its contents are
  // whatever they were.
  unsigned char* take(std::size_t bytes);
  // Takes back what take(bytes) gave.
  void give(unsigned char* block, std::size_t bytes);

 private:
  // Larger blocks are rare and go to the system. What the fuzz targets allocate ends below it: 3 experts of
  // 2 * 17 rows of 17 four-byte elements, with guards on both sides twice, are 8 KiB.
  static constexpr std::size_t kLargest = 16 << 10;
  // As many blocks of a size rest at least: more than an execution of a fuzz target makes of all sizes.
  static constexpr std::size_t kResting = 64;
  // Mapped at once; a few of them hold what rests of all sizes of a target.
  static constexpr std::size_t kMappedBytes = 1 << 20;

  // Those of a size that rest, oldest first; each holds the address of the next.
  struct Queue {
    unsigned char *oldest = nullptr, *newest = nullptr;
    std::size_t count = 0;
  };
  unsigned char* fresh(std::size_t bytes);

  std::array<Queue, kLargest / kStep + 1> resting_;  // by size, in steps
  unsigned char* mapped_ = nullptr;                  // the rest of the last mapping
  std::size_t mapped_bytes_ = 0;
};

}  // namespace sinktrap::simt
