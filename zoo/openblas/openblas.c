/* openblas: an honest implementation that is fast on a CPU: storage as given, all products as f32 GEMMs. It
 * is what production sizes are judged with where there is no GPU.
 *
 * Everything but the forward pass is plain_c's, whose sources are built into this library too; its table is
 * copied and changed here. No seam is rounded. */
#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mutants/plain_c/plain.h"

/* plain_table.c, whose exported function is renamed where this library is built. */
const sinktrap_implementation_table* plain_implementation(uint32_t host_abi_version);

enum { A = SINKTRAP_BUFFER_GATE_UP_LORA_A, GUB, DLA, B };
/* Tokens at a time: enough for a GEMM to run at full speed, few enough to keep intermediates small. */
enum { BLOCK = 1024 };

static const DLDataType float32 = {kDLFloat, 32, 1}, int32 = {kDLInt, 32, 1};

static void widen(plain_type type, const char* from, int64_t first, int64_t count, float* to) {
  int64_t i;
  if (type == PLAIN_BF16) {
    for (i = 0; i < count; ++i) {
      uint16_t half;
      uint32_t bits;
      memcpy(&half, from + 2 * (first + i), sizeof half);
      bits = (uint32_t)half << 16;
      memcpy(to + i, &bits, sizeof bits);
    }
    return;
  }
  for (i = 0; i < count; ++i) to[i] = plain_read(type, from, first + i);
}

/* c[m, n] (rows ldc apart) = a[m, k] (rows lda apart) . b[n, k]^T + beta c */
static void gemm(int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b, float beta,
                 float* c, int64_t ldc) {
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)m, (int)n, (int)k, 1.0f, a, (int)lda, b, (int)k,
              beta, c, (int)ldc);
}

/* f32 copies of the weights, gate rows before up rows; of one slot's adapter; intermediates of one block. */
typedef struct work {
  float *w13, *w2;
  float *a, *gub, *dla, *b;
  float *x, *y, *act, *bridge, *down, *out;
} work;

static int allocate(const sinktrap_instance* p, work* w) {
  const int64_t nF = p->n * p->F, R = p->bound ? p->R : 0, outer = p->bound ? p->outer : 1;
  const int64_t sizes[] = {
      2 * nF * p->H,     nF * p->H,    outer * 2 * R * p->H,    2 * nF * R, nF * R,
      outer * p->H * R,  BLOCK * p->H, (int64_t)BLOCK * 2 * nF, BLOCK * nF, BLOCK * outer * 2 * R,
      BLOCK * outer * R, BLOCK * p->H};
  float** parts[] = {&w->w13, &w->w2, &w->a,   &w->gub,    &w->dla,  &w->b,
                     &w->x,   &w->y,  &w->act, &w->bridge, &w->down, &w->out};
  size_t i, total = 0;
  float* at;
  for (i = 0; i < sizeof sizes / sizeof *sizes; ++i) total += (size_t)sizes[i];
  at = malloc((total > 0 ? total : 1) * sizeof(float));
  if (at == NULL) return 0;
  for (i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    *parts[i] = at;
    at += sizes[i];
  }
  return 1;
}

static void read_base(const sinktrap_instance* p, work* w) {
  int64_t e, j;
  int half;
  for (e = 0; e < p->n; ++e)
    for (half = 0; half < 2; ++half)
      for (j = 0; j < p->F; ++j) {
        const int64_t row = p->w13_layout == SINKTRAP_W13_INTERLEAVED ? 2 * j + half : half * p->F + j;
        widen(p->type, p->w13, (e * 2 * p->F + row) * p->H, p->H,
              w->w13 + ((e * 2 + half) * p->F + j) * p->H);
      }
  widen(p->type, p->w2, 0, p->n * p->H * p->F, w->w2);
}

static void read_slot(const sinktrap_instance* p, int64_t s, work* w) {
  const int64_t a = p->outer * 2 * p->R * p->H, b = p->n * 2 * p->F * p->R, c = p->n * p->R * p->F,
                d = p->outer * p->H * p->R;
  widen(p->type, p->pool[A], s * a, a, w->a);
  widen(p->type, p->pool[GUB], s * b, b, w->gub);
  widen(p->type, p->pool[DLA], s * c, c, w->dla);
  widen(p->type, p->pool[B], s * d, d, w->b);
}

/* A block of m tokens of one slot (-1: base), gathered in w->x; gammas are [m, n]. */
static void block(const sinktrap_instance* p, int64_t slot, int64_t m, const float* gammas, work* w) {
  const int64_t n = p->n, H = p->H, F = p->F, R = p->R;
  int64_t e, t, j, half;
  gemm(m, n * 2 * F, H, w->x, H, w->w13, 0.0f, w->y, n * 2 * F);
  if (slot >= 0) {
    gemm(m, p->outer * 2 * R, H, w->x, H, w->a, 0.0f, w->bridge, p->outer * 2 * R);
    for (e = 0; e < n; ++e)
      for (half = 0; half < 2; ++half)
        gemm(m, F, R, w->bridge + ((p->outer == 1 ? 0 : e) * 2 + half) * R, p->outer * 2 * R,
             w->gub + (e * 2 + half) * F * R, 1.0f, w->y + (e * 2 + half) * F, n * 2 * F);
  }
  for (t = 0; t < m; ++t)
    for (e = 0; e < n; ++e) {
      const float *gate = w->y + (t * n + e) * 2 * F, *up = gate + F;
      for (j = 0; j < F; ++j)
        w->act[(t * n + e) * F + j] = gate[j] / (1.0f + expf(-gate[j])) * up[j] * gammas[t * n + e];
    }
  for (e = 0; e < n; ++e)
    gemm(m, H, F, w->act + e * F, n * F, w->w2 + e * H * F, e > 0 ? 1.0f : 0.0f, w->out, H);
  if (slot < 0) return;
  for (e = 0; e < n; ++e)
    gemm(m, R, F, w->act + e * F, n * F, w->dla + e * R * F, p->outer == 1 && e > 0 ? 1.0f : 0.0f,
         w->down + (p->outer == 1 ? 0 : e) * R, p->outer * R);
  for (e = 0; e < p->outer; ++e)
    gemm(m, H, R, w->down + e * R, p->outer * R, w->b + e * H * R, 1.0f, w->out, H);
}

/* Arguments that plain_c would take too; everything else is left to it, with its verdicts. */
static int is_ordinary(const sinktrap_instance* p, const sinktrap_forward_args* args) {
  int64_t row[2], weights[2], t;
  const int32_t* ids;
  if (p == NULL || args == NULL || args->struct_size < sizeof *args ||
      !plain_is_some_array(args->x, p->dtype, 2))
    return 0;
  row[0] = weights[0] = args->x->shape[0];
  row[1] = p->H;
  weights[1] = p->n;
  if (row[0] == 0 || !plain_is_array(args->x, p->dtype, 2, row) ||
      !plain_is_array(args->out, p->dtype, 2, row) || !plain_is_array(args->token_slot, int32, 1, row) ||
      !(plain_is_array(args->gammas, p->dtype, 2, weights) ||
        plain_is_array(args->gammas, float32, 2, weights)))
    return 0;
  ids = (const int32_t*)(const void*)plain_data(args->token_slot);
  for (t = 0; t < row[0]; ++t)
    if (ids[t] < -1 || ids[t] >= (p->bound ? p->S : 0)) return 0;
  return 1;
}

static int32_t openblas_forward(sinktrap_instance* p, const sinktrap_forward_args* args,
                                sinktrap_verdict* v) {
  work w;
  float* gammas;
  int64_t *tokens, s, t, i, m, T;
  const int32_t* ids;
  plain_type gamma_type;
  if (!is_ordinary(p, args)) return plain_forward(p, args, v);
  T = args->x->shape[0];
  gamma_type = plain_type_of(args->gammas->dtype);
  ids = (const int32_t*)(const void*)plain_data(args->token_slot);
  if (!allocate(p, &w)) return plain_fail(v, SINKTRAP_INTERNAL, "no memory for f32 weights");
  gammas = malloc(sizeof(float) * (size_t)(BLOCK * p->n));
  tokens = malloc(sizeof(int64_t) * BLOCK);
  if (gammas == NULL || tokens == NULL) {
    free(w.w13);
    free(gammas);
    free(tokens);
    return plain_fail(v, SINKTRAP_INTERNAL, "no memory for a block of tokens");
  }
  read_base(p, &w);
  for (s = -1; s < (p->bound ? p->S : 0); ++s) {
    int read = s < 0;
    for (t = 0; t < T;) {
      for (m = 0; t < T && m < BLOCK; ++t) {
        if (ids[t] != s) continue;
        widen(p->type, plain_data(args->x), t * p->H, p->H, w.x + m * p->H);
        widen(gamma_type, plain_data(args->gammas), t * p->n, p->n, gammas + m * p->n);
        tokens[m++] = t;
      }
      if (m == 0) continue;
      if (!read) read_slot(p, s, &w); /* of slots that a token uses, and of no other */
      read = 1;
      block(p, s, m, gammas, &w);
      for (i = 0; i < m * p->H; ++i)
        plain_write(p->type, plain_data(args->out), tokens[i / p->H] * p->H + i % p->H, w.out[i]);
    }
  }
  free(w.w13);
  free(gammas);
  free(tokens);
  return plain_answer(v, SINKTRAP_OK);
}

const sinktrap_implementation_table* sinktrap_implementation(uint32_t host_abi_version) {
  static sinktrap_implementation_table table;
  table = *plain_implementation(host_abi_version);
  table.name = "openblas";
  table.forward = openblas_forward;
  table.declaration.deterministic = 0; /* OpenBLAS promises no order across threads */
  return &table;
}
