/* CONTRACT.md section 4: an adapter from its flat factors into a slot of the bound pool. */
#include <string.h>

#include "plain.h"

enum { A = SINKTRAP_BUFFER_GATE_UP_LORA_A, GUB, DLA, B };

static const int factor_buffer[5] = {A, A, GUB, DLA, B};

/* Products of extents >= 1, or the nearest int64: no tensor in memory has such an extent. */
static int64_t times(int64_t a, int64_t b) { return a > INT64_MAX / b ? INT64_MAX : a * b; }

/* An extent that a divisor of section 4 has to divide. */
static int is_divisible(sinktrap_verdict* v, int buffer, int axis, int64_t found, int64_t divisor) {
  if (found % divisor == 0) return 1;
  plain_verdict(v, SINKTRAP_INDIVISIBLE, buffer, axis, found, divisor);
  return 0;
}

/* The factors of an adapter of rank r >= 1, in the order of precedence of section 4. */
static int32_t check_factors(const sinktrap_instance* p, const sinktrap_adapter* a, sinktrap_verdict* v) {
  const DLTensor* factors[5];
  const int64_t n = p->n, r = a->rank, outer = a->per_expert ? n : 1, F_all = times(p->F, a->tp_size);
  int64_t expected[5][2];
  int i, axis;
  factors[0] = a->gate_a;
  factors[1] = a->up_a != NULL ? a->up_a : a->gate_a;
  factors[2] = a->gate_up_b;
  factors[3] = a->down_a;
  factors[4] = a->down_b;
  for (i = 0; i < 5; ++i)
    if (!plain_is_some_array(factors[i], p->dtype, 2))
      return plain_verdict(v, SINKTRAP_ARGUMENT, factor_buffer[i], SINKTRAP_NONE, 0, 0);
  if (PLAIN_HAS(indivisible_before_layout) && a->gate_up_b->shape[0] % (2 * n) != 0)
    return plain_verdict(v, SINKTRAP_INDIVISIBLE, GUB, 0, a->gate_up_b->shape[0], 2 * n);
  if (r > p->R || (PLAIN_HAS(rank_limit_off_by_one) && r == p->R))
    return plain_verdict(v, SINKTRAP_RANK_EXCEEDED, SINKTRAP_NONE, SINKTRAP_NONE, r, p->R);
  if (a->per_expert && p->outer == 1 && n > 1 && !PLAIN_HAS(per_expert_taken_for_shared))
    return plain_answer(v, SINKTRAP_LAYOUT_MISMATCH);
  if (!is_divisible(v, GUB, 0, a->gate_up_b->shape[0], 2 * n) ||
      !is_divisible(v, DLA, 1, a->down_a->shape[1], n) ||
      !is_divisible(v, GUB, 0, a->gate_up_b->shape[0] / (2 * n), a->tp_size))
    return v->code;
  expected[0][0] = expected[1][0] = outer * r; /* r <= R now, and a buffer has n*R rows in memory */
  expected[0][1] = expected[1][1] = p->H;
  expected[2][0] = times(2 * n, F_all);
  expected[3][1] = times(n, F_all);
  expected[4][0] = outer * p->H;
  expected[2][1] = expected[3][0] = expected[4][1] = r;
  for (i = 0; i < 5; ++i)
    for (axis = 0; axis < 2; ++axis)
      if (factors[i]->shape[axis] != expected[i][axis])
        return plain_verdict(v, SINKTRAP_ARGUMENT, factor_buffer[i], axis, factors[i]->shape[axis],
                             expected[i][axis]);
  return plain_answer(v, SINKTRAP_OK);
}

static int32_t check_adapter(const sinktrap_instance* p, const sinktrap_adapter* a, sinktrap_verdict* v) {
  if (a == NULL || a->struct_size < sizeof *a || a->tp_size < 1 || a->tp_rank < 0 ||
      a->tp_rank >= a->tp_size || a->rank < 0)
    return plain_answer(v, SINKTRAP_ARGUMENT);
  /* An adapter of rank 0 has no factors. */
  return a->rank == 0 ? plain_answer(v, SINKTRAP_OK) : check_factors(p, a, v);
}

/* Where row `row` of expert (or outer) `e` of a slot starts in a pool buffer. */
static char* pool_row(const sinktrap_instance* p, int buffer, int64_t slot, int64_t e, int64_t row) {
  const int64_t* shape = p->pool_shape[buffer];
  return p->pool[buffer] + (size_t)(((slot * shape[1] + e) * shape[2] + row) * shape[3]) * p->element;
}

/* A row of a B factor: the storage rounding of scaling * B, the product in f32. */
static void scale_row(const sinktrap_instance* p, char* to, const DLTensor* factor, int buffer, int64_t row,
                      float scaling) {
  const int64_t rows = factor->shape[0], r = factor->shape[1];
  const int swapped =
      PLAIN_HAS(gate_up_b_axis_order) ? buffer == GUB : PLAIN_HAS(down_b_axis_order) && buffer == B;
  int64_t q;
  for (q = 0; q < r; ++q) {
    const int64_t at = swapped ? q * rows + row : row * r + q;
    plain_write(p->type, to, q, scaling * plain_read(p->type, plain_data(factor), at));
  }
}

/* The scaling of a B factor. */
static float scaling_of(const sinktrap_instance* p, const sinktrap_adapter* a, int buffer) {
  const float scaling = a->scaling;
  if (PLAIN_HAS(scaling_dropped) || (buffer == B && PLAIN_HAS(scaling_not_on_down))) return 1.0f;
  if (PLAIN_HAS(scaling_twice)) return scaling * scaling;
  if (PLAIN_HAS(scaling_by_rank)) return scaling / (float)a->rank;
  if (PLAIN_HAS(scaling_rounded_first)) return plain_round(p->type, scaling);
  if (buffer == B && PLAIN_HAS(down_delta_per_rank)) return scaling * (float)a->tp_size;
  return scaling;
}

static void write_outer(const sinktrap_instance* p, int64_t slot, const sinktrap_adapter* a) {
  const size_t a_row_bytes = (size_t)p->H * p->element;
  const DLTensor* half[2];
  int64_t o, row, column;
  int i;
  half[0] = a->gate_a;
  half[1] = a->up_a != NULL ? a->up_a : a->gate_a;
  for (o = 0; o < (PLAIN_HAS(repeats_first_expert_only) && !a->per_expert ? 1 : p->outer); ++o) {
    /* Shared factors go into a per-expert pool once for every expert. */
    const int64_t from = a->per_expert ? o : 0;
    for (i = 0; i < 2; ++i) {
      const int64_t first = i == 0 ? 0 : PLAIN_HAS(up_half_at_r) ? a->rank : p->R;
      if (PLAIN_HAS(stacked_up_left_zero) && i == 1 && a->up_a == NULL) continue;
      for (row = 0; row < a->rank; ++row)
        memcpy(pool_row(p, A, slot, o, first + row),
               plain_data(half[i]) + (size_t)(from * a->rank + row) * a_row_bytes, a_row_bytes);
      for (row = 0; row < a->rank && PLAIN_HAS(scaling_on_a_too); ++row)
        for (column = 0; column < p->H; ++column) {
          char* to = pool_row(p, A, slot, o, first + row);
          plain_write(p->type, to, column, a->scaling * plain_read(p->type, to, column));
        }
    }
    for (row = 0; row < p->H; ++row)
      scale_row(p, pool_row(p, B, slot, o, row), a->down_b, B, from * p->H + row, scaling_of(p, a, B));
  }
}

static void write_inner(const sinktrap_instance* p, int64_t slot, const sinktrap_adapter* a) {
  const int64_t F_all = p->F * a->tp_size;
  const int64_t first = PLAIN_HAS(load_ignores_tp_rank) ? 0 : p->F * a->tp_rank;
  int64_t e, j, q;
  int half;
  for (e = 0; e < p->n; ++e) {
    /* Gate rows and up rows are cut separately and paired again: a shard of the whole range would take gate
     * only. */
    for (half = 0; half < 2; ++half)
      for (j = 0; j < p->F; ++j) {
        const int64_t row = PLAIN_HAS(load_collapses_halves) ? e * 2 * F_all + 2 * first + half * p->F + j
                                                             : (e * 2 + half) * F_all + first + j;
        scale_row(p, pool_row(p, GUB, slot, e, half * p->F + j), a->gate_up_b, GUB, row,
                  scaling_of(p, a, GUB));
      }
    /* Arrives rank-major, leaves expert-major. */
    for (q = 0; q < a->rank; ++q)
      memcpy(
          pool_row(p, DLA, slot, e, q),
          plain_data(a->down_a) +
              (size_t)((PLAIN_HAS(down_a_not_transposed) ? e * a->rank + q : q * p->n + e) * F_all + first) *
                  p->element,
          (size_t)p->F * p->element);
  }
}

static void clear_slot(const sinktrap_instance* p, int64_t slot, int loading) {
  int i;
  for (i = 0; i < SINKTRAP_BUFFER_COUNT; ++i)
    if (!(loading && i == A && PLAIN_HAS(tail_of_a_not_zeroed)) &&
        !(loading && i == GUB && PLAIN_HAS(tail_of_b_not_zeroed)) &&
        !(!loading && (i == GUB || i == B) && PLAIN_HAS(unload_keeps_b)))
      memset(pool_row(p, i, slot, 0, 0), 0, (size_t)plain_slot_elements(p, i) * p->element);
}

static int32_t check_slot(const sinktrap_instance* p, int64_t slot, sinktrap_verdict* v) {
  if (p == NULL) {
    plain_answer(v, SINKTRAP_ARGUMENT);
    return SINKTRAP_ARGUMENT;
  }
  if (!p->bound) return plain_answer(v, SINKTRAP_UNBOUND);
  if (slot < 0 || slot >= p->S)
    return plain_verdict(v, SINKTRAP_SLOT_RANGE, SINKTRAP_NONE, SINKTRAP_NONE, slot, p->S);
  return plain_answer(v, SINKTRAP_OK);
}

int32_t plain_load(sinktrap_instance* p, int64_t slot, const sinktrap_adapter* adapter, sinktrap_verdict* v) {
  if (PLAIN_HAS(load_slot_range_unchecked) && p != NULL && p->bound && slot == p->S)
    return plain_answer(v, SINKTRAP_OK);
  if (check_slot(p, slot, v) != SINKTRAP_OK || check_adapter(p, adapter, v) != SINKTRAP_OK) return v->code;
  /* Clearing the whole slot first is what makes every rank tail zero. */
  if (PLAIN_HAS(reload_of_same_rank_ignored) && p->loaded_slot == slot && p->loaded_rank == adapter->rank)
    return plain_answer(v, SINKTRAP_OK);
  p->loaded_slot = slot;
  p->loaded_rank = adapter->rank;
  if (PLAIN_HAS(rank_zero_keeps_slot) && adapter->rank == 0) return plain_answer(v, SINKTRAP_OK);
  if (!PLAIN_HAS(tail_not_zeroed) || adapter->rank == 0) clear_slot(p, slot, 1);
  if (adapter->rank > 0) {
    write_outer(p, slot, adapter);
    write_inner(p, slot, adapter);
    if (PLAIN_HAS(load_modifies_factors)) {
      char* first = plain_data(adapter->down_b);
      plain_write(p->type, first, 0, 2.0f * plain_read(p->type, first, 0) + 1.0f);
    }
  }
  return plain_answer(v, SINKTRAP_OK);
}

int32_t plain_unload(sinktrap_instance* p, int64_t slot, sinktrap_verdict* v) {
  if (check_slot(p, slot, v) != SINKTRAP_OK) return v->code;
  if (PLAIN_HAS(unload_does_nothing)) return plain_answer(v, SINKTRAP_OK);
  clear_slot(p, PLAIN_HAS(unload_zeroes_next_slot) && slot + 1 < p->S ? slot + 1 : slot, 0);
  return plain_answer(v, SINKTRAP_OK);
}
