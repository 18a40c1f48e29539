/* Storage types: bf16 (binary32 without its low 16 significand bits), IEEE binary16 and binary32. */
#include <math.h>
#include <string.h>

#include "plain.h"

static uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static uint16_t read_16(const char* data, int64_t i) {
  uint16_t half;
  memcpy(&half, data + 2 * i, sizeof half);
  return half;
}

static float from_bf16(uint16_t half) { return float_of((uint32_t)half << 16); }

static float from_f16(uint16_t half) {
  const uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = half >> 10 & 31u,
                 fraction = half & 1023u;
  if (exponent == 0) { /* subnormal: units of 2^-24 */
    const float magnitude = (float)fraction * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  if (exponent == 31) return float_of(sign | 0x7f800000u | fraction << 13);
  return float_of(sign | (exponent + 127 - 15) << 23 | fraction << 13);
}

static uint16_t to_bf16(float value) {
  const uint32_t bits = bits_of(value);
  if (isnan(value))
    return (uint16_t)(bits >> 16 | 0x40u); /* the quiet bit: a payload may lie in the half lost */
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static uint16_t to_f16(float value) {
  const uint16_t sign = (uint16_t)(bits_of(value) >> 16 & 0x8000u);
  const float magnitude = fabsf(value);
  uint32_t bits = bits_of(magnitude);
  if (isnan(value)) return sign | 0x7e00u;
  if (magnitude >= 0x1p16f) return sign | 0x7c00u; /* also infinity; 65520 to 2^16 round up to it below */
  if (magnitude < 0x1p-14f) {
    /* In [0.5, 1) the unit of the last place is 2^-24, that of the subnormals: the addition rounds, and what
     * it adds to the bits of 0.5 is the fraction. */
    return (uint16_t)(sign | (bits_of(magnitude + 0.5f) - bits_of(0.5f)));
  }
  bits += 0xfffu + (bits >> 13 & 1u);
  return (uint16_t)(sign | (bits - ((127u - 15u) << 23)) >> 13);
}

plain_type plain_type_of(DLDataType dtype) {
  if (dtype.lanes != 1) return PLAIN_NO_TYPE;
  if (dtype.code == kDLBfloat && dtype.bits == 16) return PLAIN_BF16;
  if (dtype.code == kDLFloat && dtype.bits == 16) return PLAIN_F16;
  if (dtype.code == kDLFloat && dtype.bits == 32) return PLAIN_F32;
  return PLAIN_NO_TYPE;
}

size_t plain_bytes(plain_type type) { return type == PLAIN_F32 ? 4 : 2; }

float plain_read(plain_type type, const char* data, int64_t i) {
  float value;
  if (type == PLAIN_BF16) return from_bf16(read_16(data, i));
  if (type == PLAIN_F16) return from_f16(read_16(data, i));
  memcpy(&value, data + 4 * i, sizeof value);
  return value;
}

void plain_write(plain_type type, char* data, int64_t i, float value) {
  if (type == PLAIN_F32) {
    memcpy(data + 4 * i, &value, sizeof value);
  } else {
    const uint16_t half = type == PLAIN_BF16 ? to_bf16(value) : to_f16(value);
    memcpy(data + 2 * i, &half, sizeof half);
  }
}

float plain_dot(plain_type type, const char* w, int64_t first, const float* v, int64_t count) {
  float sum = 0.0f;
  int64_t k;
  /* One loop for each type: the choice outside of it lets the compiler unroll. */
  if (type == PLAIN_BF16) {
    for (k = 0; k < count; ++k) sum += from_bf16(read_16(w, first + k)) * v[k];
  } else {
    for (k = 0; k < count; ++k) sum += plain_read(type, w, first + k) * v[k];
  }
  return sum;
}
