/* sinktrap.h - the C interface of an implementation under test.
 *
 * A shared library that exports `sinktrap_implementation` can be judged with `sinktrap run --impl FILE.so`.
 * The built-in implementations are reached through the same table. What each operation has to do, and which
 * code it returns when, is CONTRACT.md; this header says how it is called.
 *
 * Conventions
 *  - Tensors are DLPack's DLTensor: row-major, last axis contiguous. `strides` may be null (contiguous).
 *    Descriptors live in host memory; `data` lives on the implementation's device.
 *  - An operation returns a code and writes a verdict with the same code; the verdict pointer is never null.
 *    Fields of a verdict that do not apply are SINKTRAP_NONE (buffer, axis) or 0 (found, expected).
 *  - When an operation does not return SINKTRAP_OK it has changed nothing that can be observed.
 *  - Calls on one instance come from one thread at a time; forward has finished when it returns.
 */
#ifndef SINKTRAP_H
#define SINKTRAP_H

#include <dlpack/dlpack.h>
#include <stdint.h>

#include "codes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this interface. A table with another version is refused. */
#define SINKTRAP_ABI_VERSION 1u

#define SINKTRAP_NONE (-1)
/* In sinktrap_layout: the layer's H or F is not known; the buffers only have to agree with each other. */
#define SINKTRAP_ANY (-1)

#define SINKTRAP_ENUM_(NAME, text, message) SINKTRAP_##NAME,
typedef enum sinktrap_code { SINKTRAP_CODES(SINKTRAP_ENUM_) SINKTRAP_CODE_COUNT } sinktrap_code;
#undef SINKTRAP_ENUM_

#define SINKTRAP_ENUM_(NAME, text) SINKTRAP_BUFFER_##NAME,
typedef enum sinktrap_buffer { SINKTRAP_BUFFERS(SINKTRAP_ENUM_) SINKTRAP_BUFFER_COUNT } sinktrap_buffer;
#undef SINKTRAP_ENUM_

#define SINKTRAP_ENUM_(NAME, text) SINKTRAP_SEAM_INDEX_##NAME,
typedef enum sinktrap_seam { SINKTRAP_SEAMS(SINKTRAP_ENUM_) SINKTRAP_SEAM_COUNT } sinktrap_seam;
#undef SINKTRAP_ENUM_
/* Bit of one seam in a mask: SINKTRAP_SEAM(BASE_Y) | SINKTRAP_SEAM(ACT). */
#define SINKTRAP_SEAM(NAME) (1u << SINKTRAP_SEAM_INDEX_##NAME)
#define SINKTRAP_ALL_SEAMS ((1u << SINKTRAP_SEAM_COUNT) - 1u)

typedef enum sinktrap_profile {
  SINKTRAP_PROFILE_SGLANG, /* the five checks */
  SINKTRAP_PROFILE_STRICT  /* the five checks and those that close their holes */
} sinktrap_profile;

typedef enum sinktrap_w13_layout {
  SINKTRAP_W13_INTERLEAVED, /* row 2j is gate j, row 2j+1 is up j */
  SINKTRAP_W13_CONTIGUOUS   /* rows 0..F-1 gate, F..2F-1 up */
} sinktrap_w13_layout;

/* Accuracy class of an implementation's silu (CONTRACT.md section 5). */
typedef enum sinktrap_silu_class {
  SINKTRAP_SILU_RELATIVE, /* within (|z| + 6) 2^-23 of the value */
  SINKTRAP_SILU_ABSOLUTE  /* within |z| 2^-22 (tanh-type) */
} sinktrap_silu_class;

/* Why buffers were refused. All implementations agree on every field (CONTRACT.md section 2). */
typedef struct sinktrap_verdict {
  int32_t code;     /* sinktrap_code */
  int32_t buffer;   /* sinktrap_buffer or SINKTRAP_NONE */
  int32_t axis;     /* 0..3 or SINKTRAP_NONE */
  int32_t reserved; /* 0 */
  int64_t found;    /* the extent (or other quantity, see CONTRACT.md) found */
  int64_t expected; /* and the one that was expected */
} sinktrap_verdict;

/* sinktrap_layout.flags: there is no memory behind the descriptors; the checks `data` and `aliasing` are left
 * out. */
#define SINKTRAP_SHAPES_ONLY 1u

/* What validate judges: the layer's dimensions and four buffers. */
typedef struct sinktrap_layout {
  int64_t n_shared_experts;  /* n */
  int64_t hidden_size;       /* H or SINKTRAP_ANY */
  int64_t intermediate_size; /* F or SINKTRAP_ANY */
  uint32_t flags;            /* SINKTRAP_SHAPES_ONLY */
  uint32_t reserved;         /* 0 */
  DLTensor buffers[SINKTRAP_BUFFER_COUNT];
} sinktrap_layout;

/* The base layer. The tensors stay alive and unchanged until destroy. */
typedef struct sinktrap_layer {
  uint32_t struct_size;      /* sizeof(sinktrap_layer) of the caller */
  int32_t w13_layout;        /* sinktrap_w13_layout */
  int64_t n_shared_experts;  /* n */
  int64_t hidden_size;       /* H */
  int64_t intermediate_size; /* F, of one expert on this tensor-parallel rank */
  DLDataType dtype;          /* storage type of every tensor of the layer */
  const DLTensor* w13;       /* [n, 2F, H] */
  const DLTensor* w2;        /* [n, H, F] */
} sinktrap_layer;

/* A set of slots for update; null: all; a count of 0: none; below 0, or above it with null ids: argument. */
typedef struct sinktrap_slot_set {
  const int64_t* ids;
  int64_t count;
} sinktrap_slot_set;

/* One adapter as a checkpoint ships it: flat 2-D factors of the layer's storage type, with the whole
 * (unsharded) intermediate size F_all = F * tp_size. With per_expert = 0 the outer factors are shared by all
 * experts; with per_expert = 1 they come once per expert, expert-major. */
typedef struct sinktrap_adapter {
  uint32_t struct_size;
  int32_t per_expert;
  int64_t rank;              /* r */
  float scaling;             /* B factors are stored as round(scaling * B) */
  uint32_t reserved;         /* 0 */
  int64_t tp_rank, tp_size;  /* 0 <= tp_rank < tp_size */
  const DLTensor* gate_a;    /* [r, H], or [n*r, H] */
  const DLTensor* up_a;      /* as gate_a; null: gate_a serves both halves */
  const DLTensor* gate_up_b; /* [n*2*F_all, r]: expert-major, gate rows before up rows */
  const DLTensor* down_a;    /* [r, n*F_all]: rank-major */
  const DLTensor* down_b;    /* [H, r], or [n*H, r] */
} sinktrap_adapter;

/* Arguments of forward. */
typedef struct sinktrap_forward_args {
  uint32_t struct_size;
  uint32_t reserved;          /* 0 */
  const DLTensor* x;          /* [T, H] */
  const DLTensor* gammas;     /* [T, n], storage type or f32 */
  const DLTensor* token_slot; /* [T] int32, -1 = base model only */
  DLTensor* out;              /* [T, H]; the only tensor that forward writes */
} sinktrap_forward_args;

/* Capabilities. An implementation that lacks one is not judged on it, and the report says so by name. */
#define SINKTRAP_CAN_UPDATE (1ull << 0)  /* update */
#define SINKTRAP_CAN_LOAD (1ull << 1)    /* load and unload */
#define SINKTRAP_CAN_SHARD (1ull << 2)   /* shard */
#define SINKTRAP_CAN_EXPAND (1ull << 3)  /* expand and collapse */
#define SINKTRAP_CAN_DERIVED (1ull << 4) /* derived */
#define SINKTRAP_CAN_BF16 (1ull << 5)    /* storage types */
#define SINKTRAP_CAN_F16 (1ull << 6)
#define SINKTRAP_CAN_F32 (1ull << 7)
#define SINKTRAP_CAN_GAMMAS_F32 (1ull << 8)  /* f32 gammas beside bf16 or f16 storage */
#define SINKTRAP_CAN_INTERLEAVED (1ull << 9) /* w13 layouts */
#define SINKTRAP_CAN_CONTIGUOUS (1ull << 10)
#define SINKTRAP_CAN_SHARED (1ull << 11) /* expert layouts of the pool */
#define SINKTRAP_CAN_PER_EXPERT (1ull << 12)
/* The arithmetic is the ordered one of CONTRACT.md section 7: equal bit for bit to the ordered CPU path. */
#define SINKTRAP_IS_ORDERED (1ull << 13)
/* create understands the options `seams=NAME+NAME` (or none) and `schedule=N`. */
#define SINKTRAP_CAN_CHOOSE_SEAMS (1ull << 14)
#define SINKTRAP_CAN_CHOOSE_SCHEDULE (1ull << 15)

typedef struct sinktrap_instance sinktrap_instance;

/* What an implementation promises about its arithmetic. */
typedef struct sinktrap_declaration {
  int32_t seams_declared; /* 0: any seam may be rounded; 1: exactly those in `seams` are */
  uint32_t seams;         /* mask of SINKTRAP_SEAM(...) */
  int32_t silu_class;     /* sinktrap_silu_class */
  int32_t deterministic;  /* 1: the same call gives the same bits */
} sinktrap_declaration;

/* Memory of the implementation's device. All four, or none (host memory). */
typedef struct sinktrap_memory {
  void* (*allocate)(uint64_t bytes); /* aligned to 256 bytes; null when there is none */
  void (*release)(void* pointer);
  int32_t (*write)(void* device, const void* host, uint64_t bytes); /* SINKTRAP_OK or SINKTRAP_INTERNAL */
  int32_t (*read)(void* host, const void* device, uint64_t bytes);
} sinktrap_memory;

typedef struct sinktrap_implementation_table {
  uint32_t abi_version; /* SINKTRAP_ABI_VERSION */
  uint32_t struct_size; /* sizeof(sinktrap_implementation_table) as the implementation was compiled */
  const char* name;     /* at most 63 printable characters without space */
  uint64_t capabilities;
  sinktrap_declaration declaration;
  DLDevice device; /* where tensors have to be: {kDLCPU, 0} for host memory */
  sinktrap_memory memory;

  /* Required. */
  /* Judges `count` layouts; writes one verdict each. The result is SINKTRAP_OK when all were judged. */
  int32_t (*validate)(const sinktrap_layout* layouts, int64_t count, int32_t profile,
                      sinktrap_verdict* verdicts);
  /* options: the text behind '?' in --impl, "key=value&key=value"; never null. */
  int32_t (*create)(const sinktrap_layer* layer, const char* options, sinktrap_instance** instance,
                    sinktrap_verdict* verdict);
  void (*destroy)(sinktrap_instance* instance);
  /* Validates (strict), then takes over the four buffers and derives the operands of all slots. */
  int32_t (*bind)(sinktrap_instance* instance, const DLTensor buffers[SINKTRAP_BUFFER_COUNT],
                  sinktrap_verdict* verdict);
  int32_t (*forward)(sinktrap_instance* instance, const sinktrap_forward_args* args,
                     sinktrap_verdict* verdict);

  /* Optional, null without the capability. */
  int32_t (*update)(sinktrap_instance* instance, const sinktrap_slot_set* slots, sinktrap_verdict* verdict);
  /* Write the bound pool's slot; its derived operands follow with the next update. */
  int32_t (*load)(sinktrap_instance* instance, int64_t slot, const sinktrap_adapter* adapter,
                  sinktrap_verdict* verdict);
  int32_t (*unload)(sinktrap_instance* instance, int64_t slot, sinktrap_verdict* verdict);
  /* full: four buffers with intermediate size F; shard: four buffers with F / tp_size, written. */
  int32_t (*shard)(const DLTensor full[SINKTRAP_BUFFER_COUNT], int64_t tp_rank, int64_t tp_size,
                   const DLTensor shard[SINKTRAP_BUFFER_COUNT], sinktrap_verdict* verdict);
  /* One outer factor (gate_up_lora_a or down_lora_b, named by `buffer`): [S,1,..] -> [S,n,..] and back. */
  int32_t (*expand)(const DLTensor* shared, int32_t buffer, const DLTensor* per_expert,
                    sinktrap_verdict* verdict);
  int32_t (*collapse)(const DLTensor* per_expert, int32_t buffer, const DLTensor* shared,
                      sinktrap_verdict* verdict);
  /* "w1_delta", "a_cat" or "b_cat": a view of the operand in the implementation's memory, valid until
   * destroy. SINKTRAP_UNSUPPORTED: this implementation, or this layout, has no such operand. */
  int32_t (*derived)(sinktrap_instance* instance, const char* name, DLTensor* view,
                     sinktrap_verdict* verdict);
  /* The declaration of an instance, where options changed it; null: the table's. */
  int32_t (*declare)(sinktrap_instance* instance, sinktrap_declaration* declaration);
  /* What went wrong in the last call that returned SINKTRAP_INTERNAL or SINKTRAP_UNSUPPORTED; may be null. */
  const char* (*last_error)(void);
} sinktrap_implementation_table;

/* The one exported function. host_abi_version is the version that the caller was built with. The table lives
 * as long as the library is loaded. */
typedef const sinktrap_implementation_table* (*sinktrap_implementation_function)(uint32_t host_abi_version);
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const sinktrap_implementation_table*
sinktrap_implementation(uint32_t host_abi_version);

#ifdef __cplusplus
}
#endif
#endif
