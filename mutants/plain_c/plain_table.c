/* The one exported function, and making and freeing an instance. */
#include <stdlib.h>
#include <string.h>

#include "plain.h"

static int32_t plain_create(const sinktrap_layer* layer, const char* options, sinktrap_instance** instance,
                            sinktrap_verdict* v) {
  int64_t dimensions[3], w13_extents[3], w2_extents[3];
  sinktrap_instance* p;
  int i;
  if (layer == NULL || instance == NULL || layer->struct_size < sizeof *layer)
    return plain_answer(v, SINKTRAP_ARGUMENT);
  *instance = NULL;
  dimensions[0] = layer->n_shared_experts;
  dimensions[1] = layer->hidden_size;
  dimensions[2] = layer->intermediate_size;
  for (i = 0; i < 3; ++i)
    if (dimensions[i] < 1)
      return plain_verdict(v, SINKTRAP_LAYER, SINKTRAP_NONE, SINKTRAP_NONE, dimensions[i], 1);
  if (layer->w13_layout != SINKTRAP_W13_INTERLEAVED && layer->w13_layout != SINKTRAP_W13_CONTIGUOUS)
    return plain_answer(v, SINKTRAP_ARGUMENT);
  w13_extents[0] = w2_extents[0] = layer->n_shared_experts;
  /* Twice an F that would wrap is no extent of any tensor. */
  w13_extents[1] = layer->intermediate_size <= INT64_MAX / 2 ? 2 * layer->intermediate_size : -1;
  w13_extents[2] = w2_extents[1] = layer->hidden_size;
  w2_extents[2] = layer->intermediate_size;
  if (plain_type_of(layer->dtype) == PLAIN_NO_TYPE ||
      !plain_is_array(layer->w13, layer->dtype, 3, w13_extents) ||
      !plain_is_array(layer->w2, layer->dtype, 3, w2_extents))
    return plain_answer(v, SINKTRAP_ARGUMENT);
  if (options != NULL && options[0] != '\0')
    return plain_fail(v, SINKTRAP_ARGUMENT, "this implementation has no options");
  p = calloc(1, sizeof *p);
  if (p == NULL) return plain_fail(v, SINKTRAP_INTERNAL, "no memory for an instance");
  p->n = layer->n_shared_experts;
  p->H = layer->hidden_size;
  p->F = layer->intermediate_size;
  p->w13_layout = layer->w13_layout;
  p->dtype = layer->dtype;
  p->type = plain_type_of(layer->dtype);
  p->element = plain_bytes(p->type);
  p->w13 = plain_data(layer->w13);
  p->w2 = plain_data(layer->w2);
  *instance = p;
  return plain_answer(v, SINKTRAP_OK);
}

static void plain_destroy(sinktrap_instance* p) {
  if (p == NULL) return;
  free(p->w1_delta);
  free(p->cat);
  free(p);
}

static sinktrap_implementation_table table = {
    SINKTRAP_ABI_VERSION,
    sizeof(sinktrap_implementation_table),
    "plain_c",
    SINKTRAP_CAN_UPDATE | SINKTRAP_CAN_LOAD | SINKTRAP_CAN_SHARD | SINKTRAP_CAN_EXPAND |
        SINKTRAP_CAN_DERIVED | SINKTRAP_CAN_BF16 | SINKTRAP_CAN_F16 | SINKTRAP_CAN_F32 |
        SINKTRAP_CAN_GAMMAS_F32 | SINKTRAP_CAN_INTERLEAVED | SINKTRAP_CAN_CONTIGUOUS | SINKTRAP_CAN_SHARED |
        SINKTRAP_CAN_PER_EXPERT,
    {1, 0u, SINKTRAP_SILU_RELATIVE, 1}, /* declares that no seam is rounded; deterministic */
    {kDLCPU, 0},
    {NULL, NULL, NULL, NULL}, /* host memory */
    plain_validate,
    plain_create,
    plain_destroy,
    plain_bind,
    plain_forward,
    plain_update,
    plain_load,
    plain_unload,
    plain_shard,
    plain_expand,
    plain_collapse,
    plain_derived,
    NULL, /* declare: options change nothing */
    plain_last_error,
};

const sinktrap_implementation_table* sinktrap_implementation(uint32_t host_abi_version) {
  (void)host_abi_version; /* the host compares it with the table's; there is only one version to offer */
  table.name = plain_title();
  table.abi_version = SINKTRAP_ABI_VERSION + (PLAIN_HAS(wrong_version) ? 1u : 0u);
  return &table;
}
