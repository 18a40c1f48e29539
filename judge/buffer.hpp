// A tensor in an implementation's memory, between guard bytes, with a host copy of what was put there.
#pragma once
#include <string>
#include <vector>

#include "cases/tensor.hpp"
#include "judge/implementation.hpp"

namespace sinktrap {

// Guard bytes on each side. 256 keeps the alignment that device allocators give, and is wider than the widest
// vector access (16 bytes) of a block tail that overruns by one tile row of 64 f32 elements.
constexpr std::size_t kGuardBytes = 256;

class Buffer {
 public:
  Buffer() = default;
  // Uploads the tensor; throws Stop when the implementation has no memory.
  Buffer(const Implementation& implementation, std::string name, Tensor contents);
  // All elements NaN (integers: a value that is no slot), to show what is not written.
  static Buffer poisoned(const Implementation& implementation, std::string name, Element type,
                         std::vector<std::int64_t> shape);
  Buffer(Buffer&&) noexcept;
  Buffer& operator=(Buffer&&) noexcept;
  ~Buffer();

  // Null data for a tensor without elements.
  DLTensor view() const;
  const Tensor& uploaded() const { return contents_; }
  // What the memory holds now.
  Tensor read() const;
  // Replaces the contents; shape and type stay.
  void write(const Tensor& contents);
  // The first broken guard byte in words ("byte 3 past the end of out"), or empty.
  std::string broken_guard() const;
  // The first element that differs from what was uploaded, in words, or empty.
  std::string changed() const;

 private:
  void allocate();
  void hide_guards(bool hidden) const;
  void put(std::size_t offset, const void* bytes, std::size_t count) const;
  void get(std::size_t offset, void* bytes, std::size_t count) const;
  void release();
  bool in_reach() const;
  bool guards_hold() const;
  // What the memory holds, in pieces: piece(offset, bytes, count) until it is false. A tensor of gigabytes is
  // never held twice for a comparison.
  template <class Piece>
  void for_pieces(Piece piece) const;

  const Implementation* implementation_ = nullptr;
  std::string name_;
  Tensor contents_;
  char* memory_ = nullptr;
  void* block_ = nullptr;  // what memory_ lies in, where it is the host's
};

// True under AddressSanitizer: reads and writes of guard bytes then end the process at once, with a report.
bool guards_are_poisoned();

// "[2,0,5]" for a flat index.
std::string index_text(const std::vector<std::int64_t>& shape, std::int64_t flat);

}  // namespace sinktrap
