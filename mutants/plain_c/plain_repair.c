/* CONTRACT.md sections 2 (repair) and 4 (sharding): pools written from pools, without an instance. */
#include <string.h>

#include "plain.h"

enum { A = SINKTRAP_BUFFER_GATE_UP_LORA_A, GUB, DLA, B };

static int in_host_memory(const DLTensor buffers[SINKTRAP_BUFFER_COUNT]) {
  return buffers[A].device.device_type == kDLCPU;
}

/* A whole pool of n experts that a strict validation accepts; F may be given or SINKTRAP_ANY. */
static int is_pool(const DLTensor buffers[SINKTRAP_BUFFER_COUNT], int64_t n, int64_t F) {
  sinktrap_layout layout;
  sinktrap_verdict v;
  memset(&layout, 0, sizeof layout);
  layout.n_shared_experts = n;
  layout.hidden_size = SINKTRAP_ANY;
  layout.intermediate_size = F;
  memcpy(layout.buffers, buffers, sizeof layout.buffers);
  return plain_judge(&layout, SINKTRAP_PROFILE_STRICT, &v) == SINKTRAP_OK && in_host_memory(buffers);
}

static int overlap(const DLTensor* a, const DLTensor* b) {
  return plain_shared_bytes((uintptr_t)plain_data(a), plain_tensor_bytes(a), (uintptr_t)plain_data(b),
                            plain_tensor_bytes(b)) > 0;
}

/* True when `shard` is a pool like `full`, but with a tp_size-th of its features, in memory of its own. */
static int is_shard_of(const DLTensor full[SINKTRAP_BUFFER_COUNT], int64_t tp_size,
                       const DLTensor shard[SINKTRAP_BUFFER_COUNT]) {
  int i, j, axis;
  if (!is_pool(shard, full[GUB].shape[1], full[DLA].shape[3] / tp_size)) return 0;
  for (i = 0; i < SINKTRAP_BUFFER_COUNT; ++i) {
    if (!plain_same_type(shard[i].dtype, full[i].dtype)) return 0;
    for (axis = 0; axis < 4; ++axis) {
      const int is_features = (i == GUB && axis == 2) || (i == DLA && axis == 3);
      if (!is_features && shard[i].shape[axis] != full[i].shape[axis]) return 0;
    }
    for (j = 0; j < SINKTRAP_BUFFER_COUNT; ++j)
      if (overlap(&shard[i], &full[j])) return 0;
  }
  return 1;
}

int32_t plain_shard(const DLTensor full[SINKTRAP_BUFFER_COUNT], int64_t tp_rank, int64_t tp_size,
                    const DLTensor shard[SINKTRAP_BUFFER_COUNT], sinktrap_verdict* v) {
  int64_t n, F, F_shard, R, i, half, rows;
  size_t element;
  if (PLAIN_HAS(shard_of_none_indivisible) && full != NULL && tp_size < 1)
    return plain_verdict(v, SINKTRAP_INDIVISIBLE, GUB, 2, full[DLA].shape[3], tp_size);
  if (full == NULL || shard == NULL || tp_size < 1 || tp_rank < 0 ||
      tp_rank >= tp_size + (PLAIN_HAS(shard_rank_off_by_one) ? 1 : 0))
    return plain_answer(v, SINKTRAP_ARGUMENT);
  if (full[GUB].ndim != 4 || full[GUB].shape == NULL || !is_pool(full, full[GUB].shape[1], SINKTRAP_ANY))
    return plain_answer(v, SINKTRAP_ARGUMENT);
  n = full[GUB].shape[1];
  R = full[GUB].shape[3];
  F = full[DLA].shape[3];
  if (PLAIN_HAS(shard_rank_off_by_one) && tp_rank == tp_size) tp_rank = 0;
  if (F % tp_size != 0 && !PLAIN_HAS(shard_accepts_remainder))
    return plain_verdict(v, SINKTRAP_INDIVISIBLE, GUB, 2, F, tp_size);
  if (!is_shard_of(full, tp_size, shard)) return plain_answer(v, SINKTRAP_ARGUMENT);
  F_shard = F / tp_size;
  element = plain_bytes(plain_type_of(full[A].dtype));
  memcpy(plain_data(&shard[A]), plain_data(&full[A]), (size_t)plain_tensor_bytes(&full[A]));
  memcpy(plain_data(&shard[B]), plain_data(&full[B]), (size_t)plain_tensor_bytes(&full[B]));
  /* Gate rows and up rows separately: of each half of each expert of each slot a block of rows. */
  for (i = 0; i < full[GUB].shape[0] * n; ++i)
    for (half = 0; half < 2; ++half)
      memcpy(plain_data(&shard[GUB]) + (size_t)((2 * i + half) * F_shard * R) * element,
             plain_data(&full[GUB]) +
                 (size_t)((PLAIN_HAS(shard_collapses_halves) ? 2 * i * F + (2 * tp_rank + half) * F_shard
                                                             : (2 * i + half) * F + tp_rank * F_shard) *
                          R) *
                     element,
             (size_t)(F_shard * R) * element);
  rows = full[DLA].shape[0] * n * R;
  for (i = 0; i < rows; ++i)
    memcpy(plain_data(&shard[DLA]) + (size_t)(i * F_shard) * element,
           plain_data(&full[DLA]) +
               (size_t)(i * F + (PLAIN_HAS(shard_down_a_of_rank_zero) ? 0 : tp_rank) * F_shard) * element,
           (size_t)F_shard * element);
  return plain_answer(v, SINKTRAP_OK);
}

/* An outer factor [S, 1, ..] and its per-expert form [S, n, ..], both usable and apart. */
static int are_forms(const DLTensor* shared, int32_t buffer, const DLTensor* per_expert) {
  int axis;
  if ((buffer != A && buffer != B) || shared == NULL || per_expert == NULL) return 0;
  if (plain_type_of(shared->dtype) == PLAIN_NO_TYPE) return 0;
  if (!plain_is_some_array(shared, shared->dtype, 4) || !plain_is_some_array(per_expert, shared->dtype, 4))
    return 0;
  for (axis = 0; axis < 4; ++axis) {
    if (shared->shape[axis] < 1 || per_expert->shape[axis] < 1) return 0;
    if (axis != 1 && shared->shape[axis] != per_expert->shape[axis]) return 0;
  }
  return shared->shape[1] == 1 && !overlap(shared, per_expert);
}

int32_t plain_expand(const DLTensor* shared, int32_t buffer, const DLTensor* per_expert,
                     sinktrap_verdict* v) {
  size_t factor;
  int64_t s, e, n;
  if (!are_forms(shared, buffer, per_expert)) return plain_answer(v, SINKTRAP_ARGUMENT);
  n = per_expert->shape[1];
  factor = (size_t)(plain_tensor_bytes(shared) / (uint64_t)shared->shape[0]);
  for (s = 0; s < shared->shape[0]; ++s)
    for (e = 0; e < n; ++e)
      memcpy(plain_data(per_expert) + (size_t)(s * n + e) * factor,
             plain_data(shared) + (size_t)(PLAIN_HAS(expand_first_slot_only) ? 0 : s) * factor, factor);
  return plain_answer(v, SINKTRAP_OK);
}

int32_t plain_collapse(const DLTensor* per_expert, int32_t buffer, const DLTensor* shared,
                       sinktrap_verdict* v) {
  size_t factor;
  int64_t s, e, n;
  if (!are_forms(shared, buffer, per_expert)) return plain_answer(v, SINKTRAP_ARGUMENT);
  n = per_expert->shape[1];
  factor = (size_t)(plain_tensor_bytes(shared) / (uint64_t)shared->shape[0]);
  /* All slots are compared before one is written: a refusal changes nothing. */
  for (s = 0; s < shared->shape[0] - (PLAIN_HAS(collapse_skips_last_slot) ? 1 : 0); ++s)
    for (e = 1; e < n && !PLAIN_HAS(collapse_never_refuses); ++e) {
      const char* first = plain_data(per_expert) + (size_t)(s * n) * factor;
      const int64_t other = PLAIN_HAS(collapse_compares_neighbours) ? e - 1 : 0;
      if (memcmp(first + (size_t)other * factor, first + (size_t)e * factor, factor) != 0)
        return plain_verdict(v, SINKTRAP_NOT_COLLAPSIBLE, buffer, 1, e, 0);
    }
  for (s = 0; s < shared->shape[0]; ++s)
    memcpy(plain_data(shared) + (size_t)s * factor, plain_data(per_expert) + (size_t)(s * n) * factor,
           factor);
  return plain_answer(v, SINKTRAP_OK);
}
