#include "reference/rows.hpp"

#include <array>
#include <bit>
#include <cstring>
#include <map>

namespace sinktrap::reference {
namespace {

// All 65536 values of a 16-bit type, decoded by the contract once.
std::vector<float> all_values(Element type) {
  std::vector<float> values(std::size_t{1} << 16);
  for (std::size_t bits = 0; bits < values.size(); ++bits) {
    const auto stored = static_cast<std::uint16_t>(bits);
    values[bits] = static_cast<float>(load_element(type, &stored, 0));
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

}  // namespace

void decode(Element type, const void* data, std::int64_t first, std::int64_t count, float* out) {
  const char* p = static_cast<const char*>(data) + first * element_bytes(type);
  const auto look_up = [&](const std::vector<float>& values) {
    for (std::int64_t i = 0; i < count; ++i) {
      std::uint16_t bits;
      std::memcpy(&bits, p + 2 * i, sizeof bits);
      out[i] = values[bits];
    }
  };
  static const std::vector<float> bf16 = all_values(Element::bf16), f16 = all_values(Element::f16);
  switch (type) {
    case Element::bf16:
      look_up(bf16);
      break;
    case Element::f16:
      look_up(f16);
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
  std::map<std::int64_t, std::vector<std::int64_t>> tokens_of;
  for (std::int64_t t = 0; t < problem.T; ++t) tokens_of[problem.token_slot[t]].push_back(t);
  std::vector<Group> groups;
  groups.reserve(tokens_of.size());
  for (auto& [slot, tokens] : tokens_of) groups.push_back({slot, std::move(tokens)});
  return groups;
}

}  // namespace sinktrap::reference
