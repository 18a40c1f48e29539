// Small kernels, each with one planted defect and, under `defect == false`, its corrected twin. They are what
// shows that the executor and the race runtime find what they promise to find.
#pragma once
#include <cstdint>
#include <ostream>
#include <vector>

#include "cuda_impl/simt/simt.hpp"

namespace sinktrap::simt {

struct Defect {
  const char* name;     // the line of `file` with the comment "// defect: NAME" must be named by the report
  const char* file;     // in this folder
  const char* finding;  // words of the report
  // Launches the kernel; false with error() when the launch reports something.
  bool (*run)(bool defect);
};
// What GoogleTest prints for one: no addresses, which differ from run to run.
inline void PrintTo(const Defect& defect, std::ostream* out) { *out << defect.name; }

std::vector<Defect> barrier_defects();
std::vector<Defect> race_defects();
std::vector<Defect> fence_defects();
std::vector<Defect> copy_defects();
// Out of bounds and misaligned: these end the process, and need kernels that are compiled with
// AddressSanitizer.
std::vector<Defect> address_defects();

// One thread counts a volatile variable up, another looks at it: how many values between the first and the
// last the other one has seen. Nothing in the kernel waits.
int half_way_values();

// Device memory of `count` zeros for one run.
template <class T>
class Zeros {
 public:
  explicit Zeros(std::uint64_t count) : data_(static_cast<T*>(allocate(count * sizeof(T)))) {
    fill(data_, 0, count * sizeof(T));
  }
  ~Zeros() { release(data_); }
  Zeros(const Zeros&) = delete;
  Zeros& operator=(const Zeros&) = delete;
  T* get() const { return data_; }

 private:
  T* data_;
};

}  // namespace sinktrap::simt
