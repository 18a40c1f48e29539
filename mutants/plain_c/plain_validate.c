/* CONTRACT.md section 2: the five checks of the public implementation, then those of the strict profile. */
#include "plain.h"

enum { A = SINKTRAP_BUFFER_GATE_UP_LORA_A, GUB, DLA, B }; /* the four buffers, in the order of the table */

int64_t plain_type_number(DLDataType dtype) {
  return (int64_t)dtype.code * (1 << 24) + (int64_t)dtype.bits * (1 << 16) + dtype.lanes;
}

int64_t plain_device_number(DLDevice device) {
  /* Unsigned, because a device type that nobody defined may be anything. */
  return (int64_t)(((uint64_t)device.device_type << 32) + (uint64_t)(int64_t)device.device_id);
}

int plain_same_type(DLDataType a, DLDataType b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

/* Twice the value, or the nearest int64; *exact says which. */
static int64_t twice(int64_t value, int* exact) {
  *exact = value <= INT64_MAX / 2 && value >= INT64_MIN / 2;
  return *exact ? 2 * value : value > 0 ? INT64_MAX : INT64_MIN;
}

static int64_t element_size(DLDataType dtype) { return ((int64_t)dtype.bits * dtype.lanes + 7) / 8; }

static int32_t judge_layer(const sinktrap_layout* l, sinktrap_verdict* v) {
  const int64_t n = l->n_shared_experts, H = l->hidden_size, F = l->intermediate_size;
  const int none = SINKTRAP_NONE;
  if (n < 1) return plain_verdict(v, SINKTRAP_LAYER, none, none, n, 1);
  if (H < 1 && H != SINKTRAP_ANY) return plain_verdict(v, SINKTRAP_LAYER, none, none, H, 1);
  if (F < 1 && F != SINKTRAP_ANY) return plain_verdict(v, SINKTRAP_LAYER, none, none, F, 1);
  return SINKTRAP_OK;
}

/* The fifth check. */
static int32_t judge_rank(const DLTensor* t, sinktrap_verdict* v) {
  const int64_t R = t[GUB].shape[3], rows = t[A].shape[2];
  int64_t two_R;
  int exact;
  two_R = twice(R, &exact);
  if (PLAIN_HAS(two_r_wraps) && !exact) {
    two_R = (int64_t)(2 * (uint64_t)R);
    exact = 1;
  }
  if (PLAIN_HAS(rank_of_a_at_least) && exact && rows > two_R) two_R = rows;
  if (!exact || rows != two_R) {
    if (PLAIN_HAS(found_and_expected_swapped))
      return plain_verdict(v, SINKTRAP_RANK_MISMATCH, A, 2, two_R, rows);
    return plain_verdict(v, SINKTRAP_RANK_MISMATCH, A, 2, rows, two_R);
  }
  if (t[DLA].shape[2] != R && !PLAIN_HAS(rank_of_down_a_unchecked))
    return plain_verdict(v, SINKTRAP_RANK_MISMATCH, DLA, 2, t[DLA].shape[2], R);
  if (t[B].shape[3] != R && !PLAIN_HAS(rank_of_down_b_unchecked))
    return plain_verdict(v, SINKTRAP_RANK_MISMATCH, B, 3, t[B].shape[3], R);
  return SINKTRAP_OK;
}

/* The first four checks, and the fifth. */
static int32_t judge_public(const sinktrap_layout* l, sinktrap_verdict* v) {
  const DLTensor* t = l->buffers;
  const int64_t n = l->n_shared_experts;
  int i;
  for (i = 0; i < SINKTRAP_BUFFER_COUNT; ++i) {
    /* Four axes without extents are none that could be looked at. */
    const int32_t axes = t[i].ndim == 4 && t[i].shape == NULL ? 0 : t[i].ndim;
    if (axes != 4 && !(axes > 4 && PLAIN_HAS(five_axes_accepted)))
      return plain_verdict(v, SINKTRAP_NOT_4D, i, SINKTRAP_NONE, axes, 4);
  }
  if (PLAIN_HAS(layout_before_outer) && t[A].shape[1] != t[B].shape[1])
    return plain_verdict(v, SINKTRAP_LAYOUT_MISMATCH, B, 1, t[B].shape[1], t[A].shape[1]);
  for (i = A; i <= (PLAIN_HAS(outer_dim_of_a_only) ? A : B) && !PLAIN_HAS(outer_dim_unchecked); i += B - A)
    if (t[i].shape[1] != 1 && t[i].shape[1] != n)
      return plain_verdict(v, SINKTRAP_OUTER_DIM, i, 1, t[i].shape[1], n);
  if (!PLAIN_HAS(accept_mixed_layout) && t[A].shape[1] != t[B].shape[1])
    return plain_verdict(v, SINKTRAP_LAYOUT_MISMATCH, B, 1, t[B].shape[1], t[A].shape[1]);
  if (PLAIN_HAS(rank_before_experts) && judge_rank(t, v) != SINKTRAP_OK) return v->code;
  for (i = GUB; i <= (PLAIN_HAS(expert_count_of_b_only) ? GUB : DLA) && !PLAIN_HAS(expert_count_unchecked);
       ++i)
    if (t[i].shape[1] != n) return plain_verdict(v, SINKTRAP_EXPERT_COUNT, i, 1, t[i].shape[1], n);
  return judge_rank(t, v);
}

/* What the strict profile adds about extents. */
static int32_t judge_extents(const sinktrap_layout* l, sinktrap_verdict* v) {
  const DLTensor* t = l->buffers;
  const int64_t H = l->hidden_size, F = l->intermediate_size;
  int64_t two_F;
  int i, axis, exact;
  for (i = 0; i < SINKTRAP_BUFFER_COUNT; ++i)
    for (axis = 0; axis < 4; ++axis)
      if (t[i].shape[axis] < (PLAIN_HAS(zero_extent_accepted) ? 0 : 1))
        return plain_verdict(v, SINKTRAP_EXTENT, i, axis, t[i].shape[axis], 1);
  for (i = GUB; i <= (PLAIN_HAS(slot_count_of_b_unchecked) ? DLA : B); ++i)
    if (t[i].shape[0] != t[A].shape[0])
      return plain_verdict(v, SINKTRAP_SLOT_COUNT, i, 0, t[i].shape[0], t[A].shape[0]);
  if (t[A].shape[3] != t[B].shape[2])
    return plain_verdict(v, SINKTRAP_HIDDEN_SIZE, B, PLAIN_HAS(axis_counted_from_one) ? 3 : 2, t[B].shape[2],
                         t[A].shape[3]);
  if (H != SINKTRAP_ANY && !PLAIN_HAS(layers_hidden_ignored) && t[A].shape[3] != H)
    return plain_verdict(v, SINKTRAP_HIDDEN_SIZE, A, 3, t[A].shape[3], H);
  two_F = twice(t[DLA].shape[3], &exact); /* an odd extent is never twice anything */
  if (!exact || (t[GUB].shape[2] != two_F && !(PLAIN_HAS(odd_rows_accepted) && t[GUB].shape[2] == two_F + 1)))
    return plain_verdict(v, SINKTRAP_INTERMEDIATE_SIZE, GUB, 2, t[GUB].shape[2], two_F);
  two_F = twice(F, &exact);
  if (F != SINKTRAP_ANY && !PLAIN_HAS(layers_intermediate_ignored) && (!exact || t[GUB].shape[2] != two_F))
    return plain_verdict(v, SINKTRAP_INTERMEDIATE_SIZE, GUB, 2, t[GUB].shape[2], two_F);
  for (i = 0; i < SINKTRAP_BUFFER_COUNT; ++i) {
    int64_t bytes = PLAIN_HAS(overflow_counts_elements) ? 1 : element_size(t[i].dtype);
    /* A type of no bits has no bytes to overflow; the check of types refuses it. */
    for (axis = 0; axis < 4 && bytes > 0; ++axis) {
      if (t[i].shape[axis] > INT64_MAX / bytes)
        return plain_verdict(v, SINKTRAP_SIZE_OVERFLOW, i, axis, t[i].shape[axis], INT64_MAX / bytes);
      bytes *= t[i].shape[axis];
    }
  }
  return SINKTRAP_OK;
}

static DLDataType without_lanes(DLDataType dtype) {
  if (PLAIN_HAS(lanes_ignored)) dtype.lanes = 1;
  return dtype;
}

/* What the strict profile adds about types, devices and strides. */
static int32_t judge_descriptors(const sinktrap_layout* l, sinktrap_verdict* v) {
  const DLTensor* t = l->buffers;
  int i, axis;
  for (i = 0; i < SINKTRAP_BUFFER_COUNT; ++i)
    if (plain_type_of(without_lanes(t[i].dtype)) == PLAIN_NO_TYPE)
      return plain_verdict(v, SINKTRAP_DTYPE, i, SINKTRAP_NONE, plain_type_number(t[i].dtype), 0);
  for (i = GUB; i <= B && !PLAIN_HAS(mixed_types_accepted); ++i)
    if (!plain_same_type(t[i].dtype, t[A].dtype))
      return plain_verdict(v, SINKTRAP_DTYPE, i, SINKTRAP_NONE, plain_type_number(t[i].dtype),
                           plain_type_number(t[A].dtype));
  for (i = GUB; i <= B; ++i)
    if (PLAIN_HAS(device_id_ignored) ? t[i].device.device_type != t[A].device.device_type
                                     : plain_device_number(t[i].device) != plain_device_number(t[A].device))
      return plain_verdict(v, SINKTRAP_DEVICE, i, SINKTRAP_NONE, plain_device_number(t[i].device),
                           plain_device_number(t[A].device));
  for (i = 0; i < SINKTRAP_BUFFER_COUNT; ++i)
    for (axis = PLAIN_HAS(outermost_stride_unchecked) ? 1 : 0; axis < 4 && t[i].strides != NULL; ++axis)
      if ((t[i].shape[axis] != 1 || PLAIN_HAS(stride_of_extent_one_checked)) &&
          t[i].strides[axis] != plain_stride(&t[i], axis))
        return plain_verdict(v, SINKTRAP_STRIDE, i, axis, t[i].strides[axis], plain_stride(&t[i], axis));
  return SINKTRAP_OK;
}

static int32_t judge_overlap(const DLTensor* t, const uintptr_t* address, sinktrap_verdict* v) {
  int i, j;
  for (i = 1; i < SINKTRAP_BUFFER_COUNT; ++i)
    for (j = 0; j < (PLAIN_HAS(aliasing_with_a_only) ? 1 : i); ++j) {
      const uint64_t bytes[2] = {plain_tensor_bytes(&t[i]), plain_tensor_bytes(&t[j])};
      const int touch = address[i] + bytes[0] == address[j] || address[j] + bytes[1] == address[i];
      const int64_t shared = plain_shared_bytes(address[i], bytes[0], address[j], bytes[1]);
      if (shared > 0 || (touch && PLAIN_HAS(aliasing_of_neighbours)))
        return plain_verdict(v, SINKTRAP_ALIASING, i, SINKTRAP_NONE, shared, 0);
    }
  return SINKTRAP_OK;
}

/* What the strict profile adds about memory. Addresses are compared, never followed. */
static int32_t judge_memory(const sinktrap_layout* l, sinktrap_verdict* v) {
  const DLTensor* t = l->buffers;
  uintptr_t address[SINKTRAP_BUFFER_COUNT];
  int i;
  for (i = 0; i < SINKTRAP_BUFFER_COUNT; ++i) {
    address[i] = (uintptr_t)t[i].data;
    if (!PLAIN_HAS(offset_forgotten)) address[i] += (uintptr_t)t[i].byte_offset;
  }
  if (PLAIN_HAS(data_after_aliasing) && judge_overlap(t, address, v) != SINKTRAP_OK) return v->code;
  for (i = 0; i < SINKTRAP_BUFFER_COUNT; ++i) {
    const uintptr_t element = (uintptr_t)element_size(t[i].dtype);
    if (address[i] == 0) return plain_verdict(v, SINKTRAP_DATA, i, SINKTRAP_NONE, 0, (int64_t)element);
    if (address[i] % element != 0 && !PLAIN_HAS(misalignment_accepted))
      return plain_verdict(v, SINKTRAP_DATA, i, SINKTRAP_NONE, (int64_t)(address[i] % element), 0);
  }
  return judge_overlap(t, address, v);
}

int32_t plain_judge(const sinktrap_layout* layout, int32_t profile, sinktrap_verdict* v) {
  int32_t code = judge_layer(layout, v);
  if (code == SINKTRAP_OK) code = judge_public(layout, v);
  if (code == SINKTRAP_OK && (profile == SINKTRAP_PROFILE_STRICT || PLAIN_HAS(sglang_is_strict))) {
    code = judge_extents(layout, v);
    if (code == SINKTRAP_OK) code = judge_descriptors(layout, v);
    if (code == SINKTRAP_OK && !(layout->flags & SINKTRAP_SHAPES_ONLY)) code = judge_memory(layout, v);
  }
  return code == SINKTRAP_OK ? plain_answer(v, SINKTRAP_OK) : code;
}

int32_t plain_validate(const sinktrap_layout* layouts, int64_t count, int32_t profile,
                       sinktrap_verdict* verdicts) {
  int64_t i;
  if (count < 0 || (count > 0 && (layouts == NULL || verdicts == NULL))) return SINKTRAP_ARGUMENT;
  if (profile != SINKTRAP_PROFILE_SGLANG && profile != SINKTRAP_PROFILE_STRICT) return SINKTRAP_ARGUMENT;
  for (i = 0; i < count; ++i)
    plain_judge(&layouts[PLAIN_HAS(batch_judged_by_first) ? 0 : i], profile, &verdicts[i]);
  return SINKTRAP_OK;
}
