#include "judge/distinct.hpp"

#include <cstring>
#include <unordered_map>

namespace sinktrap {
namespace {

// Eight bytes at a time (the multiplier is the odd part of 2^64 / golden ratio); equality is checked byte by
// byte.
std::uint64_t hash(std::uint64_t h, std::span<const std::byte> bytes) {
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data() + i, sizeof word);
    h = (h ^ word) * 0x9e3779b97f4a7c15ull;
    h ^= h >> 32;
  }
  for (; i < bytes.size(); ++i) h = (h ^ static_cast<std::uint64_t>(bytes[i])) * 0x9e3779b97f4a7c15ull;
  return h ^ h >> 29;
}

std::span<const std::byte> row(const Tensor& t, std::int64_t i) {
  const std::size_t bytes = t.extent(0) == 0 ? 0 : t.bytes().size() / static_cast<std::size_t>(t.extent(0));
  return t.bytes().subspan(static_cast<std::size_t>(i) * bytes, bytes);
}

Tensor taken(const Tensor& t, const std::vector<std::int64_t>& rows) {
  std::vector<std::int64_t> shape = t.shape();
  shape[0] = static_cast<std::int64_t>(rows.size());
  Tensor out(t.type(), std::move(shape));
  std::byte* to = out.bytes().data();
  for (const std::int64_t i : rows) {
    const auto from = row(t, i);
    to = std::copy(from.begin(), from.end(), to);
  }
  return out;
}

}  // namespace

Distinct distinct_rows(const ForwardInputs& in) {
  Distinct d;
  if (in.T() <= kDistinctFrom) return d;
  d.whole = false;
  const Tensor* const parts[] = {&in.x, &in.gammas, &in.token_slot};
  const auto same = [&](std::int64_t a, std::int64_t b) {
    for (const Tensor* t : parts)
      if (std::memcmp(row(*t, a).data(), row(*t, b).data(), row(*t, a).size()) != 0) return false;
    return true;
  };
  std::vector<std::int64_t> first;
  std::unordered_multimap<std::uint64_t, std::int32_t> known;
  for (std::int64_t t = 0; t < in.T(); ++t) {
    std::uint64_t h = 0;
    for (const Tensor* part : parts) h = hash(h, row(*part, t));
    std::int32_t found = -1;
    for (auto [i, end] = known.equal_range(h); i != end && found < 0; ++i)
      if (same(first[static_cast<std::size_t>(i->second)], t)) found = i->second;
    if (found < 0) {
      found = static_cast<std::int32_t>(first.size());
      first.push_back(t);
      known.emplace(h, found);
    }
    d.row_of.push_back(found);
  }
  d.x = taken(in.x, first);
  d.gammas = taken(in.gammas, first);
  d.token_slot = taken(in.token_slot, first);
  return d;
}

}  // namespace sinktrap
