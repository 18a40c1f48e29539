// The race runtime's memory of accesses: a cell for every two bytes (the smallest element of the layer), in
// pages that appear when they are touched.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>

namespace sinktrap::simt {

// One access. All zero: none.
struct Record {
  std::uint64_t segment = 0;     // of which thread, and when
  std::uint64_t place : 48 = 0;  // a return address, or the number of a Site
  std::uint64_t bytes : 9 = 0;   // of the whole access, for reports; 511: more than fits
  std::uint64_t mask : 2 = 0;    // which of the cell's two bytes
  std::uint64_t is_write : 1 = 0;
  std::uint64_t is_atomic : 1 = 0;
  std::uint64_t in_flight : 1 = 0;  // a copy that may still land
  std::uint64_t is_site : 1 = 0;
  std::uint64_t : 1;
};

// The last write, and accesses since it that do not know of each other. Four are enough to find a race with
// any later write where only barriers and whole-warp syncs order: one, a second of its warp, one of another
// warp, one of another block.
struct Cell {
  Record last_write;
  Record since[4];
  std::uint64_t written_in = 0;  // shared memory: the block (its `unique`) whose writes `written` tells of
  std::uint8_t written = 0;      // mask
  std::uint8_t fresh = 0;        // mask; device memory: bytes that nobody has written since it was allocated
};

inline constexpr std::uintptr_t kCellBytes = 2;
inline constexpr std::uintptr_t kPageBytes = 1024;

class Shadow {
 public:
  Cell& cell(std::uintptr_t address) {
    const std::uintptr_t page = address / kPageBytes;
    Recent& recent = recent_[page % recent_.size()];
    if (recent.page != page || recent.cells == nullptr) recent = {page, find(page)};
    return recent.cells[address % kPageBytes / kCellBytes];
  }
  // The first cell of the page at this multiple of kPageBytes; null when nothing has touched it.
  Cell* page_if_there(std::uintptr_t address) const {
    const auto found = pages_.find(address / kPageBytes);
    return found == pages_.end() ? nullptr : found->second->data();
  }

 private:
  using Page = std::array<Cell, kPageBytes / kCellBytes>;
  struct Recent {
    std::uintptr_t page = 0;
    Cell* cells = nullptr;
  };
  Cell* find(std::uintptr_t page) {
    std::unique_ptr<Page>& p = pages_[page];
    if (!p) p = std::make_unique<Page>();
    return p->data();
  }
  std::unordered_map<std::uintptr_t, std::unique_ptr<Page>> pages_;
  std::array<Recent, 256> recent_{};
};

}  // namespace sinktrap::simt
