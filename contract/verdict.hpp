// Names and texts of codes, buffers and seams (contract/codes.h) for C++.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "contract/sinktrap.h"

namespace sinktrap {

using Code = sinktrap_code;
using Verdict = sinktrap_verdict;

// The name of a code as it stands in CONTRACT.md ("layout_mismatch"); "?" for a value outside the table.
std::string_view code_name(std::int32_t code);

// The text that belongs to a code, with the layer's number of shared experts put in.
std::string code_message(std::int32_t code, std::int64_t n_shared_experts);

// "gate_up_lora_a" ...; "" for SINKTRAP_NONE.
std::string_view buffer_name(std::int32_t buffer);

std::string_view seam_name(int seam);
// "base_y+act", "none" for the empty mask, "all" for every seam.
std::string seams_to_text(std::uint32_t mask);
std::optional<std::uint32_t> seams_from_text(std::string_view text);

std::string_view profile_name(std::int32_t profile);

inline Verdict verdict_of(Code code) { return {code, SINKTRAP_NONE, SINKTRAP_NONE, 0, 0, 0}; }
inline Verdict verdict_of(Code code, std::int32_t buffer, std::int32_t axis, std::int64_t found,
                          std::int64_t expected) {
  return {code, buffer, axis, 0, found, expected};
}
inline bool same_verdict(const Verdict& a, const Verdict& b) {
  return a.code == b.code && a.buffer == b.buffer && a.axis == b.axis && a.found == b.found &&
         a.expected == b.expected;
}
// "rank_mismatch gate_up_lora_a axis 2: found 5, expected 6".
std::string verdict_to_text(const Verdict& verdict);

}  // namespace sinktrap

// In the global namespace because Verdict is a C struct of it: argument-dependent lookup finds it from
// everywhere.
inline bool operator==(const sinktrap_verdict& a, const sinktrap_verdict& b) {
  return sinktrap::same_verdict(a, b);
}
