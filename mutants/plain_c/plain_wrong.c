/* What the faults of forward do that is more than a word in its own place. Without a fault every function
 * here gives what plain_forward.c would do by itself; a library of your own has none of this. */
#include <math.h>
#include <stdlib.h>

#include "plain.h"

enum { A = SINKTRAP_BUFFER_GATE_UP_LORA_A };

static const DLDataType float32 = {kDLFloat, 32, 1};

float plain_round(plain_type type, float value) {
  char bytes[4];
  plain_write(type, bytes, 0, value);
  return plain_read(type, bytes, 0);
}

/* The value without the bits of its significand that a type of `kept` stored bits does not have. */
static float cut(float value, int kept) {
  int exponent;
  const float scale = ldexpf(1.0f, kept + 1), fraction = frexpf(value, &exponent);
  return isfinite(value) ? ldexpf(truncf(fraction * scale) / scale, exponent) : value;
}

float plain_activation(float z) {
  const float sigmoid = 1.0f / (1.0f + expf(-z));
  if (PLAIN_HAS(gelu)) return 0.5f * z * (1.0f + erff(z * 0.70710678f));
  if (PLAIN_HAS(gelu_tanh)) return 0.5f * z * (1.0f + tanhf(0.79788456f * (z + 0.044715f * z * z * z)));
  if (PLAIN_HAS(quick_gelu)) return z / (1.0f + expf(-1.702f * z));
  if (PLAIN_HAS(hard_swish)) return z * fminf(fmaxf(z + 3.0f, 0.0f), 6.0f) / 6.0f;
  if (PLAIN_HAS(relu)) return fmaxf(z, 0.0f);
  if (PLAIN_HAS(mish)) return z * tanhf(log1pf(expf(z)));
  if (PLAIN_HAS(sigmoid_only)) return sigmoid;
  if (PLAIN_HAS(gate_clamped)) return plain_silu(fminf(fmaxf(z, -7.0f), 7.0f));
  if (PLAIN_HAS(rational_sigmoid)) return z * 0.5f * (1.0f + z / (1.0f + fabsf(z)));
  if (PLAIN_HAS(coarse_exp)) return z / (1.0f + expf(roundf(-z * 512.0f) / 512.0f));
  if (PLAIN_HAS(sigmoid_in_bf16)) return z * plain_round(PLAIN_BF16, sigmoid);
  return plain_silu(z);
}

static int64_t without_tail(int64_t count) { return count < 16 ? count : count - count % 16; }

static int64_t counted(plain_stage stage, int64_t count) {
  if (stage == PLAIN_DELTA && PLAIN_HAS(last_rank_column_lost)) return count - 1;
  if (stage == PLAIN_DELTA && PLAIN_HAS(rank_16_hard_coded)) return count < 16 ? count : 16;
  if (stage == PLAIN_DOWN_DELTA && PLAIN_HAS(last_down_rank_lost)) return count - 1;
  if (stage == PLAIN_DOWN && PLAIN_HAS(last_feature_lost)) return count - 1;
  if (stage == PLAIN_BASE && PLAIN_HAS(last_hidden_lost)) return count - 1;
  if (stage == PLAIN_BRIDGE && PLAIN_HAS(hidden_tail_dropped)) return without_tail(count);
  if (stage == PLAIN_DOWN && PLAIN_HAS(feature_tail_dropped)) return without_tail(count);
  if (stage == PLAIN_DOWN_BRIDGE && PLAIN_HAS(down_bridge_tail_dropped)) return without_tail(count);
  return count;
}

static float wrong_dot(plain_type type, const char* w, int64_t first, const float* v, int64_t count,
                       int rounds) {
  float sum = 0.0f;
  int64_t k;
  for (k = 0; k < count; ++k) {
    const int64_t at = PLAIN_HAS(sums_descending) ? count - 1 - k : k;
    float factor = plain_read(type, w, first + at), other = v[at];
    if (PLAIN_HAS(tf32_products) && type == PLAIN_F32) {
      factor = cut(factor, 10);
      other = cut(other, 10);
    }
    sum += factor * other;
    if (rounds) sum = plain_round(type, sum);
  }
  return sum;
}

float plain_sum(const sinktrap_instance* p, plain_stage stage, const char* w, int64_t first, const float* v,
                int64_t count) {
  const int rounds = (stage == PLAIN_BASE && PLAIN_HAS(base_accumulates_in_storage)) ||
                     (stage == PLAIN_BRIDGE && PLAIN_HAS(bridge_accumulates_in_storage)) ||
                     (stage == PLAIN_DOWN && PLAIN_HAS(down_accumulates_in_storage));
  const int rounded = (stage == PLAIN_BASE && PLAIN_HAS(base_y_rounded)) ||
                      (stage == PLAIN_BRIDGE && PLAIN_HAS(bridge_rounded)) ||
                      (stage == PLAIN_DELTA && PLAIN_HAS(delta_rounded)) ||
                      (stage == PLAIN_DOWN_BRIDGE && PLAIN_HAS(down_bridge_rounded));
  const int lora = stage == PLAIN_DELTA || stage == PLAIN_DOWN_DELTA;
  float sum;
  count = counted(stage, count);
  if (rounds || PLAIN_HAS(tf32_products) || PLAIN_HAS(sums_descending))
    sum = wrong_dot(p->type, w, first, v, count, rounds);
  else
    sum = plain_dot(p->type, w, first, v, count);
  if (stage == PLAIN_BRIDGE && PLAIN_HAS(bridge_reads_past_end))
    sum += plain_read(p->type, w, first + count - 1) * v[count - 1];
  if (rounded) sum = plain_round(p->type, sum);
  if (lora && PLAIN_HAS(delta_times_1_25)) sum *= 1.25f;
  if (lora && PLAIN_HAS(delta_times_1_05)) sum *= 1.05f;
  if (stage == PLAIN_DOWN_DELTA && PLAIN_HAS(down_delta_doubled)) sum *= 2.0f;
  return sum;
}

/* What a machine makes of it is what a C compiler makes of it: both wrap. */
int64_t plain_offset(const sinktrap_instance* p, int what, int64_t first) {
  const int64_t element = (int64_t)p->element;
  (void)element; /* the honest library has no use for it */
  (void)what;
  if (PLAIN_HAS(int32_offsets_of_gate_up_a) && what == SINKTRAP_BUFFER_GATE_UP_LORA_A) return (int32_t)first;
  if (PLAIN_HAS(int32_offsets_of_gate_up_b) && what == SINKTRAP_BUFFER_GATE_UP_LORA_B) return (int32_t)first;
  if (PLAIN_HAS(int32_offsets_of_w1_delta) && what == PLAIN_W1_DELTA) return (int32_t)first;
  if (PLAIN_HAS(uint32_offsets_of_w1_delta) && what == PLAIN_W1_DELTA) return (int64_t)(uint32_t)first;
  if (PLAIN_HAS(uint32_bytes_of_gate_up_a) && what == SINKTRAP_BUFFER_GATE_UP_LORA_A)
    return (int64_t)(uint32_t)(first * element) / element;
  if (PLAIN_HAS(int32_bytes_of_down_a) && what == SINKTRAP_BUFFER_DOWN_LORA_A)
    return (int32_t)(first * element) / element;
  if (PLAIN_HAS(int32_bytes_of_down_b) && what == SINKTRAP_BUFFER_DOWN_LORA_B)
    return (int32_t)(first * element) / element;
  return first;
}

/* Rows of gate A in use: what an engine would take for the adapter's rank. */
static int64_t rank_in_use(const sinktrap_instance* p, int64_t slot, int64_t o) {
  const int64_t first = (slot * p->outer + o) * 2 * p->R * p->H;
  int64_t i;
  for (i = p->R * p->H; i > 0; --i)
    if (plain_read(p->type, p->pool[A], first + i - 1) != 0.0f) return (i - 1) / p->H + 1;
  return 0;
}

int64_t plain_bridge_row(const sinktrap_instance* p, int64_t slot, int64_t row) {
  const int64_t rows = 2 * p->R, o = row / rows, half = row % rows / p->R, q = row % p->R;
  const int64_t from = PLAIN_HAS(outer_zero_for_all) ? 0 : o;
  if (PLAIN_HAS(halves_swapped_in_a)) return from * rows + (1 - half) * p->R + q;
  if (PLAIN_HAS(up_half_read_at_r) && half == 1) return from * rows + rank_in_use(p, slot, o) + q;
  return from * rows + row % rows;
}

static int slot_is_zero(const sinktrap_instance* p, int64_t slot) {
  int64_t o;
  for (o = 0; o < p->outer; ++o)
    if (rank_in_use(p, slot, o) > 0) return 0;
  return 1;
}

/* The slot at place t when all are sorted. */
static int64_t sorted_slot(const int32_t* ids, int64_t T, int64_t t) {
  int64_t i, j;
  for (i = 0; i < T; ++i) {
    int64_t before = 0;
    for (j = 0; j < T; ++j) before += ids[j] < ids[i] || (ids[j] == ids[i] && j < i);
    if (before == t) return ids[i];
  }
  return ids[t];
}

int64_t plain_route(const sinktrap_instance* p, const int32_t* ids, int64_t T, int64_t t) {
  const int64_t slot = ids[t];
  if (PLAIN_HAS(unbound_serves_base) && !p->bound) return -1;
  if (PLAIN_HAS(slot_range_any_negative) && slot < -1) return -1;
  if (PLAIN_HAS(slot_range_one_too_high) && p->bound && slot >= p->S) return -1;
  if (PLAIN_HAS(minus_one_is_last_slot) && slot < 0 && p->bound) return p->S - 1;
  if (PLAIN_HAS(minus_one_is_slot_zero) && slot < 0 && p->bound) return 0;
  if (PLAIN_HAS(rank_zero_uses_neighbour) && slot > 0 && slot_is_zero(p, slot)) return slot - 1;
  if (PLAIN_HAS(last_token_is_base) && t == T - 1) return -1;
  if (PLAIN_HAS(slot_of_previous_token) && t > 0) return ids[t - 1];
  if (PLAIN_HAS(slots_sorted)) return sorted_slot(ids, T, t);
  if (PLAIN_HAS(one_slot_per_batch)) return ids[0];
  return slot;
}

float plain_gamma(const sinktrap_instance* p, const sinktrap_forward_args* args, int64_t t, int64_t e) {
  const plain_type type = plain_type_of(args->gammas->dtype);
  const char* gammas = plain_data(args->gammas);
  const int64_t row = PLAIN_HAS(gamma_of_first_token) ? 0 : t;
  float gamma = plain_read(type, gammas, row * p->n + (PLAIN_HAS(gamma_of_next_expert) ? (e + 1) % p->n : e));
  if (PLAIN_HAS(gammas_renormalised)) {
    float sum = 0.0f;
    int64_t i;
    for (i = 0; i < p->n; ++i) sum += plain_read(type, gammas, row * p->n + i);
    gamma /= sum;
  }
  if (PLAIN_HAS(gammas_rounded) && plain_same_type(args->gammas->dtype, float32))
    gamma = plain_round(p->type, gamma);
  return gamma;
}

float plain_leak(const sinktrap_instance* p, const sinktrap_forward_args* args, int64_t t, int64_t slot) {
  const int64_t T = args->x->shape[0], per_slot = p->bound ? p->outer * 2 * p->R * p->H : 0;
  float leak = 0.0f;
  int64_t s;
  if (PLAIN_HAS(next_row_multiplies_by_zero) && t + 1 < T)
    leak += 0.0f * plain_read(p->type, plain_data(args->x), (t + 1) * p->H);
  if (PLAIN_HAS(base_rows_multiply_by_zero) && slot < 0 && p->bound)
    leak += 0.0f * plain_read(p->type, p->pool[A], 0);
  if (PLAIN_HAS(other_slots_multiply_by_zero) && slot >= 0)
    for (s = 0; s < p->S; ++s) leak += 0.0f * plain_read(p->type, p->pool[A], s * per_slot);
  return leak;
}
