#include "judge/buffer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "judge/status.hpp"

// Weak: there only in a build with AddressSanitizer.
extern "C" {
__attribute__((weak)) void __asan_poison_memory_region(const volatile void* address, std::size_t bytes);
__attribute__((weak)) void __asan_unpoison_memory_region(const volatile void* address, std::size_t bytes);
}

namespace sinktrap {
namespace {

// Pieces in which memory of an implementation is fetched: copy_pages works on pieces of this size.
constexpr std::size_t kPieceBytes = kSparseBytes;

// Guards are NaN for every floating type; for integers a value that is no slot and no index.
unsigned char pattern_of(Element e) { return e == Element::i32 || e == Element::i64 ? 0x7b : 0xff; }

// Not instrumented: what it looks at is poisoned.
__attribute__((no_sanitize("address"))) bool is_guard(const char* memory, unsigned char pattern) {
  const std::uint64_t whole = pattern * 0x0101010101010101u;
  std::uint64_t differs = 0;
  for (std::size_t at = 0; at < kGuardBytes; at += sizeof whole) {
    std::uint64_t word;
    std::memcpy(&word, memory + at, sizeof word);
    differs |= word ^ whole;
  }
  return differs == 0;
}

}  // namespace

Buffer::Buffer(const Implementation& implementation, std::string name, Tensor contents)
    : implementation_(&implementation), name_(std::move(name)), contents_(std::move(contents)) {
  allocate();
}

Buffer Buffer::poisoned(const Implementation& implementation, std::string name, Element type,
                        std::vector<std::int64_t> shape) {
  Tensor t(type, std::move(shape));
  std::fill(t.bytes().begin(), t.bytes().end(), std::byte{pattern_of(type)});
  return Buffer(implementation, std::move(name), std::move(t));
}

Buffer::Buffer(Buffer&& o) noexcept
    : implementation_(o.implementation_),
      name_(std::move(o.name_)),
      contents_(std::move(o.contents_)),
      memory_(std::exchange(o.memory_, nullptr)),
      block_(std::exchange(o.block_, nullptr)) {}

Buffer& Buffer::operator=(Buffer&& o) noexcept {
  if (this == &o) return *this;
  release();
  implementation_ = o.implementation_;
  name_ = std::move(o.name_);
  contents_ = std::move(o.contents_);
  memory_ = std::exchange(o.memory_, nullptr);
  block_ = std::exchange(o.block_, nullptr);
  return *this;
}

Buffer::~Buffer() { release(); }

void Buffer::allocate() {
  const std::size_t data = contents_.bytes().size(), total = data + 2 * kGuardBytes;
  if (implementation_->own_memory()) {
    memory_ = static_cast<char*>(implementation_->table().memory.allocate(total));
  } else {
    // Zeros, so that pages of zeros stay untouched; calloc aligns to less than an allocator of devices does.
    std::size_t space = total + kGuardBytes;
    block_ = std::calloc(space, 1);
    if (block_ != nullptr) prefer_huge_pages(block_, space);
    void* aligned = block_;
    if (block_ != nullptr) memory_ = static_cast<char*>(std::align(kGuardBytes, total, aligned, space));
  }
  if (memory_ == nullptr)
    stop(Status::skipped,
         fmt::format("no memory for {} ({} bytes): {}", name_, total, implementation_->last_error()));
  put(kGuardBytes, contents_.bytes().data(), data);
  if (in_reach()) {
    std::memset(memory_, pattern_of(contents_.type()), kGuardBytes);
    std::memset(memory_ + kGuardBytes + data, pattern_of(contents_.type()), kGuardBytes);
  } else {
    std::array<unsigned char, kGuardBytes> guard;
    guard.fill(pattern_of(contents_.type()));
    put(0, guard.data(), kGuardBytes);
    put(kGuardBytes + data, guard.data(), kGuardBytes);
  }
  hide_guards(true);
}

// Memory that is looked at where it lies. That of an implementation on the CPU is under AddressSanitizer too,
// whose shadow is set for it in any case: a call and an allocation less for each comparison.
bool Buffer::in_reach() const {
  return !implementation_->own_memory() ||
         (guards_are_poisoned() && implementation_->table().device.device_type == kDLCPU);
}

bool guards_are_poisoned() { return __asan_poison_memory_region != nullptr; }

// A read outside of a tensor leaves no trace in the guards; AddressSanitizer sees it. Only in memory that the
// host reaches.
void Buffer::hide_guards(bool hidden) const {
  if (!guards_are_poisoned() || implementation_->table().device.device_type != kDLCPU) return;
  const auto change = hidden ? __asan_poison_memory_region : __asan_unpoison_memory_region;
  change(memory_, kGuardBytes);
  change(memory_ + kGuardBytes + contents_.bytes().size(), kGuardBytes);
}

void Buffer::release() {
  if (memory_ == nullptr) return;
  hide_guards(false);
  if (implementation_->own_memory())
    implementation_->table().memory.release(memory_);
  else
    std::free(block_);
  memory_ = nullptr;
  block_ = nullptr;
}

void Buffer::put(std::size_t offset, const void* bytes, std::size_t count) const {
  if (count == 0) return;
  if (!implementation_->own_memory()) {
    copy_pages(memory_ + offset, bytes, count);
  } else if (implementation_->table().memory.write(memory_ + offset, bytes, count) != SINKTRAP_OK) {
    stop(Status::failed, fmt::format("memory.write of {} failed: {}", name_, implementation_->last_error()));
  }
}

void Buffer::get(std::size_t offset, void* bytes, std::size_t count) const {
  if (count == 0) return;
  if (!implementation_->own_memory()) {
    std::memcpy(bytes, memory_ + offset, count);
  } else if (implementation_->table().memory.read(bytes, memory_ + offset, count) != SINKTRAP_OK) {
    stop(Status::failed, fmt::format("memory.read of {} failed: {}", name_, implementation_->last_error()));
  }
}

DLTensor Buffer::view() const {
  DLTensor t = contents_.view();
  t.data = contents_.size() == 0 ? nullptr : memory_ + kGuardBytes;
  t.device = implementation_->table().device;
  return t;
}

template <class Piece>
void Buffer::for_pieces(Piece piece) const {
  const std::size_t bytes = contents_.bytes().size();
  std::vector<std::byte> fetched(in_reach() ? 0 : std::min(bytes, kPieceBytes));
  for (std::size_t at = 0; at < bytes; at += kPieceBytes) {
    const std::size_t count = std::min(bytes - at, kPieceBytes);
    const auto* there = reinterpret_cast<const std::byte*>(memory_ + kGuardBytes + at);
    if (!fetched.empty()) {
      get(kGuardBytes + at, fetched.data(), count);
      there = fetched.data();
    }
    if (!piece(at, there, count)) return;
  }
}

Tensor Buffer::read() const {
  Tensor t(contents_.type(), contents_.shape());
  if (t.bytes().size() < kSparseBytes) {
    get(kGuardBytes, t.bytes().data(), t.bytes().size());
    return t;
  }
  for_pieces([&](std::size_t at, const std::byte* there, std::size_t count) {
    copy_pages(t.bytes().data() + at, there, count);
    return true;
  });
  return t;
}

void Buffer::write(const Tensor& contents) {
  contents_ = contents;
  put(kGuardBytes, contents_.bytes().data(), contents_.bytes().size());
}

bool Buffer::guards_hold() const {
  const unsigned char pattern = pattern_of(contents_.type());
  return is_guard(memory_, pattern) && is_guard(memory_ + kGuardBytes + contents_.bytes().size(), pattern);
}

std::string Buffer::broken_guard() const {
  if (in_reach() && guards_hold()) return "";
  std::array<unsigned char, kGuardBytes> ahead, behind, whole;
  whole.fill(pattern_of(contents_.type()));
  hide_guards(false);
  get(0, ahead.data(), kGuardBytes);
  get(kGuardBytes + contents_.bytes().size(), behind.data(), kGuardBytes);
  hide_guards(true);
  if (ahead == whole && behind == whole) return "";
  for (std::size_t i = 0; i < kGuardBytes; ++i)
    if (behind[i] != whole[i]) return fmt::format("byte {} past the end of {}", i + 1, name_);
  std::size_t i = kGuardBytes - 1;
  while (ahead[i] == whole[i]) --i;
  return fmt::format("byte {} before the start of {}", kGuardBytes - i, name_);
}

std::string Buffer::changed() const {
  const auto uploaded = contents_.bytes();
  std::size_t first = uploaded.size();
  for_pieces([&](std::size_t at, const std::byte* there, std::size_t count) {
    if (std::memcmp(uploaded.data() + at, there, count) == 0) return true;
    first = at +
            static_cast<std::size_t>(std::mismatch(there, there + count, uploaded.data() + at).first - there);
    return false;
  });
  if (first == uploaded.size()) return "";
  const std::int64_t size = element_bytes(contents_.type()), flat = static_cast<std::int64_t>(first) / size;
  std::byte found[8];  // the widest element
  get(kGuardBytes + static_cast<std::size_t>(flat * size), found, static_cast<std::size_t>(size));
  return fmt::format("{}{} changed from {} to {}", name_, index_text(contents_.shape(), flat),
                     contents_.at(flat), load_element(contents_.type(), found, 0));
}

std::string index_text(const std::vector<std::int64_t>& shape, std::int64_t flat) {
  std::string text;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    text.insert(0, fmt::format("{}{}", flat % shape[axis], text.empty() ? "" : ","));
    flat /= shape[axis];
  }
  return "[" + text + "]";
}

}  // namespace sinktrap
