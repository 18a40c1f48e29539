#include "reference/slots.hpp"

#include <algorithm>
#include <cstring>

#include "reference/validate.hpp"

namespace sinktrap::reference {
namespace {

// Callers may hand over buffers that overlap: the result is then theirs to answer for, but it is not
// undefined.
void copy_elements(char* to, std::int64_t to_element, const char* from, std::int64_t from_element,
                   std::int64_t count, Element type) {
  const std::int64_t bytes = element_bytes(type);
  std::memmove(to + to_element * bytes, from + from_element * bytes, static_cast<std::size_t>(count * bytes));
}

// The two tensors of expand and collapse: [S, 1, a, b] and [S, n, a, b] of one storage type.
struct OuterPair {
  std::int64_t slots, experts, slice_bytes;  // slice: one expert's [a, b]
  char *shared, *per_expert;
};

bool read_outer_pair(const DLTensor* shared, const DLTensor* per_expert, std::int32_t buffer,
                     OuterPair& pair) {
  if (buffer != SINKTRAP_BUFFER_GATE_UP_LORA_A && buffer != SINKTRAP_BUFFER_DOWN_LORA_B) return false;
  if (shared == nullptr || per_expert == nullptr) return false;
  const auto type = element_from_dl(shared->dtype);
  const auto found = extents(*per_expert);
  if (!type || !is_storage(*type) || found.size() != 4) return false;
  if (std::any_of(found.begin(), found.end(), [](std::int64_t extent) { return extent < 1; })) return false;
  if (!is_array(per_expert, *type, {found[0], found[1], found[2], found[3]})) return false;
  if (!is_array(shared, *type, {found[0], 1, found[2], found[3]})) return false;
  pair = {found[0], found[1], found[2] * found[3] * element_bytes(*type),
          static_cast<char*>(shared->data) + shared->byte_offset,
          static_cast<char*>(per_expert->data) + per_expert->byte_offset};
  return true;
}

}  // namespace

bool on_host(DLDevice device) { return device_key(device) == device_key(kHost); }

std::int64_t Pool::slot_bytes(int buffer) const {
  const std::int64_t bytes = element_bytes(type);
  switch (buffer) {
    case SINKTRAP_BUFFER_GATE_UP_LORA_A:
      return outer * 2 * R * H * bytes;
    case SINKTRAP_BUFFER_GATE_UP_LORA_B:
      return n * 2 * F * R * bytes;
    case SINKTRAP_BUFFER_DOWN_LORA_A:
      return n * R * F * bytes;
    default:
      return outer * H * R * bytes;
  }
}

Pool pool_of(const DLTensor buffers[SINKTRAP_BUFFER_COUNT]) {
  const std::int64_t* gate_up_a = buffers[SINKTRAP_BUFFER_GATE_UP_LORA_A].shape;
  const std::int64_t* down_a = buffers[SINKTRAP_BUFFER_DOWN_LORA_A].shape;
  Pool pool;
  pool.S = gate_up_a[0];
  pool.outer = gate_up_a[1];
  pool.H = gate_up_a[3];
  pool.n = down_a[1];
  pool.R = down_a[2];
  pool.F = down_a[3];
  pool.type = element_from_dl(buffers[SINKTRAP_BUFFER_GATE_UP_LORA_A].dtype).value_or(Element::bf16);
  for (std::size_t b = 0; b < pool.data.size(); ++b)
    pool.data[b] = static_cast<char*>(buffers[b].data) + buffers[b].byte_offset;
  return pool;
}

bool is_array(const DLTensor* t, Element type, std::initializer_list<std::int64_t> expected) {
  if (t == nullptr || !on_host(t->device) || dtype_key(t->dtype) != dtype_key(dl_type(type))) return false;
  const auto found = extents(*t);
  if (found.size() != expected.size()) return false;
  std::int64_t bytes = element_bytes(type);
  bool empty = false;
  for (std::size_t axis = 0; axis < found.size(); ++axis) {
    const std::int64_t wanted = expected.begin()[axis];
    if (wanted == -1 ? found[axis] < 0 : found[axis] != wanted) return false;
    empty = empty || found[axis] == 0;
  }
  if (empty) return true;
  for (std::int64_t extent : found)
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return false;
  const auto address = reinterpret_cast<std::uintptr_t>(t->data) + t->byte_offset;
  return is_contiguous(*t) && t->data != nullptr &&
         address % static_cast<std::uintptr_t>(element_bytes(type)) == 0;
}

Verdict slot_range(std::int64_t id, std::int64_t slots) {
  return verdict_of(SINKTRAP_SLOT_RANGE, SINKTRAP_NONE, SINKTRAP_NONE, id, slots);
}

void derive_w1_delta(const Pool& p, std::int64_t slot, char* w1_delta) {
  const char* b = p.data[SINKTRAP_BUFFER_GATE_UP_LORA_B];
  const std::int64_t width = 2 * p.R, rows = p.n * 2 * p.F;
  std::memset(w1_delta + slot * rows * width * element_bytes(p.type), 0,
              static_cast<std::size_t>(rows * width * element_bytes(p.type)));
  for (std::int64_t e = 0; e < p.n; ++e)
    for (std::int64_t j = 0; j < p.F; ++j) {
      const std::int64_t gate_row = (slot * p.n + e) * 2 * p.F + j, up_row = gate_row + p.F;
      const std::int64_t pair = slot * rows + e * 2 * p.F + 2 * j;
      copy_elements(w1_delta, pair * width, b, gate_row * p.R, p.R, p.type);
      copy_elements(w1_delta, (pair + 1) * width + p.R, b, up_row * p.R, p.R, p.type);
    }
}

void derive_a_cat(const Pool& p, std::int64_t slot, char* a_cat) {
  for (std::int64_t q = 0; q < p.R; ++q)
    for (std::int64_t e = 0; e < p.n; ++e)
      copy_elements(a_cat, ((slot * p.R + q) * p.n + e) * p.F, p.data[SINKTRAP_BUFFER_DOWN_LORA_A],
                    ((slot * p.n + e) * p.R + q) * p.F, p.F, p.type);
}

void derive_b_cat(const Pool& p, std::int64_t slot, char* b_cat) {
  for (std::int64_t h = 0; h < p.H; ++h)
    for (std::int64_t e = 0; e < p.n; ++e)
      copy_elements(b_cat, ((slot * p.H + h) * p.n + e) * p.R, p.data[SINKTRAP_BUFFER_DOWN_LORA_B],
                    ((slot * p.n + e) * p.H + h) * p.R, p.R, p.type);
}

Verdict unload_slot(const Pool& p, std::int64_t slot) {
  if (slot < 0 || slot >= p.S) return slot_range(slot, p.S);
  for (int b = 0; b < SINKTRAP_BUFFER_COUNT; ++b)
    std::memset(p.data[b] + slot * p.slot_bytes(b), 0, static_cast<std::size_t>(p.slot_bytes(b)));
  return kOk;
}

Verdict shard_pool(const DLTensor* full, std::int64_t tp_rank, std::int64_t tp_size, const DLTensor* shard) {
  if (full == nullptr || shard == nullptr || tp_size < 1 || tp_rank < 0 || tp_rank >= tp_size)
    return verdict_of(SINKTRAP_ARGUMENT);
  // The experts are not named by the call: the buffers say themselves how many there are.
  const auto experts = extents(full[SINKTRAP_BUFFER_GATE_UP_LORA_B]);
  if (experts.size() != 4) return verdict_of(SINKTRAP_ARGUMENT);
  sinktrap_layout layout{experts[1], SINKTRAP_ANY, SINKTRAP_ANY, 0, 0, {}};
  std::copy_n(full, SINKTRAP_BUFFER_COUNT, layout.buffers);
  if (validate(layout, SINKTRAP_PROFILE_STRICT).code != SINKTRAP_OK || !on_host(full[0].device))
    return verdict_of(SINKTRAP_ARGUMENT);
  const Pool whole = pool_of(full);
  if (whole.F % tp_size != 0)
    return verdict_of(SINKTRAP_INDIVISIBLE, SINKTRAP_BUFFER_GATE_UP_LORA_B, 2, whole.F, tp_size);

  const std::int64_t F = whole.F / tp_size;
  if (!is_array(&shard[SINKTRAP_BUFFER_GATE_UP_LORA_A], whole.type,
                {whole.S, whole.outer, 2 * whole.R, whole.H}) ||
      !is_array(&shard[SINKTRAP_BUFFER_GATE_UP_LORA_B], whole.type, {whole.S, whole.n, 2 * F, whole.R}) ||
      !is_array(&shard[SINKTRAP_BUFFER_DOWN_LORA_A], whole.type, {whole.S, whole.n, whole.R, F}) ||
      !is_array(&shard[SINKTRAP_BUFFER_DOWN_LORA_B], whole.type, {whole.S, whole.outer, whole.H, whole.R}))
    return verdict_of(SINKTRAP_ARGUMENT);
  const Pool part = pool_of(shard);

  for (int b : {SINKTRAP_BUFFER_GATE_UP_LORA_A, SINKTRAP_BUFFER_DOWN_LORA_B})
    std::memmove(part.data[b], whole.data[b], static_cast<std::size_t>(whole.S * whole.slot_bytes(b)));
  // [S * n * 2 halves, F, R]: each half is cut by itself.
  for (std::int64_t half = 0; half < whole.S * whole.n * 2; ++half)
    copy_elements(part.data[SINKTRAP_BUFFER_GATE_UP_LORA_B], half * F * whole.R,
                  whole.data[SINKTRAP_BUFFER_GATE_UP_LORA_B], (half * whole.F + tp_rank * F) * whole.R,
                  F * whole.R, whole.type);
  for (std::int64_t row = 0; row < whole.S * whole.n * whole.R; ++row)
    copy_elements(part.data[SINKTRAP_BUFFER_DOWN_LORA_A], row * F, whole.data[SINKTRAP_BUFFER_DOWN_LORA_A],
                  row * whole.F + tp_rank * F, F, whole.type);
  return kOk;
}

Verdict expand_outer(const DLTensor* shared, std::int32_t buffer, const DLTensor* per_expert) {
  OuterPair pair;
  if (!read_outer_pair(shared, per_expert, buffer, pair)) return verdict_of(SINKTRAP_ARGUMENT);
  for (std::int64_t i = 0; i < pair.slots * pair.experts; ++i)
    std::memmove(pair.per_expert + i * pair.slice_bytes, pair.shared + i / pair.experts * pair.slice_bytes,
                 static_cast<std::size_t>(pair.slice_bytes));
  return kOk;
}

Verdict collapse_outer(const DLTensor* per_expert, std::int32_t buffer, const DLTensor* shared) {
  OuterPair pair;
  if (!read_outer_pair(shared, per_expert, buffer, pair)) return verdict_of(SINKTRAP_ARGUMENT);
  const auto slice_bytes = static_cast<std::size_t>(pair.slice_bytes);
  const auto first_copy = [&](std::int64_t slot) {
    return pair.per_expert + slot * pair.experts * pair.slice_bytes;
  };
  for (std::int64_t s = 0; s < pair.slots; ++s)
    for (std::int64_t e = 1; e < pair.experts; ++e)
      if (std::memcmp(first_copy(s), first_copy(s) + e * pair.slice_bytes, slice_bytes) != 0)
        return verdict_of(SINKTRAP_NOT_COLLAPSIBLE, buffer, 1, e, 0);
  for (std::int64_t s = 0; s < pair.slots; ++s)
    std::memmove(pair.shared + s * pair.slice_bytes, first_copy(s), slice_bytes);
  return kOk;
}

}  // namespace sinktrap::reference
