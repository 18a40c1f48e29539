// Which call into the implementation is under way, kept in memory that survives the process: when a worker
// dies, its parent can say where.
#pragma once
#include <cstddef>
#include <cstring>

namespace sinktrap {

constexpr std::size_t kPhaseBytes = 64;

// The shared page of this process; null outside a worker.
inline char*& phase_memory() {
  static char* memory = nullptr;
  return memory;
}

// Marks a call for as long as the object lives.
class Phase {
 public:
  explicit Phase(const char* name) {
    if (char* p = phase_memory()) std::strncpy(p, name, kPhaseBytes - 1);
  }
  ~Phase() {
    if (char* p = phase_memory()) p[0] = 0;
  }
  Phase(const Phase&) = delete;
  Phase& operator=(const Phase&) = delete;
};

}  // namespace sinktrap
