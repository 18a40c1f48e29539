// A case: one readable line of text, and the typed value behind it. The same line is a corpus entry, a
// generated value, a fuzz input, a test name and the argument of `sinktrap check`. docs/case-language.md
// describes the text.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "contract/element.hpp"

namespace sinktrap {

enum class ExpertLayout : std::uint8_t { shared, per_expert };
enum class Fill : std::uint8_t { lattice, dense, zero, subnormal, huge, sweep };

// A hostile value put at one place after the fill: put=nan@x:2:3 (tensor, then indices).
struct Put {
  enum class What : std::uint8_t { nan, inf, minus_inf, huge } what = What::nan;
  std::string tensor;  // x gammas w13 w2 gate_up_lora_a gate_up_lora_b down_lora_a down_lora_b
  std::vector<std::int64_t> index;
  bool operator==(const Put&) const = default;
};

// Extents of a layer and its pool (CONTRACT.md section 1).
struct Dimensions {
  std::int64_t n = 1, H = 1, F = 1, R = 1, S = 1;
  bool operator==(const Dimensions&) const = default;
};

// What the contents of a layer and a pool follow from.
struct LayerCase {
  Dimensions d;
  ExpertLayout layout = ExpertLayout::shared;  // n = 1: always shared
  std::int32_t w13 = SINKTRAP_W13_INTERLEAVED;
  Element type = Element::bf16;
  Element gammas = Element::bf16;   // storage type or f32
  std::vector<std::int64_t> ranks;  // r of each slot, S entries, 0..R
  Fill fill = Fill::lattice;
  std::vector<Put> put;
  std::uint64_t schedule = 0;  // order of threads and blocks where an implementation can choose it
  std::uint64_t seed = 0;
  bool operator==(const LayerCase&) const = default;
};

// `forward`: one batch of tokens through one layer.
struct ForwardCase {
  LayerCase layer;
  std::vector<std::int32_t> slots;  // slot of each token, T entries, -1..S-1
  std::int64_t tp = 1;              // judged also as the sum of this many tensor-parallel shards; divides F
  std::int64_t T() const { return static_cast<std::int64_t>(slots.size()); }
  bool operator==(const ForwardCase&) const = default;
};

// `layout`: shapes, types and strides to validate.
struct BufferCase {
  std::vector<std::int64_t> shape;
  DLDataType dtype = {kDLBfloat, 16, 1};
  std::optional<std::vector<std::int64_t>> strides;  // absent: null
  DLDevice device = {kDLCPU, 0};
  std::optional<std::uint64_t> address;  // absent for all four: shapes only
  std::uint64_t byte_offset = 0;
  bool operator==(const BufferCase& o) const;
};
struct LayoutCase {
  std::int64_t n = 1, H = SINKTRAP_ANY, F = SINKTRAP_ANY;
  std::int32_t profile = SINKTRAP_PROFILE_STRICT;
  std::array<BufferCase, SINKTRAP_BUFFER_COUNT> buffers;
  bool operator==(const LayoutCase&) const = default;
};

// How an adapter's outer factors come: gate and up A the same tensor, two tensors, or one per expert.
enum class Factors : std::uint8_t { stacked, separate, per_expert };

// `pack`: load an adapter into a slot of a pool that held something else.
struct PackCase {
  LayerCase layer;  // ranks: what the pool held before
  std::int64_t slot = 0, r = 1, tp_rank = 0, tp = 1;
  Factors factors = Factors::separate;
  double scaling = 1.0;  // a float value
  bool operator==(const PackCase&) const = default;
};

// `shard`: cut a pool into tensor-parallel shards; expand and collapse its outer factors.
struct ShardCase {
  LayerCase layer;
  std::int64_t tp = 1;
  bool operator==(const ShardCase&) const = default;
};

// `state`: a sequence of steps on one instance.
struct Step {
  enum class Kind : std::uint8_t {
    bind,
    rebind_other,
    rebind_invalid,
    rebind_strided,
    rebind_same,
    write,
    load,
    unload,
    update,
    forward
  } kind = Kind::bind;
  std::optional<std::vector<std::int64_t>> ids;  // update: slot set (absent = all)
  std::int64_t slot = 0, r = 0;                  // write, load, unload
  std::vector<std::int32_t> slots;               // forward
  std::uint64_t seed = 0;                        // contents of bind, write, load, forward
  bool operator==(const Step&) const = default;
};
struct StateCase {
  LayerCase layer;
  std::vector<Step> steps;
  bool operator==(const StateCase&) const = default;
};

using Case = std::variant<LayoutCase, ForwardCase, StateCase, PackCase, ShardCase>;

// Extents of a tensor that `put` can name (its number in words::put_tensors), with T tokens; -1 for an axis
// that it does not have.
std::array<std::int64_t, 4> put_extents(const LayerCase& c, std::int64_t T, std::size_t tensor);

// The names of the kinds, in the order of the variant: layout forward state pack shard.
std::string_view case_kind(const Case& c);

// Canonical text: one line, fields in a fixed order, defaults left out. parse_case(print_case(c)) == c.
std::string print_case(const Case& c);

// A refusal: where (1-based column in the line) and one sentence with what was expected and found.
struct CaseError {
  std::size_t column = 1;
  std::string what;
};
// Never throws; allocations stay below 64 MiB whatever the text.
std::variant<Case, CaseError> parse_case(std::string_view line);

// Bytes of all tensors of a layer, its pool and a batch, where the layer has `features` (F, or F of all
// tensor-parallel ranks). In double: limits are far below where that matters.
double tensor_bytes(const LayerCase& c, double tokens, double features);

// Limits that the parser enforces, so that a typed or fuzzed line cannot ask for more than a machine has.
struct CaseLimits {
  static constexpr std::int64_t max_tokens = 1 << 20;
  static constexpr std::int64_t max_slots = 4096;
  static constexpr std::int64_t max_extent = INT32_MAX;
  static constexpr std::int64_t max_bytes = std::int64_t{12} << 30;  // all tensors of a case together
  static constexpr std::size_t max_line = 1 << 20;
  static constexpr std::size_t max_steps = 4096;
};

}  // namespace sinktrap
