// The memory behind a tensor. Bytes start at zero, and a page of zeros that nobody has written costs nothing:
// a pool of 4096 slots of which three hold an adapter takes the memory of three. Copies keep it that way.
#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace sinktrap {

// Below this a copy is a copy. Above, memory comes from the system as fresh pages: glibc's allocator maps
// every block of more than 32 MiB (its largest dynamic M_MMAP_THRESHOLD), and calloc does not touch those.
constexpr std::size_t kSparseBytes = std::size_t{32} << 20;
// The page of every machine that CUDA and this project run on; where pages are larger more is touched, no
// more.
constexpr std::size_t kPageBytes = 4096;

// Lets the system map a large block in pages of 2 MiB: zeros that are read then cost 512 times fewer faults.
// Where it does not, nothing changes but the time.
inline void prefer_huge_pages(void* block, std::size_t bytes) {
  if (bytes < kSparseBytes) return;
  const auto first = (reinterpret_cast<std::uintptr_t>(block) + kPageBytes - 1) / kPageBytes * kPageBytes;
  const auto end = (reinterpret_cast<std::uintptr_t>(block) + bytes) / kPageBytes * kPageBytes;
  madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
}

// Makes `to` equal to `from`, writing only pages that differ. (To read an untouched page takes no memory.)
inline void copy_pages(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  if (bytes < kSparseBytes) {
    std::memcpy(to, from, bytes);
    return;
  }
  auto* t = static_cast<std::byte*>(to);
  const auto* f = static_cast<const std::byte*>(from);
  for (std::size_t at = 0; at < bytes; at += kPageBytes) {
    const std::size_t count = bytes - at < kPageBytes ? bytes - at : kPageBytes;
    if (std::memcmp(t + at, f + at, count) != 0) std::memcpy(t + at, f + at, count);
  }
}

class Bytes {
 public:
  Bytes() = default;
  // Throws std::bad_alloc.
  explicit Bytes(std::size_t size) : size_(size) {
    if (size == 0) return;
    data_ = static_cast<std::byte*>(std::calloc(size, 1));
    if (data_ == nullptr) throw std::bad_alloc();
    prefer_huge_pages(data_, size);
  }
  Bytes(const Bytes& o) : Bytes(o.size_) { copy_pages(data_, o.data_, size_); }
  Bytes(Bytes&& o) noexcept : data_(std::exchange(o.data_, nullptr)), size_(std::exchange(o.size_, 0)) {}
  Bytes& operator=(const Bytes& o) {
    if (this == &o) return *this;
    if (size_ == o.size_)
      copy_pages(data_, o.data_, size_);
    else
      *this = Bytes(o);
    return *this;
  }
  Bytes& operator=(Bytes&& o) noexcept {
    Bytes taken(std::move(o));
    std::swap(data_, taken.data_);
    std::swap(size_, taken.size_);
    return *this;
  }
  ~Bytes() { std::free(data_); }

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  bool operator==(const Bytes& o) const {
    return size_ == o.size_ && (size_ == 0 || std::memcmp(data_, o.data_, size_) == 0);
  }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace sinktrap
