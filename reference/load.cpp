// Loading an adapter's flat factors into a slot (CONTRACT.md section 4).
#include <cstring>

#include "reference/rows.hpp"
#include "reference/slots.hpp"
#include "reference/validate.hpp"

namespace sinktrap::reference {
namespace {

constexpr sinktrap_buffer kGateUpA = SINKTRAP_BUFFER_GATE_UP_LORA_A;
constexpr sinktrap_buffer kGateUpB = SINKTRAP_BUFFER_GATE_UP_LORA_B;
constexpr sinktrap_buffer kDownA = SINKTRAP_BUFFER_DOWN_LORA_A;
constexpr sinktrap_buffer kDownB = SINKTRAP_BUFFER_DOWN_LORA_B;

// Product of extents >= 0, or the largest int64 where that would wrap: no tensor in memory has such an
// extent.
std::int64_t product(std::initializer_list<std::int64_t> extents) {
  std::int64_t result = 1;
  for (std::int64_t extent : extents)
    if (__builtin_mul_overflow(result, extent, &result)) return INT64_MAX;
  return result;
}

// A factor that can be looked at: there, 2-D, row-major, of the storage type, in host memory.
bool is_factor(const DLTensor* t, Element type) { return is_array(t, type, {-1, -1}); }

Verdict check_extent(const DLTensor& t, int buffer, int axis, std::int64_t expected) {
  if (t.shape[axis] == expected) return kOk;
  return verdict_of(SINKTRAP_ARGUMENT, buffer, axis, t.shape[axis], expected);
}

Verdict check_divides(std::int64_t found, std::int64_t divisor, int buffer, int axis) {
  if (found % divisor == 0) return kOk;
  return verdict_of(SINKTRAP_INDIVISIBLE, buffer, axis, found, divisor);
}

// Everything about the factors of an adapter with r >= 1 in the order of section 4, after the slot.
Verdict check_factors(const Pool& pool, const sinktrap_adapter& a) {
  const struct {
    const DLTensor* tensor;
    int buffer;
  } factors[] = {{a.gate_a, kGateUpA},
                 {a.up_a ? a.up_a : a.gate_a, kGateUpA},
                 {a.gate_up_b, kGateUpB},
                 {a.down_a, kDownA},
                 {a.down_b, kDownB}};
  for (const auto& f : factors)
    if (!is_factor(f.tensor, pool.type)) return verdict_of(SINKTRAP_ARGUMENT, f.buffer, SINKTRAP_NONE, 0, 0);
  if (a.rank > pool.R)
    return verdict_of(SINKTRAP_RANK_EXCEEDED, SINKTRAP_NONE, SINKTRAP_NONE, a.rank, pool.R);
  if (a.per_expert && pool.n > 1 && pool.outer == 1) return verdict_of(SINKTRAP_LAYOUT_MISMATCH);

  const std::int64_t b_rows = a.gate_up_b->shape[0], a_columns = a.down_a->shape[1];
  Verdict v = check_divides(b_rows, 2 * pool.n, kGateUpB, 0);
  if (v.code == SINKTRAP_OK) v = check_divides(a_columns, pool.n, kDownA, 1);
  if (v.code == SINKTRAP_OK) v = check_divides(b_rows / (2 * pool.n), a.tp_size, kGateUpB, 0);
  if (v.code != SINKTRAP_OK) return v;

  const std::int64_t copies = a.per_expert ? pool.n : 1, r = a.rank;
  const std::int64_t expected[][2] = {{product({copies, r}), pool.H},
                                      {product({copies, r}), pool.H},
                                      {product({pool.n, 2, pool.F, a.tp_size}), r},
                                      {r, product({pool.n, pool.F, a.tp_size})},
                                      {product({copies, pool.H}), r}};
  for (int i = 0; i < 5; ++i)
    for (int axis = 0; axis < 2; ++axis) {
      v = check_extent(*factors[i].tensor, factors[i].buffer, axis, expected[i][axis]);
      if (v.code != SINKTRAP_OK) return v;
    }
  return kOk;
}

// Writes rows of factors into rows of a slot that is zero beforehand.
class SlotWriter {
 public:
  SlotWriter(const Pool& pool, std::int64_t slot, float scaling)
      : type_(pool.type), bytes_(element_bytes(pool.type)), scaling_(scaling) {
    for (int b = 0; b < SINKTRAP_BUFFER_COUNT; ++b) at_[b] = pool.data[b] + slot * pool.slot_bytes(b);
  }

  // `count` elements from element `from` of the factor, unscaled, to element `to` of the slot.
  void copy(int buffer, std::int64_t to, const DLTensor& factor, std::int64_t from, std::int64_t count) {
    std::memmove(at_[buffer] + to * bytes_, first_byte(factor) + from * bytes_,
                 static_cast<std::size_t>(count * bytes_));
  }
  // The same with each element multiplied by the scaling in f32 and rounded to storage.
  void scale(int buffer, std::int64_t to, const DLTensor& factor, std::int64_t from, std::int64_t count) {
    row_.resize(static_cast<std::size_t>(count));
    decode(type_, first_byte(factor), from, count, row_.data());
    for (std::int64_t i = 0; i < count; ++i)
      store_element(type_, at_[buffer], to + i, scaling_ * row_[static_cast<std::size_t>(i)]);
  }

 private:
  Element type_;
  std::int64_t bytes_;
  float scaling_;
  char* at_[SINKTRAP_BUFFER_COUNT];
  std::vector<float> row_;
};

void write_factors(const Pool& p, std::int64_t slot, const sinktrap_adapter& a) {
  SlotWriter writer(p, slot, a.scaling);
  const std::int64_t r = a.rank, all_features = p.F * a.tp_size, first_feature = a.tp_rank * p.F;
  const DLTensor& up_a = a.up_a ? *a.up_a : *a.gate_a;
  for (std::int64_t o = 0; o < p.outer; ++o) {
    // A shared factor serves every outer index; a per-expert one has its own rows for each.
    const std::int64_t copy = a.per_expert ? o : 0;
    writer.copy(kGateUpA, o * 2 * p.R * p.H, *a.gate_a, copy * r * p.H, r * p.H);
    writer.copy(kGateUpA, (o * 2 * p.R + p.R) * p.H, up_a, copy * r * p.H, r * p.H);
    for (std::int64_t h = 0; h < p.H; ++h)
      writer.scale(kDownB, (o * p.H + h) * p.R, *a.down_b, (copy * p.H + h) * r, r);
  }
  for (std::int64_t e = 0; e < p.n; ++e) {
    for (std::int64_t half = 0; half < 2; ++half)
      for (std::int64_t j = 0; j < p.F; ++j)
        writer.scale(kGateUpB, ((e * 2 + half) * p.F + j) * p.R, *a.gate_up_b,
                     ((e * 2 + half) * all_features + first_feature + j) * r, r);
    for (std::int64_t q = 0; q < r; ++q)
      writer.copy(kDownA, (e * p.R + q) * p.F, *a.down_a, (q * p.n + e) * all_features + first_feature, p.F);
  }
}

}  // namespace

Verdict load_slot(const Pool& pool, std::int64_t slot, const sinktrap_adapter* a) {
  if (slot < 0 || slot >= pool.S) return slot_range(slot, pool.S);
  if (a == nullptr || a->struct_size < sizeof(sinktrap_adapter) || a->tp_size < 1 || a->tp_rank < 0 ||
      a->tp_rank >= a->tp_size || a->rank < 0)
    return verdict_of(SINKTRAP_ARGUMENT);
  if (a->rank > 0) {
    const Verdict v = check_factors(pool, *a);
    if (v.code != SINKTRAP_OK) return v;
  }
  unload_slot(pool, slot);
  if (a->rank > 0) write_factors(pool, slot, *a);
  return kOk;
}

}  // namespace sinktrap::reference
