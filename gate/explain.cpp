#include "gate/explain.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace sinktrap {
namespace {

constexpr std::string_view kSymbols[SINKTRAP_BUFFER_COUNT][4] = {
    {"S", "outer", "2R", "H"}, {"S", "n", "2F", "R"}, {"S", "n", "R", "F"}, {"S", "outer", "H", "R"}};

const std::vector<std::int64_t>& shape(const LayoutCase& l, int buffer) {
  return l.buffers[static_cast<std::size_t>(buffer)].shape;
}

std::string shape_text(const std::vector<std::int64_t>& s) { return fmt::format("[{}]", fmt::join(s, ", ")); }

// The extents that the buffers suggest; symbols where they say nothing.
std::string legal_layout(const LayoutCase& l, bool shared) {
  const bool all_4d =
      std::all_of(l.buffers.begin(), l.buffers.end(), [](const auto& b) { return b.shape.size() == 4; });
  const auto number = [&](int buffer, std::size_t axis, std::int64_t known, std::string_view symbol) {
    if (known != SINKTRAP_ANY) return std::to_string(known);
    return all_4d ? std::to_string(shape(l, buffer)[axis]) : std::string(symbol);
  };
  const auto twice = [](const std::string& v) {
    const bool digits = !v.empty() && v.size() < 18 && v.find_first_not_of("0123456789") == std::string::npos;
    return digits ? std::to_string(2 * std::stoll(v)) : "2*" + v;
  };
  const std::string S = number(0, 0, SINKTRAP_ANY, "S"), R = number(1, 3, SINKTRAP_ANY, "R");
  const std::string H = number(0, 3, l.H, "H"), F = number(2, 3, l.F, "F");
  const std::string n = std::to_string(l.n), outer = shared ? "1" : n;
  return fmt::format(
      "  {:<12} gate_up_lora_a [{}, {}, {}, {}]  gate_up_lora_b [{}, {}, {}, {}]  down_lora_a [{}, {}, {}, "
      "{}]  "
      "down_lora_b [{}, {}, {}, {}]\n",
      shared ? "shared-outer" : "per-expert", S, outer, twice(R), H, S, n, twice(F), R, S, n, R, F, S, outer,
      H, R);
}

std::string advice(const LayoutCase& l, const Verdict& v) {
  switch (v.code) {
    case SINKTRAP_NOT_4D:
      return "Every buffer holds all slots and experts: [slots, experts, rows, columns]. A flat checkpoint "
             "factor is "
             "turned into it by load (CONTRACT.md section 4).";
    case SINKTRAP_OUTER_DIM:
      return fmt::format("Axis 1 of an outer factor is 1 (shared-outer) or n = {} (per-expert).", l.n);
    case SINKTRAP_LAYOUT_MISMATCH: {
      const bool a_shared = shape(l, SINKTRAP_BUFFER_GATE_UP_LORA_A)[1] == 1;
      const std::string_view shared = a_shared ? "gate_up_lora_a" : "down_lora_b";
      const std::string_view per_expert = a_shared ? "down_lora_b" : "gate_up_lora_a";
      return fmt::format(
          "{0} is shared-outer and {1} is per-expert. Expand {0}: repeat its factor {2} times along axis 1; "
          "that is lossless. ({1} can become shared-outer only if its {2} copies are bit-identical.)",
          shared, per_expert, l.n);
    }
    case SINKTRAP_EXPERT_COUNT: {
      std::string text = fmt::format("Axis 1 of gate_up_lora_b and down_lora_a is always n = {}.", l.n);
      if (v.found == 1 && l.n > 1)
        text +=
            " An extent of 1 looks like a fully shared adapter: only outer factors can be shared; repeat "
            "this one "
            "for every expert.";
      return text;
    }
    case SINKTRAP_RANK_MISMATCH:
      return "R is the last extent of gate_up_lora_b. gate_up_lora_a has 2R rows: gate rows 0..R-1, up rows "
             "R..2R-1.";
    case SINKTRAP_STRIDE:
      return "Make the buffer contiguous, last axis fastest, before it is bound.";
    case SINKTRAP_ALIASING:
      return "Give every buffer memory of its own: a slot's update would change the other one.";
    default:
      return "";
  }
}

}  // namespace

std::string explain(const LayoutCase& l, std::int32_t profile, const Verdict& v) {
  if (v.code == SINKTRAP_OK) {
    const bool shared = shape(l, SINKTRAP_BUFFER_GATE_UP_LORA_A).size() == 4 &&
                        shape(l, SINKTRAP_BUFFER_GATE_UP_LORA_A)[1] == 1;
    return fmt::format("VALID ({}): {} layout\n", profile_name(profile),
                       shared ? "shared-outer" : "per-expert");
  }
  std::string text = fmt::format("INVALID ({}): {}\n{}\n\n", profile_name(profile), code_name(v.code),
                                 code_message(v.code, l.n));
  for (int b = 0; b < SINKTRAP_BUFFER_COUNT; ++b) {
    text += fmt::format("  {:<15} {}", buffer_name(b), shape_text(shape(l, b)));
    if (v.buffer == b) {
      const std::string where =
          v.axis == SINKTRAP_NONE ? "" : fmt::format("axis {} ({}), ", v.axis, kSymbols[b][v.axis]);
      text += fmt::format("   <- {}found {}, expected {}", where, v.found, v.expected);
    }
    text += "\n";
  }
  if (v.code == SINKTRAP_LAYER)
    return text + fmt::format("\nn, H and F must be at least 1; found {}.\n", v.found);
  text += fmt::format("\nThe legal layouts for n = {}:\n", l.n) + legal_layout(l, true);
  if (l.n > 1) text += legal_layout(l, false);
  const std::string what = advice(l, v);
  return what.empty() ? text : text + "\nWhat to do: " + what + "\n";
}

}  // namespace sinktrap
