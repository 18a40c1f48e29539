/* CONTRACT.md section 5: the forward pass, one token after the other, in f32 without a seam rounded. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plain.h"

enum { A = SINKTRAP_BUFFER_GATE_UP_LORA_A, GUB, DLA, B };

static const DLDataType float32 = {kDLFloat, 32, 1};

/* f32 intermediates of one token; one allocation behind them. */
typedef struct scratch {
  float* x;        /* [H] */
  float* gammas;   /* [n] */
  float* bridge;   /* [outer, 2, R]: g_br, u_br */
  float* act;      /* [n, F] */
  float* lora_act; /* act; with a fault, what down_lora_a gets in its place */
  float* d_bridge; /* [outer, R] */
  float* out;      /* [H] */
} scratch;

float plain_silu(float z) { return z / (1.0f + expf(-z)); }

/* Both bridges of every outer factor. */
static void shrink(const sinktrap_instance* p, int64_t slot, scratch* w) {
  int64_t row;
  for (row = 0; row < p->outer * 2 * p->R; ++row)
    w->bridge[row] = plain_sum(
        p, PLAIN_BRIDGE, p->pool[A],
        plain_offset(p, A, (slot * p->outer * 2 * p->R + plain_bridge_row(p, slot, row)) * p->H), w->x, p->H);
}

/* Of the layer that was bound last, for a fault. */
static const char* last_w1_delta;
void plain_remember_operand(const char* w1_delta) { last_w1_delta = w1_delta; }

/* w1_delta of one feature times its half of the bridge. The other half of the row is zero and stays out of
 * the sum: zero times a bridge that is NaN would be NaN. */
static float delta(const sinktrap_instance* p, int64_t slot, int64_t e, int64_t j, int half,
                   const scratch* w) {
  const int64_t row = ((slot * p->n + e) * p->F + j) * 2 + half;
  const int bridge_half = PLAIN_HAS(up_reads_gate_bridge) ? 0 : half;
  const float* bridge = w->bridge + ((p->outer == 1 ? 0 : e) * 2 + bridge_half) * p->R;
  const int64_t first = plain_offset(p, PLAIN_W1_DELTA, (2 * row + half) * p->R);
  const char* operand = PLAIN_HAS(operands_shared_by_layers) ? last_w1_delta : p->w1_delta;
  return plain_sum(p, PLAIN_DELTA, operand, PLAIN_HAS(offsets_of_14_bits) ? first % 16384 : first, bridge,
                   p->R);
}

static void store_act(const sinktrap_instance* p, scratch* w, int64_t e, int64_t i, float gate, float up) {
  const float gamma = w->gammas[e];
  float product = plain_activation(gate) * up;
  if (PLAIN_HAS(silu_on_up)) product = gate * plain_silu(up);
  if (PLAIN_HAS(gamma_inside_silu)) product = plain_silu(gate * gamma) * up;
  w->lora_act[i] = product;
  if (!PLAIN_HAS(no_gamma) && !PLAIN_HAS(gamma_inside_silu)) product *= gamma;
  if (PLAIN_HAS(gamma_twice)) product *= gamma;
  if (PLAIN_HAS(act_rounded)) product = plain_round(p->type, product);
  w->act[i] = product;
  if (!PLAIN_HAS(down_lora_before_gamma)) w->lora_act[i] = product;
}

/* Row of w13[e] that holds gate (half 0) or up (half 1) feature j. */
static int64_t w13_row(const sinktrap_instance* p, int64_t j, int half) {
  int interleaved = p->w13_layout == SINKTRAP_W13_INTERLEAVED;
  if (PLAIN_HAS(w13_taken_for_interleaved)) interleaved = 1;
  if (PLAIN_HAS(w13_taken_for_contiguous)) interleaved = 0;
  if (PLAIN_HAS(halves_swapped_in_w13)) half = 1 - half;
  return interleaved ? 2 * j + half : half * p->F + j;
}

static void activate(const sinktrap_instance* p, int64_t slot, scratch* w) {
  int64_t e, j;
  int half;
  for (e = 0; e < p->n; ++e)
    for (j = 0; j < p->F; ++j) {
      float y[2]; /* gate, up */
      for (half = 0; half < 2; ++half) {
        y[half] = plain_sum(p, PLAIN_BASE, p->w13, (e * 2 * p->F + w13_row(p, j, half)) * p->H, w->x, p->H);
        if (slot >= 0) y[half] += delta(p, slot, e, j, half, w);
      }
      store_act(p, w, e, e * p->F + j, y[0], y[1]);
    }
}

/* One bridge over all experts with a_cat, or one for each expert. */
static void down_shrink(const sinktrap_instance* p, int64_t slot, scratch* w) {
  int64_t e, q;
  for (q = 0; q < p->R; ++q) {
    if (p->outer == 1) {
      w->d_bridge[q] =
          plain_sum(p, PLAIN_DOWN_BRIDGE, p->cat, (slot * p->R + q) * p->n * p->F, w->lora_act, p->n * p->F);
      continue;
    }
    for (e = 0; e < p->n; ++e) {
      const int64_t from = slot * p->n + (PLAIN_HAS(down_a_expert_zero) ? 0 : e);
      w->d_bridge[e * p->R + q] =
          plain_sum(p, PLAIN_DOWN_BRIDGE, p->pool[DLA], plain_offset(p, DLA, (from * p->R + q) * p->F),
                    w->lora_act + e * p->F, p->F);
    }
  }
}

static void down(const sinktrap_instance* p, int64_t slot, scratch* w) {
  /* down_lora_b of a shared-outer pool and b_cat of a per-expert one: rows of outer*R columns. */
  const char* expand = p->outer == 1 ? p->pool[B] : p->cat;
  const int64_t columns = p->outer * p->R;
  const int64_t experts = PLAIN_HAS(two_experts_hard_coded) && p->n > 2 ? 2 : p->n;
  int64_t e, h;
  for (h = 0; h < p->H; ++h) {
    float sum = 0.0f;
    for (e = 0; e < experts; ++e) {
      const int64_t from = PLAIN_HAS(w2_of_next_expert) ? (e + 1) % p->n : e;
      sum += plain_sum(p, PLAIN_DOWN, p->w2, (from * p->H + h) * p->F, w->act + e * p->F, p->F);
      if (PLAIN_HAS(experts_summed_in_storage)) sum = plain_round(p->type, sum);
    }
    if (slot >= 0)
      sum += plain_sum(p, PLAIN_DOWN_DELTA, expand, plain_offset(p, B, (slot * p->H + h) * columns),
                       w->d_bridge, columns);
    w->out[h] = sum;
  }
}

static void store(const sinktrap_instance* p, const sinktrap_forward_args* args, int64_t i, float value) {
  char* out = plain_data(args->out);
  if (PLAIN_HAS(accumulates_into_out)) value += plain_read(p->type, out, i);
  if (PLAIN_HAS(store_truncates) && p->type == PLAIN_BF16) {
    char bytes[4];
    plain_write(PLAIN_F32, bytes, 0, value);
    memcpy(out + 2 * i, bytes + 2, 2); /* the high half, on a little-endian machine */
    return;
  }
  plain_write(p->type, out, i, value);
}

static void one_token(const sinktrap_instance* p, const sinktrap_forward_args* args, int64_t t, int64_t slot,
                      scratch* w) {
  const int64_t written = PLAIN_HAS(output_tail_dropped) && p->H >= 16 ? p->H - p->H % 16 : p->H;
  int64_t i;
  for (i = 0; i < p->H; ++i) w->x[i] = plain_read(p->type, plain_data(args->x), t * p->H + i);
  for (i = 0; i < p->n; ++i) w->gammas[i] = plain_gamma(p, args, t, i);
  if (slot >= 0) shrink(p, slot, w);
  activate(p, slot, w);
  if (slot >= 0) down_shrink(p, slot, w);
  down(p, slot, w);
  for (i = 0; i < written; ++i) store(p, args, t * p->H + i, w->out[i] + plain_leak(p, args, t, slot));
}

/* An x that a fault lets pass. */
static int tolerated(const sinktrap_instance* p, const DLTensor* x) {
  DLTensor other;
  if (x == NULL || x->ndim != 2 || x->shape == NULL || x->shape[1] != p->H) return 0;
  other = *x;
  if (PLAIN_HAS(stride_of_x_ignored)) other.strides = NULL;
  if (PLAIN_HAS(type_of_x_unchecked)) other.dtype = p->dtype;
  return plain_is_some_array(&other, p->dtype, 2);
}

/* Shapes and types, then every id; the order of section 3. */
static int32_t check(const sinktrap_instance* p, const sinktrap_forward_args* args, sinktrap_verdict* v) {
  const DLDataType int32 = {kDLInt, 32, 1};
  const int32_t* ids;
  int64_t row[2], weights[2], t;
  int needs_pool = 0;
  if (p == NULL || args == NULL || (args->struct_size < sizeof *args && !PLAIN_HAS(short_struct_accepted)))
    return plain_answer(v, SINKTRAP_ARGUMENT);
  if (!plain_is_some_array(args->x, p->dtype, 2) && !tolerated(p, args->x))
    return plain_answer(v, SINKTRAP_ARGUMENT);
  if (PLAIN_HAS(written_strides_refused) && args->x->strides != NULL)
    return plain_answer(v, SINKTRAP_ARGUMENT);
  row[0] = weights[0] = args->x->shape[0];
  row[1] = p->H;
  weights[1] = p->n;
  if ((!plain_is_array(args->x, p->dtype, 2, row) && !tolerated(p, args->x)) ||
      !plain_is_array(args->out, p->dtype, 2, row) || !plain_is_array(args->token_slot, int32, 1, row) ||
      !(plain_is_array(args->gammas, p->dtype, 2, weights) ||
        plain_is_array(args->gammas, float32, 2, weights) ||
        (PLAIN_HAS(gammas_unchecked) && plain_is_some_array(args->gammas, p->dtype, 2))))
    return plain_answer(v, SINKTRAP_ARGUMENT);
  if (row[0] == 0 && PLAIN_HAS(no_tokens_refused)) return plain_answer(v, SINKTRAP_ARGUMENT);
  ids = (const int32_t*)(const void*)plain_data(args->token_slot);
  if (PLAIN_HAS(slot_range_after_first_write) && row[0] > 0) memset(plain_data(args->out), 0, p->element);
  for (t = 0; t < row[0]; ++t) {
    const int64_t place = PLAIN_HAS(slot_range_names_last) ? row[0] - 1 - t : t;
    const int64_t id = ids[place], S = PLAIN_HAS(slot_range_one_too_high) ? p->S + 1 : p->S;
    const int negative = id < -1 && !PLAIN_HAS(slot_range_any_negative);
    if (negative || (p->bound && id >= S))
      return plain_verdict(v, SINKTRAP_SLOT_RANGE, SINKTRAP_NONE, SINKTRAP_NONE, id, p->bound ? p->S : 0);
    if (id >= 0 && !p->bound) needs_pool = !PLAIN_HAS(unbound_serves_base);
  }
  return plain_answer(v, needs_pool ? SINKTRAP_UNBOUND : SINKTRAP_OK);
}

/* Splits one allocation; the caller frees `x`. */
static int allocate(const sinktrap_instance* p, scratch* w) {
  const size_t bridges = p->bound ? (size_t)(p->outer * p->R) : 0, acts = (size_t)(p->n * p->F);
  w->x = malloc(((size_t)p->H * 2 + (size_t)p->n + 2 * acts + 3 * bridges) * sizeof(float));
  if (w->x == NULL) return 0;
  w->out = w->x + p->H;
  w->gammas = w->out + p->H;
  w->act = w->gammas + p->n;
  w->lora_act = w->act + acts;
  w->bridge = w->lora_act + acts;
  w->d_bridge = w->bridge + 2 * bridges;
  return 1;
}

/* What a faulty library does beside computing, with one token at least; nothing in the honest one. */
static void misbehave(const sinktrap_instance* p, const sinktrap_forward_args* args) {
  const int64_t elements = args->x->shape[0] * p->H;
  (void)elements; /* the honest library has no use for it */
  if (PLAIN_HAS(crash_in_forward)) {
    volatile int* volatile nowhere = NULL; /* both, or the store is optimised away */
    *nowhere = 1;                          /* NOLINT: the fault is a crash */
  }
  if (PLAIN_HAS(hang_in_forward)) {
    volatile int forever = 1;
    while (forever) {
    }
  }
  if (PLAIN_HAS(differs_every_second_call)) {
    static int calls;
    plain_data(args->out)[0] ^= (char)(calls++ % 2);
  }
  if (PLAIN_HAS(modifies_pool) && p->bound) p->pool[A][0] ^= 1;
  if (PLAIN_HAS(writes_before_begin)) plain_write(p->type, plain_data(args->out), -1, 1.0f);
  if (PLAIN_HAS(writes_past_end)) plain_write(p->type, plain_data(args->out), elements, 1.0f);
  if (PLAIN_HAS(modifies_input)) *plain_data(args->x) += 1;
}

/* For a fault: the map as it was when this address was first seen with this length. */
static const int32_t* kept_ids(sinktrap_instance* p, const int32_t* ids, int64_t count) {
  if (count > (int64_t)(sizeof p->kept_ids / sizeof *p->kept_ids)) return ids;
  if (p->kept_from != ids || p->kept_count != count) {
    memcpy(p->kept_ids, ids, (size_t)count * sizeof *ids);
    p->kept_from = ids;
    p->kept_count = count;
  }
  return p->kept_ids;
}

int32_t plain_forward(sinktrap_instance* p, const sinktrap_forward_args* args, sinktrap_verdict* v) {
  const int32_t* ids;
  scratch w;
  int64_t t;
  if (check(p, args, v) != SINKTRAP_OK) return v->code;
  if (args->x->shape[0] == 0) return v->code;
  if (!allocate(p, &w)) return plain_fail(v, SINKTRAP_INTERNAL, "no memory for one token's intermediates");
  ids = (const int32_t*)(const void*)plain_data(args->token_slot);
  if (PLAIN_HAS(slots_kept_by_address)) ids = kept_ids(p, ids, args->x->shape[0]);
  for (t = 0; t < args->x->shape[0]; ++t)
    if (!PLAIN_HAS(uninitialised_base_rows) || ids[t] >= 0)
      one_token(p, args, t, plain_route(p, ids, args->x->shape[0], t), &w);
  free(w.x);
  misbehave(p, args);
  return v->code;
}
