/* CONTRACT.md section 5: the forward pass, one token after the other, in f32 without a seam rounded. */
#include <math.h>
#include <stdlib.h>

#include "plain.h"

enum { A = SINKTRAP_BUFFER_GATE_UP_LORA_A, GUB, DLA, B };

static const DLDataType float32 = {kDLFloat, 32, 1};

/* f32 intermediates of one token; one allocation behind them. */
typedef struct scratch {
  float* x;        /* [H] */
  float* gammas;   /* [n] */
  float* bridge;   /* [outer, 2, R]: g_br, u_br */
  float* act;      /* [n, F] */
  float* d_bridge; /* [outer, R] */
  float* out;      /* [H] */
} scratch;

static float silu(float z) { return z / (1.0f + expf(-z)); }

/* Both bridges of every outer factor. */
static void shrink(const sinktrap_instance* p, int64_t slot, scratch* w) {
  int64_t row;
  for (row = 0; row < p->outer * 2 * p->R; ++row)
    w->bridge[row] = plain_dot(p->type, p->pool[A], (slot * p->outer * 2 * p->R + row) * p->H, w->x, p->H);
}

/* w1_delta of one feature times its half of the bridge. The other half of the row is zero and stays out of
 * the sum: zero times a bridge that is NaN would be NaN. */
static float delta(const sinktrap_instance* p, int64_t slot, int64_t e, int64_t j, int half,
                   const scratch* w) {
  const int64_t row = ((slot * p->n + e) * p->F + j) * 2 + half;
  const int64_t columns = PLAIN_HAS(last_rank_column_lost) ? p->R - 1 : p->R;
  const int bridge_half = PLAIN_HAS(up_reads_gate_bridge) ? 0 : half;
  const float* bridge = w->bridge + ((p->outer == 1 ? 0 : e) * 2 + bridge_half) * p->R;
  return plain_dot(p->type, p->w1_delta, (2 * row + half) * p->R, bridge, columns);
}

static void activate(const sinktrap_instance* p, int64_t slot, scratch* w) {
  int64_t e, j;
  int half;
  for (e = 0; e < p->n; ++e)
    for (j = 0; j < p->F; ++j) {
      float y[2]; /* gate, up */
      for (half = 0; half < 2; ++half) {
        const int64_t row = p->w13_layout == SINKTRAP_W13_INTERLEAVED ? 2 * j + half : half * p->F + j;
        y[half] = plain_dot(p->type, p->w13, (e * 2 * p->F + row) * p->H, w->x, p->H);
        if (slot >= 0) y[half] += delta(p, slot, e, j, half, w);
      }
      w->act[e * p->F + j] = silu(y[0]) * y[1] * (PLAIN_HAS(no_gamma) ? 1.0f : w->gammas[e]);
    }
}

/* One bridge over all experts with a_cat, or one for each expert. */
static void down_shrink(const sinktrap_instance* p, int64_t slot, scratch* w) {
  int64_t e, q;
  for (q = 0; q < p->R; ++q) {
    if (p->outer == 1) {
      w->d_bridge[q] = plain_dot(p->type, p->cat, (slot * p->R + q) * p->n * p->F, w->act, p->n * p->F);
      continue;
    }
    for (e = 0; e < p->n; ++e)
      w->d_bridge[e * p->R + q] =
          plain_dot(p->type, p->pool[DLA], ((slot * p->n + e) * p->R + q) * p->F, w->act + e * p->F, p->F);
  }
}

static void down(const sinktrap_instance* p, int64_t slot, scratch* w) {
  /* down_lora_b of a shared-outer pool and b_cat of a per-expert one: rows of outer*R columns. */
  const char* expand = p->outer == 1 ? p->pool[B] : p->cat;
  const int64_t columns = p->outer * p->R;
  int64_t e, h;
  for (h = 0; h < p->H; ++h) {
    float sum = 0.0f;
    for (e = 0; e < p->n; ++e)
      sum += plain_dot(p->type, p->w2, (e * p->H + h) * p->F, w->act + e * p->F, p->F);
    if (slot >= 0) sum += plain_dot(p->type, expand, (slot * p->H + h) * columns, w->d_bridge, columns);
    w->out[h] = sum;
  }
}

static void one_token(const sinktrap_instance* p, const sinktrap_forward_args* args, int64_t t, int64_t slot,
                      scratch* w) {
  const plain_type gamma_type = plain_type_of(args->gammas->dtype);
  int64_t i;
  for (i = 0; i < p->H; ++i) w->x[i] = plain_read(p->type, plain_data(args->x), t * p->H + i);
  for (i = 0; i < p->n; ++i) w->gammas[i] = plain_read(gamma_type, plain_data(args->gammas), t * p->n + i);
  if (slot >= 0) shrink(p, slot, w);
  activate(p, slot, w);
  if (slot >= 0) down_shrink(p, slot, w);
  down(p, slot, w);
  for (i = 0; i < p->H; ++i) plain_write(p->type, plain_data(args->out), t * p->H + i, w->out[i]);
}

/* Shapes and types, then every id; the order of section 3. */
static int32_t check(const sinktrap_instance* p, const sinktrap_forward_args* args, sinktrap_verdict* v) {
  const DLDataType int32 = {kDLInt, 32, 1};
  const int32_t* ids;
  int64_t row[2], weights[2], t;
  int needs_pool = 0;
  if (p == NULL || args == NULL || args->struct_size < sizeof *args ||
      !plain_is_some_array(args->x, p->dtype, 2))
    return plain_answer(v, SINKTRAP_ARGUMENT);
  row[0] = weights[0] = args->x->shape[0];
  row[1] = p->H;
  weights[1] = p->n;
  if (!plain_is_array(args->x, p->dtype, 2, row) || !plain_is_array(args->out, p->dtype, 2, row) ||
      !plain_is_array(args->token_slot, int32, 1, row) ||
      !(plain_is_array(args->gammas, p->dtype, 2, weights) ||
        plain_is_array(args->gammas, float32, 2, weights)))
    return plain_answer(v, SINKTRAP_ARGUMENT);
  ids = (const int32_t*)(const void*)plain_data(args->token_slot);
  for (t = 0; t < row[0]; ++t) {
    if (ids[t] < -1 || (p->bound && ids[t] >= p->S))
      return plain_verdict(v, SINKTRAP_SLOT_RANGE, SINKTRAP_NONE, SINKTRAP_NONE, ids[t], p->bound ? p->S : 0);
    if (ids[t] >= 0 && !p->bound) needs_pool = 1;
  }
  return plain_answer(v, needs_pool ? SINKTRAP_UNBOUND : SINKTRAP_OK);
}

/* Splits one allocation; the caller frees `x`. */
static int allocate(const sinktrap_instance* p, scratch* w) {
  const size_t bridges = p->bound ? (size_t)(p->outer * p->R) : 0, acts = (size_t)(p->n * p->F);
  w->x = malloc(((size_t)p->H * 2 + (size_t)p->n + acts + 3 * bridges) * sizeof(float));
  if (w->x == NULL) return 0;
  w->out = w->x + p->H;
  w->gammas = w->out + p->H;
  w->act = w->gammas + p->n;
  w->bridge = w->act + acts;
  w->d_bridge = w->bridge + 2 * bridges;
  return 1;
}

/* What a faulty library does beside computing, with one token at least; nothing in the honest one. */
static void misbehave(const sinktrap_instance* p, const sinktrap_forward_args* args) {
  const int64_t elements = args->x->shape[0] * p->H;
  (void)elements; /* the honest library has no use for it */
  if (PLAIN_HAS(crash_in_forward)) {
    volatile int* volatile nowhere = NULL; /* both, or the store is optimised away */
    *nowhere = 1;
  }
  if (PLAIN_HAS(hang_in_forward)) {
    volatile int forever = 1;
    while (forever) {
    }
  }
  if (PLAIN_HAS(writes_past_end)) plain_write(p->type, plain_data(args->out), elements, 1.0f);
  if (PLAIN_HAS(modifies_input)) *plain_data(args->x) += 1;
}

int32_t plain_forward(sinktrap_instance* p, const sinktrap_forward_args* args, sinktrap_verdict* v) {
  const int32_t* ids;
  scratch w;
  int64_t t;
  if (check(p, args, v) != SINKTRAP_OK) return v->code;
  if (args->x->shape[0] == 0) return v->code;
  if (!allocate(p, &w)) return plain_fail(v, SINKTRAP_INTERNAL, "no memory for one token's intermediates");
  ids = (const int32_t*)(const void*)plain_data(args->token_slot);
  for (t = 0; t < args->x->shape[0]; ++t)
    if (!PLAIN_HAS(uninitialised_base_rows) || ids[t] >= 0) one_token(p, args, t, ids[t], &w);
  free(w.x);
  misbehave(p, args);
  return v->code;
}
