// What every host source of the implementation needs: device memory that releases itself, and failures.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include "contract/verdict.hpp"
#include "cuda_impl/records.hpp"

namespace sinktrap::cuda_impl::SINKTRAP_TARGET {

// A device call failed: the operation answers `internal`, with this text as last_error.
struct DeviceFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};
inline void require_device(bool ok) {
  if (!ok) throw DeviceFailure(device_error());
}

// Device memory with an owner. Keeps its address until it has to grow.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(DeviceBuffer&& o) noexcept
      : pointer_(std::exchange(o.pointer_, nullptr)), capacity_(std::exchange(o.capacity_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&& o) noexcept {
    std::swap(pointer_, o.pointer_);
    std::swap(capacity_, o.capacity_);
    return *this;
  }
  ~DeviceBuffer() {
    if (pointer_ != nullptr) device_release(pointer_);
  }

  // Room for `bytes`; what was there before is lost when it grows.
  void* reserve(std::uint64_t bytes) {
    if (bytes <= capacity_ && pointer_ != nullptr) return pointer_;
    void* grown = device_allocate(bytes);
    if (grown == nullptr) throw DeviceFailure(device_error());
    if (pointer_ != nullptr) device_release(pointer_);
    pointer_ = grown;
    capacity_ = bytes;
    return pointer_;
  }
  void* get() const { return pointer_; }

 private:
  void* pointer_ = nullptr;
  std::uint64_t capacity_ = 0;
};

// Text for sinktrap_implementation_table::last_error, for this OS thread.
void set_last_error(std::string text);
const char* last_error();

// The verdict `argument`, with its reason as last_error.
inline Verdict refuse_argument(std::string why) {
  set_last_error(std::move(why));
  return verdict_of(SINKTRAP_ARGUMENT);
}
inline Verdict refuse_argument(std::string why, std::int32_t buffer, std::int32_t axis, std::int64_t found,
                               std::int64_t expected) {
  set_last_error(std::move(why));
  return verdict_of(SINKTRAP_ARGUMENT, buffer, axis, found, expected);
}

}  // namespace sinktrap::cuda_impl::SINKTRAP_TARGET
