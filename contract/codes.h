/* Every code a sinktrap operation can return, in one table, with the text that belongs to it.
 *
 * SINKTRAP_CODES(X) expands X(NAME, "name", "text") in the order of precedence of CONTRACT.md sections 2
 * to 4. The numeric values are part of the C ABI: append, never reorder. In a text, {n} stands for the
 * layer's number of shared experts. The texts of the five checks are those of InklingBatchDenseMLPWithLoRA
 * (sgl-project/sglang, python/sglang/srt/models/inkling_common/lora.py); users search for them. */
#ifndef SINKTRAP_CODES_H
#define SINKTRAP_CODES_H

#define SINKTRAP_CODES(X)                                                                                  \
  X(OK, "ok", "")                                                                                          \
  /* section 2: a layer that cannot exist */                                                               \
  X(LAYER, "layer", "Inkling shared-sink layer needs n_shared_experts, hidden and intermediate size >= 1") \
  /* section 2: the five checks of the public implementation */                                            \
  X(NOT_4D, "not_4d", "Inkling shared-sink LoRA requires four 4D MoE buffers")                             \
  X(OUTER_DIM, "outer_dim", "Inkling shared-sink LoRA outer factors must have expert dimension 1 or {n}")  \
  X(LAYOUT_MISMATCH, "layout_mismatch",                                                                    \
    "Inkling shared-sink gate-up A and down B must use the same expert layout")                            \
  X(EXPERT_COUNT, "expert_count", "Inkling shared-sink LoRA expert count does not match")                  \
  X(RANK_MISMATCH, "rank_mismatch", "Inkling shared-sink LoRA rank dimensions do not match")               \
  /* section 2: what the strict profile adds */                                                            \
  X(EXTENT, "extent", "Inkling shared-sink LoRA buffers must have extents of at least 1")                  \
  X(SLOT_COUNT, "slot_count", "Inkling shared-sink LoRA buffers must have the same number of slots")       \
  X(HIDDEN_SIZE, "hidden_size", "Inkling shared-sink LoRA hidden sizes do not match")                      \
  X(INTERMEDIATE_SIZE, "intermediate_size", "Inkling shared-sink LoRA intermediate sizes do not match")    \
  X(SIZE_OVERFLOW, "size_overflow", "Inkling shared-sink LoRA buffer exceeds 2^63 - 1 bytes")              \
  X(DTYPE, "dtype", "Inkling shared-sink LoRA buffers must share one storage type: bf16, f16 or f32")      \
  X(DEVICE, "device", "Inkling shared-sink LoRA buffers must be on the same device")                       \
  X(STRIDE, "stride", "Inkling shared-sink LoRA buffers must be row-major contiguous")                     \
  X(DATA, "data", "Inkling shared-sink LoRA buffer has no data, or data not aligned to its element")       \
  X(ALIASING, "aliasing", "Inkling shared-sink LoRA buffers must not overlap in memory")                   \
  /* section 3: binding and slots */                                                                       \
  X(POOL_SHAPE_CHANGED, "pool_shape_changed",                                                              \
    "Inkling shared-sink LoRA pool differs in shape, layout or type from the first one bound")             \
  X(SLOT_RANGE, "slot_range", "slot id outside the pool")                                                  \
  X(UNBOUND, "unbound", "no LoRA pool has been bound")                                                     \
  X(ARGUMENT, "argument", "argument has the wrong shape, type or value")                                   \
  /* section 4: loading, packing, sharding */                                                              \
  X(INDIVISIBLE, "indivisible", "extent does not divide")                                                  \
  X(RANK_EXCEEDED, "rank_exceeded", "adapter rank exceeds the rank of the pool")                           \
  X(NOT_COLLAPSIBLE, "not_collapsible",                                                                    \
    "per-expert factor differs between experts and cannot become shared")                                  \
  /* not verdicts on the input: the implementation cannot, or failed */                                    \
  X(UNSUPPORTED, "unsupported", "the implementation does not support this")                                \
  X(INTERNAL, "internal", "the implementation failed")

/* The four buffers, in the order in which they are looked at. X(NAME, "name"). */
#define SINKTRAP_BUFFERS(X)                                   \
  X(GATE_UP_LORA_A, "gate_up_lora_a") /* [S, outer, 2R, H] */ \
  X(GATE_UP_LORA_B, "gate_up_lora_b") /* [S, n, 2F, R]     */ \
  X(DOWN_LORA_A, "down_lora_a")       /* [S, n, R, F]      */ \
  X(DOWN_LORA_B, "down_lora_b")       /* [S, outer, H, R]  */

/* The eleven places where a legal implementation may round an intermediate to the storage type (CONTRACT.md
 * section 5). X(NAME, "name"); bit i of a seam mask is entry i. */
#define SINKTRAP_SEAMS(X)                                           \
  X(BASE_Y, "base_y")                 /* w13 row . x */             \
  X(GATE_UP_BRIDGE, "gate_up_bridge") /* gate_up_lora_a row . x */  \
  X(GATE_UP_DELTA, "gate_up_delta")   /* gate_up_lora_b . bridge */ \
  X(Y, "y")                           /* base_y + delta */          \
  X(SILU, "silu")                     /* silu(gate) */              \
  X(PRODUCT, "product")               /* silu(gate) * up */         \
  X(ACT, "act")                       /* product * gamma */         \
  X(DOWN_BRIDGE, "down_bridge")       /* down_lora_a . act */       \
  X(DOWN_DELTA, "down_delta")         /* down_lora_b . bridge */    \
  X(EXPERT_OUT, "expert_out")         /* w2 of one expert . act */  \
  X(BASE_OUT, "base_out")             /* sum of expert_out */

#endif
