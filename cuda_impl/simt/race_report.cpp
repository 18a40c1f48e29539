// The race runtime's words: what was found, where, and who.
#include <algorithm>
#include <functional>
#include <string_view>

#include "cuda_impl/simt/executor.hpp"
#include "cuda_impl/simt/places.hpp"
#include "cuda_impl/simt/race.hpp"

namespace sinktrap::simt {
namespace {

// Pairs of places kept for one launch; a report shows the first and counts the rest.
constexpr std::size_t kMaxFindings = 32;

}  // namespace

std::uint64_t RaceRuntime::place_of(Site site) {
  const std::uint64_t key = (std::hash<std::string_view>{}(site.file) ^
                             static_cast<std::uint64_t>(site.line) * 0x9e3779b97f4a7c15ull) &
                            0xffffffffffffull;
  sites_.try_emplace(key, site);
  return key | std::uint64_t{1} << 63;
}

void RaceRuntime::report(bool unwritten, const Record& now, const Record& other, std::uintptr_t address) {
  ++conflicts_;
  const auto same = [&](const Finding& f) {
    return f.unwritten == unwritten && f.now.place == now.place && f.other.place == other.place;
  };
  if (findings_.size() == kMaxFindings || std::any_of(findings_.begin(), findings_.end(), same)) return;
  findings_.push_back({unwritten, in_shared(address), now, other, address});
}

std::string RaceRuntime::text_of(const Record& r) const {
  const char* kind = r.in_flight ? "copy in flight" : r.is_atomic ? "atomic" : r.is_write ? "write" : "read";
  std::string place;
  if (!r.is_site) {
    place = place_of_return_address(r.place);
  } else if (const auto site = sites_.find(r.place); site != sites_.end()) {
    place = simt::text_of(site->second);
  }
  const Segment& s = segments_[r.segment - first_segment_];
  const uint3& b = block_index_[s.block];
  const unsigned x = s.thread % block_shape_.x, y = s.thread / block_shape_.x % block_shape_.y,
                 z = s.thread / block_shape_.x / block_shape_.y;
  const auto triple = [](unsigned i, unsigned j, unsigned k) {
    return "(" + std::to_string(i) + "," + std::to_string(j) + "," + std::to_string(k) + ")";
  };
  return std::string(kind) + " of " + std::to_string(r.bytes) + (r.bytes == 1 ? " byte at " : " bytes at ") +
         place + " by block " + triple(b.x, b.y, b.z) + " thread " + triple(x, y, z);
}

std::string RaceRuntime::end() {
  t_race = nullptr;
  if (findings_.empty()) return {};
  // A thread that reads too early has often found nothing written yet: the race says more.
  const auto race =
      std::find_if(findings_.begin(), findings_.end(), [](const Finding& f) { return !f.unwritten; });
  const Finding& f = race != findings_.end() ? *race : findings_.front();
  std::string where = f.in_shared ? "shared memory" : device_place(reinterpret_cast<const void*>(f.address));
  if (where.empty()) where = "memory that is not the device's";
  std::string text = f.unwritten ? "read of unwritten " + where + ": " + text_of(f.now)
                                 : "data race on " + where + ": " + text_of(f.now) + " is not ordered with " +
                                       text_of(f.other);
  if (findings_.size() > 1)
    text += "; other pairs of places: " + std::to_string(findings_.size() - 1) +
            (findings_.size() == kMaxFindings ? " or more" : "");
  return text;
}

}  // namespace sinktrap::simt
