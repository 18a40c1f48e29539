#include "contract/verdict.hpp"

#include <array>

namespace sinktrap {
namespace {

struct CodeRow {
  std::string_view name, message;
};
constexpr std::array<CodeRow, SINKTRAP_CODE_COUNT> kCodes = {{
#define SINKTRAP_ROW(NAME, text, message) CodeRow{text, message},
    SINKTRAP_CODES(SINKTRAP_ROW)
#undef SINKTRAP_ROW
}};
#define SINKTRAP_NAME(NAME, text) std::string_view{text},
constexpr std::array<std::string_view, SINKTRAP_BUFFER_COUNT> kBuffers = {{SINKTRAP_BUFFERS(SINKTRAP_NAME)}};
constexpr std::array<std::string_view, SINKTRAP_SEAM_COUNT> kSeams = {{SINKTRAP_SEAMS(SINKTRAP_NAME)}};
#undef SINKTRAP_NAME

}  // namespace

std::string_view code_name(std::int32_t code) {
  if (code < 0 || code >= SINKTRAP_CODE_COUNT) return "?";
  return kCodes[static_cast<std::size_t>(code)].name;
}

std::string code_message(std::int32_t code, std::int64_t n_shared_experts) {
  if (code < 0 || code >= SINKTRAP_CODE_COUNT)
    return "code " + std::to_string(code) + " is not in the contract";
  std::string text{kCodes[static_cast<std::size_t>(code)].message};
  if (auto at = text.find("{n}"); at != std::string::npos)
    text.replace(at, 3, std::to_string(n_shared_experts));
  return text;
}

std::string_view buffer_name(std::int32_t buffer) {
  if (buffer == SINKTRAP_NONE) return "";
  if (buffer < 0 || buffer >= SINKTRAP_BUFFER_COUNT) return "?";
  return kBuffers[static_cast<std::size_t>(buffer)];
}

std::string_view seam_name(int seam) {
  if (seam < 0 || seam >= SINKTRAP_SEAM_COUNT) return "?";
  return kSeams[static_cast<std::size_t>(seam)];
}

std::string seams_to_text(std::uint32_t mask) {
  if (mask == 0) return "none";
  if (mask == SINKTRAP_ALL_SEAMS) return "all";
  std::string text;
  for (int i = 0; i < SINKTRAP_SEAM_COUNT; ++i) {
    if (!(mask >> i & 1u)) continue;
    if (!text.empty()) text += '+';
    text += seam_name(i);
  }
  return text;
}

std::optional<std::uint32_t> seams_from_text(std::string_view text) {
  if (text == "none") return 0u;
  if (text == "all") return SINKTRAP_ALL_SEAMS;
  std::uint32_t mask = 0;
  while (true) {
    const auto plus = text.find('+');
    const auto word = text.substr(0, plus);
    int seam = 0;
    while (seam < SINKTRAP_SEAM_COUNT && seam_name(seam) != word) ++seam;
    if (seam == SINKTRAP_SEAM_COUNT) return std::nullopt;
    mask |= 1u << seam;
    if (plus == std::string_view::npos) return mask;
    text.remove_prefix(plus + 1);
  }
}

std::string_view profile_name(std::int32_t profile) {
  return profile == SINKTRAP_PROFILE_SGLANG ? "sglang" : profile == SINKTRAP_PROFILE_STRICT ? "strict" : "?";
}

std::string verdict_to_text(const Verdict& v) {
  std::string text{code_name(v.code)};
  if (v.buffer != SINKTRAP_NONE) text += " " + std::string(buffer_name(v.buffer));
  if (v.axis != SINKTRAP_NONE) text += " axis " + std::to_string(v.axis);
  if (v.buffer != SINKTRAP_NONE || v.found != 0 || v.expected != 0)
    text += ": found " + std::to_string(v.found) + ", expected " + std::to_string(v.expected);
  return text;
}

}  // namespace sinktrap
