/* CONTRACT.md section 3: binding a pool, and the operands derived from it.
 *
 * The derived buffers are allocated at the first bind and keep their addresses from then on: later binds have
 * the same shapes, and update writes in place. Everything that can fail comes before the first write. */
#include <stdlib.h>
#include <string.h>

#include "plain.h"

enum { A = SINKTRAP_BUFFER_GATE_UP_LORA_A, GUB, DLA, B };

int64_t plain_slot_elements(const sinktrap_instance* p, int buffer) {
  const int64_t* shape = p->pool_shape[buffer];
  return shape[1] * shape[2] * shape[3];
}

/* Writes only what changes: operands of empty slots stay memory that nobody has touched. */
static void put_row(char* to, const char* from, size_t bytes) {
  if (memcmp(to, from, bytes) != 0) memcpy(to, from, bytes);
}

/* w1_delta[s]: row e*2F + 2j is gate feature j in columns 0..R-1, row e*2F + 2j + 1 is up feature j in
 * columns R..2R-1, all else zero, as the first bind left it. Copies whole rows of gate_up_lora_b, so that
 * every bit arrives. */
static void derive_w1_delta(sinktrap_instance* p, int64_t s) {
  const size_t row_bytes = (size_t)p->R * p->element;
  char* to = p->w1_delta + (size_t)(s * p->n * 2 * p->F) * 2 * row_bytes;
  int64_t e, j;
  int half;
  for (e = 0; e < p->n; ++e) {
    const int64_t from_expert = PLAIN_HAS(expert_zero_for_all) ? 0
                                : PLAIN_HAS(experts_reversed)  ? p->n - 1 - e
                                                               : e;
    for (j = 0; j < p->F; ++j)
      for (half = 0; half < 2; ++half) {
        const int from_half = PLAIN_HAS(halves_swapped_in_b) ? 1 - half : half;
        const int64_t from_row = PLAIN_HAS(second_slice_offset) && half == 1
                                     ? s * p->n * 2 * p->F + p->n * p->F + e * p->F + j
                                     : ((s * p->n + from_expert) * 2 + from_half) * p->F + j;
        const int64_t to_row =
            PLAIN_HAS(delta_not_interleaved) ? (e * 2 + half) * p->F + j : (e * p->F + j) * 2 + half;
        put_row(to + (size_t)(2 * to_row + half) * row_bytes,
                p->pool[GUB] + plain_offset(p, GUB, from_row * p->R) * (int64_t)p->element, row_bytes);
      }
  }
}

/* a_cat[s, q, e*F + j] = down_lora_a[s, e, q, j]. */
static void derive_a_cat(sinktrap_instance* p, int64_t s) {
  const size_t row_bytes = (size_t)p->F * p->element;
  int64_t e, q;
  for (q = 0; q < p->R; ++q)
    for (e = 0; e < p->n; ++e)
      put_row(p->cat + (size_t)((s * p->R + q) * p->n + e) * row_bytes,
              p->pool[DLA] +
                  (size_t)((s * p->n + (PLAIN_HAS(down_a_expert_zero) ? 0 : e)) * p->R + q) * row_bytes,
              row_bytes);
}

/* b_cat[s, h, e*R + q] = down_lora_b[s, e, h, q]. */
static void derive_b_cat(sinktrap_instance* p, int64_t s) {
  const size_t row_bytes = (size_t)p->R * p->element;
  int64_t e, h;
  for (h = 0; h < p->H; ++h)
    for (e = 0; e < p->n; ++e)
      put_row(
          p->cat + (size_t)((s * p->H + h) * p->n + e) * row_bytes,
          p->pool[B] + (size_t)((s * p->n + (PLAIN_HAS(down_b_expert_zero) ? 0 : e)) * p->H + h) * row_bytes,
          row_bytes);
}

static void derive(sinktrap_instance* p, int64_t s, int updating) {
  if (!updating || !PLAIN_HAS(update_skips_w1_delta)) derive_w1_delta(p, s);
  if (updating && PLAIN_HAS(update_skips_cat)) return;
  if (p->outer == 1)
    derive_a_cat(p, s);
  else
    derive_b_cat(p, s);
}

static void set_shape(int64_t shape[3], int64_t first, int64_t second, int64_t third) {
  shape[0] = first;
  shape[1] = second;
  shape[2] = third;
}

/* Takes over the sizes of the first pool and allocates what is derived from it. */
static int first_bind(sinktrap_instance* p, const DLTensor* buffers) {
  const int64_t n = p->n, F = p->F, S = buffers[A].shape[0], R = buffers[GUB].shape[3];
  /* With a layout that validation lets through, both extents are the same. */
  const int64_t outer = buffers[A].shape[1] < buffers[B].shape[1] ? buffers[A].shape[1] : buffers[B].shape[1];
  /* w1_delta has twice, a_cat and b_cat just the bytes of a buffer whose bytes fit int64: neither wraps 64
   * bits. */
  const uint64_t w1_bytes = 2 * plain_tensor_bytes(&buffers[GUB]);
  const uint64_t cat_bytes = plain_tensor_bytes(&buffers[outer == 1 ? DLA : B]);
  char* w1_delta = w1_bytes <= SIZE_MAX ? calloc(1, (size_t)w1_bytes) : NULL;
  char* cat = cat_bytes <= SIZE_MAX ? calloc(1, (size_t)cat_bytes) : NULL;
  int i;
  if (w1_delta == NULL || cat == NULL) {
    free(w1_delta);
    free(cat);
    return 0;
  }
  p->S = S;
  p->R = R;
  p->outer = outer;
  p->w1_delta = w1_delta;
  p->cat = cat;
  set_shape(p->w1_delta_shape, S, n * 2 * F, 2 * R);
  if (outer == 1)
    set_shape(p->cat_shape, S, R, n * F);
  else
    set_shape(p->cat_shape, S, p->H, n * R);
  for (i = 0; i < SINKTRAP_BUFFER_COUNT; ++i)
    memcpy(p->pool_shape[i], buffers[i].shape, sizeof p->pool_shape[i]);
  p->bound = 1;
  return 1;
}

int32_t plain_bind(sinktrap_instance* p, const DLTensor buffers[SINKTRAP_BUFFER_COUNT], sinktrap_verdict* v) {
  sinktrap_layout layout;
  int64_t s;
  int i, axis;
  int first = 0;
  if (p == NULL || buffers == NULL) return plain_answer(v, SINKTRAP_ARGUMENT);
  memset(&layout, 0, sizeof layout);
  layout.n_shared_experts = p->n;
  layout.hidden_size = p->H;
  layout.intermediate_size = p->F;
  memcpy(layout.buffers, buffers, sizeof layout.buffers);
  for (i = 0; i < SINKTRAP_BUFFER_COUNT && PLAIN_HAS(strides_of_pool_ignored); ++i)
    layout.buffers[i].strides = NULL;
  if (PLAIN_HAS(strided_rebind_half_installed) && p->bound && buffers[A].strides != NULL)
    p->pool[A] = plain_data(&buffers[A]);
  if (plain_judge(&layout, SINKTRAP_PROFILE_STRICT, v) != SINKTRAP_OK) return v->code;
  if (!plain_same_type(buffers[A].dtype, p->dtype))
    return plain_verdict(v, SINKTRAP_DTYPE, A, SINKTRAP_NONE, plain_type_number(buffers[A].dtype),
                         plain_type_number(p->dtype));
  if (buffers[A].device.device_type != kDLCPU && !PLAIN_HAS(pool_elsewhere_bound)) {
    const DLDevice host = {kDLCPU, 0};
    return plain_verdict(v, SINKTRAP_DEVICE, A, SINKTRAP_NONE, plain_device_number(buffers[A].device),
                         plain_device_number(host));
  }
  if (PLAIN_HAS(failed_rebind_half_installed) && p->bound) p->pool[A] = plain_data(&buffers[A]);
  for (i = 0; i < SINKTRAP_BUFFER_COUNT && p->bound && !PLAIN_HAS(rebind_of_any_shape); ++i)
    for (axis = 0; axis < 4; ++axis)
      if (buffers[i].shape[axis] != p->pool_shape[i][axis])
        return plain_verdict(v, SINKTRAP_POOL_SHAPE_CHANGED, i, axis, buffers[i].shape[axis],
                             p->pool_shape[i][axis]);
  if (PLAIN_HAS(rebind_at_same_address_ignored) && p->bound) {
    for (i = 0; i < SINKTRAP_BUFFER_COUNT && p->pool[i] == plain_data(&buffers[i]);) ++i;
    if (i == SINKTRAP_BUFFER_COUNT) return plain_answer(v, SINKTRAP_OK);
  }
  if (!p->bound) {
    if (!first_bind(p, buffers))
      return plain_fail(v, SINKTRAP_INTERNAL, "no memory for the derived operands");
    first = 1;
  }
  for (i = 0; i < SINKTRAP_BUFFER_COUNT; ++i) p->pool[i] = plain_data(&buffers[i]);
  for (s = 0; s < (PLAIN_HAS(bind_derives_first_slot) ? 1 : p->S); ++s)
    if (first || !PLAIN_HAS(rebind_keeps_operands)) derive(p, s, 0);
  if (PLAIN_HAS(bind_modifies_pool)) p->pool[B][0] ^= 1;
  p->loaded_slot = -1;
  plain_remember_operand(p->w1_delta);
  return plain_answer(v, SINKTRAP_OK);
}

/* For a fault: another place for w1_delta. The old one is kept, so that it cannot be given out again. */
static void move_operand(sinktrap_instance* p) {
  const size_t bytes = (size_t)(p->S * p->n * 2 * p->F) * 2 * (size_t)p->R * p->element;
  char* moved = malloc(bytes);
  if (moved == NULL) return;
  memcpy(moved, p->w1_delta, bytes);
  p->w1_delta = moved;
}

int32_t plain_update(sinktrap_instance* p, const sinktrap_slot_set* slots, sinktrap_verdict* v) {
  int64_t i;
  if (p == NULL) return plain_answer(v, SINKTRAP_ARGUMENT);
  if (!p->bound) return plain_answer(v, SINKTRAP_UNBOUND);
  if (PLAIN_HAS(negative_count_is_all) && slots != NULL && slots->count < 0) slots = NULL;
  if (slots != NULL) {
    if (slots->count < 0 || (slots->count > 0 && slots->ids == NULL))
      return plain_answer(v, SINKTRAP_ARGUMENT);
    for (i = 0; i < slots->count; ++i) {
      if (slots->ids[i] < 0 || slots->ids[i] >= p->S)
        return plain_verdict(v, SINKTRAP_SLOT_RANGE, SINKTRAP_NONE, SINKTRAP_NONE, slots->ids[i], p->S);
      if (PLAIN_HAS(update_stops_at_bad_id)) derive(p, slots->ids[i], 1);
    }
  }
  if (PLAIN_HAS(stale_slot) || (PLAIN_HAS(absent_set_is_none) && slots == NULL))
    return plain_answer(v, SINKTRAP_OK);
  if (PLAIN_HAS(update_touches_slot_zero)) derive(p, 0, 1);
  if (PLAIN_HAS(update_moves_operands)) move_operand(p);
  if (PLAIN_HAS(empty_set_is_all) && slots != NULL && slots->count == 0) slots = NULL;
  /* A repeated id derives the same bits again. */
  if (slots != NULL)
    for (i = 0; i < (PLAIN_HAS(update_first_id_only) && slots->count > 1 ? 1 : slots->count); ++i) {
      derive(p, slots->ids[i], 1);
      if (PLAIN_HAS(update_repeats_every_slot_id)) derive(p, slots->ids[i], 1);
    }
  else
    for (i = 0; i < p->S; ++i) derive(p, i, 1);
  return plain_answer(v, SINKTRAP_OK);
}

int32_t plain_derived(sinktrap_instance* p, const char* name, DLTensor* view, sinktrap_verdict* v) {
  const int is_w1_delta = name != NULL && strcmp(name, "w1_delta") == 0;
  if (p == NULL || name == NULL || view == NULL) return plain_answer(v, SINKTRAP_ARGUMENT);
  if (!p->bound) return plain_answer(v, SINKTRAP_UNBOUND);
  if (!is_w1_delta && strcmp(name, p->outer == 1 ? "a_cat" : "b_cat") != 0)
    return plain_fail(v, SINKTRAP_UNSUPPORTED, "no such operand for this layout");
  memset(view, 0, sizeof *view);
  view->data = is_w1_delta ? p->w1_delta : p->cat;
  view->device.device_type = kDLCPU;
  view->ndim = 3;
  view->dtype = p->dtype;
  view->shape = is_w1_delta ? p->w1_delta_shape : p->cat_shape;
  return plain_answer(v, SINKTRAP_OK);
}
