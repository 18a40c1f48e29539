// The copies that one CUDA thread has started with cp.async and that have not landed.
#pragma once
#include <cstdint>
#include <vector>

#include "cuda_impl/simt/on_cpu.hpp"

namespace sinktrap::simt {

class AsyncCopies {
 public:
  void add(void* to, const void* from, std::uint32_t bytes, Site site);
  void commit() { ++closed_; }
  // Lands every copy but those of the `pending` youngest committed groups and of the group still open.
  void wait(std::uint64_t pending);
  // A thread that ends without waiting: its copies never land.
  void clear() {
    copies_.clear();
    closed_ = 0;
  }

 private:
  struct Copy {
    void* to;
    const void* from;
    std::uint32_t bytes;
    std::uint64_t group;
    Site site;
  };
  std::vector<Copy> copies_;
  std::uint64_t closed_ = 0;  // groups committed
};

}  // namespace sinktrap::simt
