// Device memory and shared memory of the executor: filled with NaN, and between guard bytes. AddressSanitizer
// is told what lies outside; it then finds each access there when it happens, and the bytes of the guards are
// not looked at.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include "cuda_impl/simt/executor.hpp"
#include "cuda_impl/simt/graph.hpp"
#include "cuda_impl/simt/resting_blocks.hpp"
#include "cuda_impl/simt/sanitizers.hpp"

namespace sinktrap::simt {
namespace {

constexpr unsigned char kPoison = 0xff;    // NaN in bf16, f16 and f32
constexpr unsigned char kGuard = 0xa5;     // neither the poison nor a byte of a common value
constexpr std::size_t kDeviceGuard = 256;  // keeps the alignment
constexpr std::size_t kSharedGuard = 64;

struct Allocation {
  unsigned char* begin = nullptr;
  std::uint64_t bytes = 0, serial = 0;
};

std::size_t size_with_guards(std::uint64_t bytes) {
  return (bytes + 2 * kDeviceGuard + RestingBlocks::kStep - 1) / RestingBlocks::kStep * RestingBlocks::kStep;
}

struct DeviceMemory {
  std::mutex mutex;
  std::vector<Allocation> allocations;  // in order of their addresses
  RestingBlocks resting;
  std::uint64_t serial = 0;
  // The first allocation behind an address.
  std::vector<Allocation>::iterator after(const unsigned char* byte) {
    return std::upper_bound(allocations.begin(), allocations.end(), byte,
                            [](const unsigned char* b, const Allocation& a) { return b < a.begin; });
  }
};
// Never destroyed: allocations may be released by other static objects after main.
DeviceMemory& device_memory() {
  static DeviceMemory& memory = *new DeviceMemory;
  return memory;
}

std::string& error_text() {
  static thread_local std::string text;
  return text;
}

// Intact guard bytes have a guard byte in front and each byte equal to the next.
bool is_guard(const unsigned char* bytes, std::size_t count) {
  return bytes[0] == kGuard && std::memcmp(bytes, bytes + 1, count - 1) == 0;
}

// Reports a side of an allocation whose guard has changed, and restores it so that it is reported once.
std::string damage_of(const Allocation& a) {
  if (address_sanitizer()) return {};
  const auto side = [&](unsigned char* guard, const char* where) -> std::string {
    if (is_guard(guard, kDeviceGuard)) return {};
    std::memset(guard, kGuard, kDeviceGuard);
    return "write " + std::string(where) + " device allocation " + std::to_string(a.serial) + " of " +
           std::to_string(a.bytes) + " bytes";
  };
  const std::string before = side(a.begin - kDeviceGuard, "before"), after = side(a.begin + a.bytes, "after");
  return before.empty() || after.empty() ? before + after : before + ", " + after;
}

}  // namespace

void set_error(std::string text) { error_text() = std::move(text); }

std::string damaged_device_memory() {
  if (address_sanitizer()) return {};
  DeviceMemory& memory = device_memory();
  const std::lock_guard lock(memory.mutex);
  std::string first;
  for (const Allocation& a : memory.allocations) {
    std::string text = damage_of(a);
    if (first.empty()) first = std::move(text);
  }
  return first;
}

std::string device_place(const void* address) {
  DeviceMemory& memory = device_memory();
  const std::lock_guard lock(memory.mutex);
  const auto* byte = static_cast<const unsigned char*>(address);
  auto after = memory.after(byte);
  if (after == memory.allocations.begin()) return {};
  const Allocation& a = *--after;
  if (byte >= a.begin + a.bytes) return {};
  return "device allocation " + std::to_string(a.serial) + " of " + std::to_string(a.bytes) +
         " bytes, byte " + std::to_string(byte - a.begin);
}

inline namespace cpu {

const char* error() { return error_text().c_str(); }
bool present() { return true; }

namespace {
void move_bytes(void* to, const void* from, std::uint64_t bytes) {
  if (bytes > 0) std::memmove(to, from, bytes);
}
// Of the executor of this OS thread: whoever launches writes the memory, too.
void tell(const void* address, std::uint64_t bytes, bool fresh) {
  if (Observer* observer = Executor::observer_of_this_thread())
    observer->device_memory(address, bytes, fresh);
}
}  // namespace

void* allocate(std::uint64_t bytes) {
  if (refused_in_capture("allocate")) return nullptr;
  // Linux grants more than there is and kills later; the poison would touch all of it.
  static const std::uint64_t physical =
      static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  DeviceMemory& memory = device_memory();
  unsigned char* raw = nullptr;
  if (bytes <= physical) {
    const std::lock_guard lock(memory.mutex);
    raw = memory.resting.take(size_with_guards(bytes));
  }
  if (raw == nullptr) {
    set_error("allocate: no memory for " + std::to_string(bytes) + " bytes");
    return nullptr;
  }
  unsigned char* begin = raw + kDeviceGuard;
  if (!address_sanitizer()) {  // else nobody gets at the guards
    std::memset(raw, kGuard, kDeviceGuard);
    std::memset(begin + bytes, kGuard, kDeviceGuard);
  }
  unpoison(begin, bytes);
  std::memset(begin, kPoison, bytes);
  uninitialised(begin, bytes);
  tell(begin, bytes, true);
  const std::lock_guard lock(memory.mutex);
  memory.allocations.insert(memory.after(begin), {begin, bytes, ++memory.serial});
  return begin;
}

bool release(void* pointer) {
  if (pointer == nullptr) return true;
  if (refused_in_capture("release")) return false;
  DeviceMemory& memory = device_memory();
  const std::lock_guard lock(memory.mutex);
  auto found = memory.after(static_cast<unsigned char*>(pointer));
  if (found == memory.allocations.begin() || (--found)->begin != pointer) {
    set_error("release: not a device allocation");
    return false;
  }
  const std::string damage = damage_of(*found);
  tell(found->begin, found->bytes, false);
  memory.resting.give(found->begin - kDeviceGuard, size_with_guards(found->bytes));
  memory.allocations.erase(found);
  if (damage.empty()) return true;
  set_error("release: " + damage);
  return false;
}

bool copy(void* to, const void* from, std::uint64_t bytes) {
  if (detail::capturing()) return record_copy(to, from, bytes);
  move_bytes(to, from, bytes);
  tell(to, bytes, false);
  return true;
}
bool write(void* device, const void* host, std::uint64_t bytes) {
  if (refused_in_capture("write")) return false;
  move_bytes(device, host, bytes);
  tell(device, bytes, false);
  return true;
}
bool read(void* host, const void* device, std::uint64_t bytes) {
  if (refused_in_capture("read")) return false;
  move_bytes(host, device, bytes);
  return true;
}
bool fill(void* device, int byte, std::uint64_t bytes) {
  if (detail::capturing()) return record_fill(device, byte, bytes);
  if (bytes > 0) std::memset(device, byte, bytes);
  tell(device, bytes, false);
  return true;
}
bool synchronise() { return !refused_in_capture("synchronise"); }

}  // namespace cpu

SharedMemory::~SharedMemory() {
  if (bytes_) unpoison(bytes_.get(), kSharedCapacity);
}

const void* SharedMemory::base() {
  if (!bytes_) {
    bytes_.reset(new unsigned char[kSharedCapacity]);
    poison(bytes_.get(), kSharedCapacity);
  }
  return bytes_.get();
}

void SharedMemory::reset() {
  if (bytes_) poison(bytes_.get(), used_);
  variables_.clear();
  used_ = 0;
}

void* SharedMemory::variable(const void* key, std::size_t bytes, std::size_t alignment) {
  for (const Variable& v : variables_)
    if (v.key == key) return bytes_.get() + v.begin;
  const auto base_address = reinterpret_cast<std::uintptr_t>(base());
  const std::size_t align = std::max<std::size_t>(alignment, 16);
  const std::size_t begin = (base_address + used_ + kSharedGuard + align - 1) / align * align - base_address;
  if (begin > kSharedCapacity || bytes > kSharedCapacity - begin ||
      kSharedCapacity - begin - bytes < kSharedGuard)
    return nullptr;
  const std::size_t before = begin - kSharedGuard, all = bytes + 2 * kSharedGuard;
  unpoison(bytes_.get() + before, all);
  std::memset(bytes_.get() + before, kGuard, all);
  std::memset(bytes_.get() + begin, kPoison, bytes);
  poison(bytes_.get() + before, all);
  unpoison(bytes_.get() + begin, bytes);
  uninitialised(bytes_.get() + begin, bytes);
  variables_.push_back({key, begin, bytes});
  used_ = begin + bytes + kSharedGuard;
  return bytes_.get() + begin;
}

bool SharedMemory::intact() const {
  if (address_sanitizer()) return true;
  return std::all_of(variables_.begin(), variables_.end(), [this](const Variable& v) {
    return is_guard(bytes_.get() + v.begin - kSharedGuard, kSharedGuard) &&
           is_guard(bytes_.get() + v.begin + v.bytes, kSharedGuard);
  });
}

}  // namespace sinktrap::simt
