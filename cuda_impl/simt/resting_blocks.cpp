#include "cuda_impl/simt/resting_blocks.hpp"

#include <sys/mman.h>

#include <cstdlib>

#include "cuda_impl/simt/sanitizers.hpp"

namespace sinktrap::simt {
namespace {

// In the block itself, and not by a function that AddressSanitizer sees: it is poisoned.
unsigned char*& next_of(unsigned char* block) { return *reinterpret_cast<unsigned char**>(block); }

}  // namespace

// What is left of the mapping before is lost; it is less than the largest block.
unsigned char* RestingBlocks::fresh(std::size_t bytes) {
  if (mapped_bytes_ < bytes) {
    void* mapped = mmap(nullptr, kMappedBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return nullptr;
    mapped_ = static_cast<unsigned char*>(mapped);
    mapped_bytes_ = kMappedBytes;
    poison(mapped_, mapped_bytes_);
  }
  unsigned char* block = mapped_;
  mapped_ += bytes;
  mapped_bytes_ -= bytes;
  return block;
}

unsigned char* RestingBlocks::take(std::size_t bytes) {
  if (!address_sanitizer() || bytes > kLargest) {
    auto* block = static_cast<unsigned char*>(std::aligned_alloc(kStep, bytes));
    if (block != nullptr) poison(block, bytes);
    return block;
  }
  Queue& queue = resting_[bytes / kStep];
  if (queue.count < kResting) return fresh(bytes);
  unsigned char* block = queue.oldest;
  queue.oldest = next_of(block);
  --queue.count;
  return block;
}

void RestingBlocks::give(unsigned char* block, std::size_t bytes) {
  if (!address_sanitizer() || bytes > kLargest) {
    unpoison(block, bytes);
    std::free(block);
    return;
  }
  poison(block, bytes);
  Queue& queue = resting_[bytes / kStep];
  if (queue.count++ == 0)
    queue.oldest = block;
  else
    next_of(queue.newest) = block;
  queue.newest = block;
}

}  // namespace sinktrap::simt
