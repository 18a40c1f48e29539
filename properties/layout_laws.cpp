// Laws about validation (CONTRACT.md section 2).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

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
Judgement accepts_exactly(const Implementation& implementation, std::span<const LayoutCase> cases,
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
  return accepts_exactly(implementation, std::span(&layout(c), 1), SINKTRAP_PROFILE_STRICT, in_image);
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
      [](const LayoutCase& x) { return reference_verdict(x, SINKTRAP_PROFILE_STRICT).code == SINKTRAP_OK; });
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

// Edits that go through all buffers alike, so that exactly one check can see them: an extent taken to its
// limits everywhere, 2R wrapped, the layer's own sizes off by one, and memory that touches or overlaps.
std::vector<LayoutCase> limit_edits(const LayoutCase& valid) {
  std::vector<LayoutCase> list;
  const auto& shapes = valid.buffers;
  const Dimensions d{valid.n, shapes[0].shape[3], shapes[2].shape[3], shapes[2].shape[2], shapes[0].shape[0]};
  const std::int64_t outer = shapes[0].shape[1];
  const auto add = [&](std::int64_t S, std::int64_t H, std::int64_t F, std::int64_t R) {
    const auto doubled = [](std::int64_t v) {
      return static_cast<std::int64_t>(2 * static_cast<std::uint64_t>(v));
    };
    LayoutCase c = valid;
    c.buffers[0].shape = {S, outer, doubled(R), H};
    c.buffers[1].shape = {S, d.n, doubled(F), R};
    c.buffers[2].shape = {S, d.n, R, F};
    c.buffers[3].shape = {S, outer, H, R};
    list.push_back(std::move(c));
  };
  for (const std::int64_t v : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1}, std::int64_t{1} << 31,
                               std::int64_t{1} << 62, INT64_MAX, INT64_MIN}) {
    add(v, d.H, d.F, d.R);
    add(d.S, v, d.F, d.R);
    add(d.S, d.H, v, d.R);
    add(d.S, d.H, d.F, v);
  }
  for (const std::int64_t off : {-1, 0, 1})
    for (const bool hidden : {false, true}) {
      LayoutCase c = valid;
      (hidden ? c.H : c.F) = std::max<std::int64_t>(1, hidden ? d.H + off : d.F + off);
      list.push_back(std::move(c));
    }
  return list;
}

// The four buffers one behind the other with no gap, then each pair overlapping by one element, and that with
// the first buffer null or misaligned. Only where all of it fits.
std::vector<LayoutCase> memory_edits(const LayoutCase& valid) {
  std::vector<LayoutCase> list;
  LayoutCase placed = valid;
  std::uint64_t at = 1 << 12;
  std::array<std::uint64_t, SINKTRAP_BUFFER_COUNT> bytes{};
  for (std::size_t b = 0; b < bytes.size(); ++b) {
    double size = element_bytes(*element_from_dl(valid.buffers[b].dtype));
    for (const std::int64_t e : valid.buffers[b].shape) size *= static_cast<double>(e);
    if (size > 0x1p40) return {};
    bytes[b] = static_cast<std::uint64_t>(size);
    placed.buffers[b].address = at;
    at += bytes[b];
  }
  list.push_back(placed);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    for (std::size_t j = 0; j < bytes.size(); ++j) {
      if (i == j) continue;
      LayoutCase c = placed;  // far apart, but for i, which begins in the last element of j
      for (std::size_t b = 0; b < bytes.size(); ++b) c.buffers[b].address = (b + 1) << 44;
      const std::uint64_t element =
          static_cast<std::uint64_t>(element_bytes(*element_from_dl(c.buffers[j].dtype)));
      c.buffers[i].address = *c.buffers[j].address + bytes[j] - element;
      list.push_back(c);
      for (const std::uint64_t bad : {std::uint64_t{0}, (std::uint64_t{9} << 44) + 1}) {
        const std::size_t other = 6 - i - j > 3 ? 3 : 0;
        if (other == i || other == j) continue;
        LayoutCase both = c;
        both.buffers[other].address = bad;
        list.push_back(std::move(both));
      }
    }
  return list;
}

Judgement limits_have_their_verdict(const Case& c, const Implementation& implementation) {
  std::vector<LayoutCase> edits = limit_edits(layout(c));
  for (LayoutCase& m : memory_edits(layout(c))) edits.push_back(std::move(m));
  Judgement j;
  for (const std::int32_t profile : {SINKTRAP_PROFILE_SGLANG, SINKTRAP_PROFILE_STRICT}) {
    // Shapes and placed buffers in separate calls would hide a batch that is judged by its first entry.
    const auto verdicts = validate(implementation, edits, profile);
    for (std::size_t i = 0; i < edits.size(); ++i) {
      const Verdict expected = reference_verdict(edits[i], profile);
      ++j.elements;
      if (verdicts[i] == expected) continue;
      j.status = Status::failed;
      j.reason = fmt::format("profile {}: verdict '{}', expected '{}'", profile_name(profile),
                             verdict_to_text(verdicts[i]), verdict_to_text(expected));
      j.details = {print_case(edits[i])};
      return j;
    }
  }
  return j;
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
      {"limits-have-their-verdict",
       "extents at the limits of int64 and memory that touches or overlaps get the reference's verdict",
       Generator::layout_valid, 0, is_valid_shapes, limits_have_their_verdict, 1},
  };
}

}  // namespace sinktrap
