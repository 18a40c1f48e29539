/* plain_c: the contract of CONTRACT.md in plain C, in host memory, written to be read.
 *
 * It shows how to plug in a kernel: sinktrap_implementation (plain_table.c) hands out a table of functions,
 * and the rest of the files fill it. Internal to the library; names, shapes and codes are those of contract/.
 */
#ifndef PLAIN_H
#define PLAIN_H

#include <stddef.h>
#include <stdint.h>

#include "contract/sinktrap.h"
#include "plain_fault.h"

/* Storage types (CONTRACT.md section 1). */
typedef enum plain_type { PLAIN_BF16, PLAIN_F16, PLAIN_F32, PLAIN_NO_TYPE } plain_type;

/* A layer with, after the first bind, its pool and the operands derived from it. */
struct sinktrap_instance {
  int64_t n, H, F; /* shared experts, hidden size, intermediate size of one expert */
  int32_t w13_layout;
  DLDataType dtype;
  plain_type type;
  size_t element; /* bytes of one storage element */
  const char* w13;
  const char* w2;

  int bound; /* the rest counts from the first successful bind on */
  int64_t S, R, outer;
  int64_t pool_shape[SINKTRAP_BUFFER_COUNT][4];
  char* pool[SINKTRAP_BUFFER_COUNT];
  char* w1_delta; /* [S, n*2F, 2R] */
  char* cat;      /* shared-outer: a_cat [S, R, n*F]; per-expert: b_cat [S, H, n*R] */
  int64_t w1_delta_shape[3], cat_shape[3];
  int64_t loaded_slot, loaded_rank; /* of the last load; for a fault */
  const int32_t* kept_from;         /* a map from tokens to slots that was read before; for a fault */
  int64_t kept_count;
  int32_t kept_ids[64];
};

/* plain_number.c */
plain_type plain_type_of(DLDataType dtype); /* PLAIN_NO_TYPE: not a storage type */
size_t plain_bytes(plain_type type);
float plain_read(plain_type type, const char* data, int64_t i);
/* Rounds to nearest even; overflow gives infinity, subnormals are kept, NaN stays NaN. */
void plain_write(plain_type type, char* data, int64_t i, float value);
/* sum over k of w[first + k] * v[k], in f32, k ascending. */
float plain_dot(plain_type type, const char* w, int64_t first, const float* v, int64_t count);

/* plain_tensor.c */
int32_t plain_verdict(sinktrap_verdict* verdict, int32_t code, int32_t buffer, int32_t axis, int64_t found,
                      int64_t expected);                                      /* returns code */
int32_t plain_answer(sinktrap_verdict* verdict, int32_t code);                /* all other fields empty */
int32_t plain_fail(sinktrap_verdict* verdict, int32_t code, const char* why); /* for last_error */
const char* plain_last_error(void);
char* plain_data(const DLTensor* t); /* data + byte_offset */
/* The contiguous stride of an axis, in elements; the tensor's size is known to fit. */
int64_t plain_stride(const DLTensor* t, int axis);
/* A tensor in host memory that can be used as an array: these extents (ndim of them), this type, contiguous,
 * with aligned data unless it has no elements. */
int plain_is_array(const DLTensor* t, DLDataType dtype, int ndim, const int64_t* extents);
/* The same for an array whose extents are not known yet: ndim axes, none negative, bytes within int64. */
int plain_is_some_array(const DLTensor* t, DLDataType dtype, int ndim);
/* Bytes that two memory ranges have in common. */
int64_t plain_shared_bytes(uintptr_t a, uint64_t a_bytes, uintptr_t b, uint64_t b_bytes);
uint64_t plain_tensor_bytes(const DLTensor* t); /* the size is known to fit */

/* plain_validate.c */
int32_t plain_judge(const sinktrap_layout* layout, int32_t profile, sinktrap_verdict* v);
int32_t plain_validate(const sinktrap_layout* layouts, int64_t count, int32_t profile,
                       sinktrap_verdict* verdicts);
int64_t plain_type_number(DLDataType dtype);  /* code * 2^24 + bits * 2^16 + lanes */
int64_t plain_device_number(DLDevice device); /* device_type * 2^32 + device_id */
int plain_same_type(DLDataType a, DLDataType b);

/* plain_bind.c */
int32_t plain_bind(sinktrap_instance* p, const DLTensor buffers[SINKTRAP_BUFFER_COUNT], sinktrap_verdict* v);
int32_t plain_update(sinktrap_instance* p, const sinktrap_slot_set* slots, sinktrap_verdict* v);
int32_t plain_derived(sinktrap_instance* p, const char* name, DLTensor* view, sinktrap_verdict* v);
/* First element and number of elements of a slot of a bound pool's buffer. */
int64_t plain_slot_elements(const sinktrap_instance* p, int buffer);

/* plain_load.c */
int32_t plain_load(sinktrap_instance* p, int64_t slot, const sinktrap_adapter* adapter, sinktrap_verdict* v);
int32_t plain_unload(sinktrap_instance* p, int64_t slot, sinktrap_verdict* v);

/* plain_repair.c */
int32_t plain_shard(const DLTensor full[SINKTRAP_BUFFER_COUNT], int64_t tp_rank, int64_t tp_size,
                    const DLTensor shard[SINKTRAP_BUFFER_COUNT], sinktrap_verdict* v);
int32_t plain_expand(const DLTensor* shared, int32_t buffer, const DLTensor* per_expert, sinktrap_verdict* v);
int32_t plain_collapse(const DLTensor* per_expert, int32_t buffer, const DLTensor* shared,
                       sinktrap_verdict* v);

/* plain_wrong.c: where faults of forward hide behind a function; each gives the honest value without one. */
typedef enum plain_stage {
  PLAIN_BASE,        /* w13 . x */
  PLAIN_BRIDGE,      /* gate_up_lora_a . x */
  PLAIN_DELTA,       /* gate_up_lora_b . bridge */
  PLAIN_DOWN,        /* w2 . act */
  PLAIN_DOWN_BRIDGE, /* down_lora_a . act */
  PLAIN_DOWN_DELTA   /* down_lora_b . bridge */
} plain_stage;
float plain_round(plain_type type, float value); /* to the type and back */
float plain_activation(float z);                 /* plain_silu */
/* plain_dot. */
float plain_sum(const sinktrap_instance* p, plain_stage stage, const char* w, int64_t first, const float* v,
                int64_t count);
/* first; `what` is the pool's buffer that an element is sought in, or PLAIN_W1_DELTA. */
enum { PLAIN_W1_DELTA = SINKTRAP_BUFFER_COUNT };
int64_t plain_offset(const sinktrap_instance* p, int what, int64_t first);
int64_t plain_bridge_row(const sinktrap_instance* p, int64_t slot, int64_t row);           /* row */
int64_t plain_route(const sinktrap_instance* p, const int32_t* ids, int64_t T, int64_t t); /* ids[t] */
float plain_gamma(const sinktrap_instance* p, const sinktrap_forward_args* args, int64_t t,
                  int64_t e); /* gammas[t, e] */
float plain_leak(const sinktrap_instance* p, const sinktrap_forward_args* args, int64_t t,
                 int64_t slot); /* 0 */

/* plain_select.c */
const char* plain_title(void); /* "plain_c", or "plain_c:" and its faults */

/* plain_forward.c */
float plain_silu(float z);
void plain_remember_operand(const char* w1_delta); /* for a fault: operands that layers share */
int32_t plain_forward(sinktrap_instance* p, const sinktrap_forward_args* args, sinktrap_verdict* v);

#endif
