#include "reference/rows.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>

namespace sinktrap::reference {
namespace {

// All 65536 values of f16, decoded by the contract once.
std::vector<float> all_f16() {
  std::vector<float> values(std::size_t{1} << 16);
  for (std::size_t bits = 0; bits < values.size(); ++bits) {
    const auto stored = static_cast<std::uint16_t>(bits);
    values[bits] = static_cast<float>(load_element(Element::f16, &stored, 0));
  }
  return values;
}

// Drops the last `dropped` bits of a float's significand, to nearest, ties to even: adding half a unit (less
// one where the kept part is even) carries exactly when the value rounds up, through the exponent too. Not
// for NaN.
float drop_bits(float value, int dropped) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t kept_is_odd = bits >> dropped & 1u;
  const std::uint32_t half = (1u << (dropped - 1)) - 1u + kept_is_odd;
  return std::bit_cast<float>((bits + half) >> dropped << dropped);
}

float round_f16(float value) {
  const float a = std::fabs(value);
  // Below the normal range the unit is 2^-24, which is the unit of a float in [0.5, 1): the addition rounds.
  if (a < 0x1p-14f) return std::copysign((a + 0.5f) - 0.5f, value);
  const float rounded = drop_bits(value, 24 - 11);
  return std::fabs(rounded) >= 0x1p16f ? std::copysign(HUGE_VALF, value) : rounded;
}

std::uint16_t bits_at(const char* p, std::int64_t i) {
  std::uint16_t bits;
  std::memcpy(&bits, p + 2 * i, sizeof bits);
  return bits;
}

}  // namespace

void decode(Element type, const void* data, std::int64_t first, std::int64_t count, float* out) {
  const char* p = static_cast<const char*>(data) + first * element_bytes(type);
  static const std::vector<float> f16 = all_f16();
  switch (type) {
    case Element::bf16:  // the upper half of the f32 with that value
      for (std::int64_t i = 0; i < count; ++i)
        out[i] = std::bit_cast<float>(std::uint32_t{bits_at(p, i)} << 16);
      break;
    case Element::f16:
      for (std::int64_t i = 0; i < count; ++i) out[i] = f16[bits_at(p, i)];
      break;
    default:
      if (count > 0) std::memcpy(out, p, static_cast<std::size_t>(count) * sizeof(float));
  }
}

std::vector<float> decode(Element type, const void* data, std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  decode(type, data, 0, count, values.data());
  return values;
}

float round_storage(Element type, float value) {
  if (type == Element::f32 || std::isnan(value) || std::isinf(value)) return value;
  return type == Element::bf16 ? drop_bits(value, 24 - 8) : round_f16(value);
}

std::vector<Group> groups_by_slot(const Problem& problem) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(problem.T));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  const auto slot_of = [&](std::int64_t token) { return std::int64_t{problem.token_slot[token]}; };
  std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return slot_of(a) != slot_of(b) ? slot_of(a) < slot_of(b) : a < b;
  });
  std::vector<Group> groups;
  for (auto first = order.begin(); first != order.end();) {
    const auto last =
        std::find_if(first, order.end(), [&](std::int64_t t) { return slot_of(t) != slot_of(*first); });
    groups.push_back({slot_of(*first), {first, last}});
    first = last;
  }
  return groups;
}

}  // namespace sinktrap::reference
