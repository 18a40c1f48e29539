// Laws about validation (CONTRACT.md section 2).
#include <fmt/format.h>

#include <algorithm>

#include "judge/layouts.hpp"
#include "properties/law.hpp"

namespace sinktrap {
namespace {

const LayoutCase& layout(const Case& c) { return std::get<LayoutCase>(c); }
bool is_layout(const Case& c) { return std::holds_alternative<LayoutCase>(c); }

// Nothing but shapes can be wrong: one storage type, no strides, one device, no addresses.
bool is_shapes_only(const Case& c) {
  if (!is_layout(c)) return false;
  const auto& buffers = layout(c).buffers;
  return std::all_of(buffers.begin(), buffers.end(), [&](const BufferCase& b) {
    const auto e = element_from_dl(b.dtype);
    return !b.address && !b.strides && e && is_storage(*e) && b.byte_offset == 0 &&
           b.dtype.bits == buffers[0].dtype.bits && b.dtype.code == buffers[0].dtype.code &&
           b.device.device_type == buffers[0].device.device_type &&
           b.device.device_id == buffers[0].device.device_id;
  });
}
bool is_valid_shapes(const Case& c) { return is_shapes_only(c) && layout(c).n >= 1 && in_image(layout(c)); }

// Judges many layouts derived from one case: each must be accepted exactly if `valid` says so.
Judgement accepts_exactly(const Implementation& implementation, const std::vector<LayoutCase>& cases,
                          std::int32_t profile, bool (*valid)(const LayoutCase&)) {
  const auto verdicts = validate(implementation, cases, profile);
  Judgement j;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    ++j.elements;
    const bool accepted = verdicts[i].code == SINKTRAP_OK, expected = valid(cases[i]);
    if (accepted == expected) continue;
    j.status = Status::failed;
    if (j.reason.empty())
      j.reason = expected ? fmt::format("a valid layout was refused: {}", verdict_to_text(verdicts[i]))
                          : "an invalid layout was accepted";
    if (j.details.size() < 4) j.details.push_back(print_case(cases[i]));
  }
  return j;
}

Judgement strict_is_the_image(const Case& c, const Implementation& implementation) {
  return accepts_exactly(implementation, {layout(c)}, SINKTRAP_PROFILE_STRICT, in_image);
}

Judgement verdicts_agree(const Case& c, const Implementation& implementation) {
  Judgement j;
  for (const std::int32_t profile : {SINKTRAP_PROFILE_SGLANG, SINKTRAP_PROFILE_STRICT}) {
    const Verdict found = validate(implementation, std::span(&layout(c), 1), profile)[0];
    const Verdict expected = reference_verdict(layout(c), profile);
    ++j.elements;
    if (found == expected) continue;
    j.status = Status::failed;
    j.reason = fmt::format("profile {}: verdict '{}', expected '{}'", profile_name(profile),
                           verdict_to_text(found), verdict_to_text(expected));
    return j;
  }
  return j;
}

// Every fault that only the strict contract knows, put into a valid layout.
std::vector<LayoutCase> strict_only_faults(const LayoutCase& valid) {
  std::vector<LayoutCase> list;
  const auto change = [&](std::size_t buffer, auto&& edit) {
    LayoutCase c = valid;
    edit(c.buffers[buffer]);
    list.push_back(std::move(c));
  };
  for (std::size_t b = 0; b < SINKTRAP_BUFFER_COUNT; ++b) {
    change(b, [](BufferCase& x) { ++x.shape[0]; });
    change(b, [](BufferCase& x) { x.shape[0] = 0; });
    change(b, [](BufferCase& x) { x.dtype = dl_type(Element::f64); });
    change(b, [](BufferCase& x) { x.dtype.lanes = 2; });
    change(b, [](BufferCase& x) { x.device.device_id = 1; });
    change(b, [](BufferCase& x) {
      x.strides = std::vector<std::int64_t>{x.shape[3], x.shape[3], x.shape[3], 2};
    });
  }
  change(SINKTRAP_BUFFER_GATE_UP_LORA_A, [](BufferCase& x) { ++x.shape[3]; });
  change(SINKTRAP_BUFFER_DOWN_LORA_B, [](BufferCase& x) { ++x.shape[2]; });
  change(SINKTRAP_BUFFER_GATE_UP_LORA_B, [](BufferCase& x) { ++x.shape[2]; });
  change(SINKTRAP_BUFFER_GATE_UP_LORA_B, [](BufferCase& x) { x.shape[2] += 2; });
  change(SINKTRAP_BUFFER_DOWN_LORA_A, [](BufferCase& x) { ++x.shape[3]; });
  return list;
}

Judgement sglang_is_the_five_checks(const Case& c, const Implementation& implementation) {
  const auto cases = strict_only_faults(layout(c));
  return accepts_exactly(implementation, cases, SINKTRAP_PROFILE_SGLANG,
                         [](const LayoutCase&) { return true; });
}

Judgement strict_closes_the_holes(const Case& c, const Implementation& implementation) {
  // A stride fault is none where its axes have extent 1, so the reference's verdict decides what is a fault.
  return accepts_exactly(
      implementation, strict_only_faults(layout(c)), SINKTRAP_PROFILE_STRICT,
      [](const LayoutCase& x) { return reference_verdict(x, x.profile).code == SINKTRAP_OK; });
}

Judgement single_axis_changes(const Case& c, const Implementation& implementation) {
  std::vector<LayoutCase> changed;
  const LayoutCase& valid = layout(c);
  for (std::size_t b = 0; b < SINKTRAP_BUFFER_COUNT; ++b) {
    for (std::size_t axis = 0; axis < 4; ++axis) {
      const std::int64_t v = valid.buffers[b].shape[axis];
      const std::int64_t twice = v <= INT64_MAX / 2 ? 2 * v : INT64_MAX;
      const std::int64_t next = v < INT64_MAX ? v + 1 : v - 1;
      for (const std::int64_t to : {next, v - 1, twice, v / 2, std::int64_t{0}, std::int64_t{1}, -v, valid.n,
                                    std::int64_t{1} << 31, INT64_MAX, INT64_MIN}) {
        if (to == v) continue;
        LayoutCase x = valid;
        x.profile = SINKTRAP_PROFILE_STRICT;
        x.buffers[b].shape[axis] = to;
        changed.push_back(std::move(x));
      }
    }
    for (const std::size_t axes : {std::size_t{3}, std::size_t{5}}) {
      LayoutCase x = valid;
      x.buffers[b].shape.resize(axes, 1);
      changed.push_back(std::move(x));
    }
  }
  return accepts_exactly(implementation, changed, SINKTRAP_PROFILE_STRICT, in_image);
}

}  // namespace

std::vector<Law> layout_laws() {
  return {
      {"strict-is-the-image", "strict accepts exactly the shapes in the image of (S, outer, n, R, H, F)",
       Generator::layout_shapes, 0, is_shapes_only, strict_is_the_image, 4},
      {"verdicts-agree", "every field of a verdict equals the reference's, in both profiles",
       Generator::layout_anything, 0, is_layout, verdicts_agree, 6},
      {"sglang-is-the-five-checks", "the sglang profile is the five checks and nothing more",
       Generator::layout_valid, 0, is_valid_shapes, sglang_is_the_five_checks, 1},
      {"strict-closes-the-holes", "strict refuses every fault that the five checks let through",
       Generator::layout_valid, 0, is_valid_shapes, strict_closes_the_holes, 1},
      {"single-axis-changes",
       "each single-axis change of a valid layout is refused unless it is another valid layout",
       Generator::layout_valid, 0, is_valid_shapes, single_axis_changes, 2},
  };
}

}  // namespace sinktrap
