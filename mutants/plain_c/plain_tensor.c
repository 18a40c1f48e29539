/* Verdicts, and descriptors of tensors. */
#include "plain.h"

/* Of this thread, because two instances may run in two. */
static __thread const char* last_error;

int32_t plain_verdict(sinktrap_verdict* verdict, int32_t code, int32_t buffer, int32_t axis, int64_t found,
                      int64_t expected) {
  verdict->code = code;
  verdict->buffer = buffer;
  verdict->axis = axis;
  verdict->reserved = 0;
  verdict->found = found;
  verdict->expected = expected;
  return code;
}

int32_t plain_answer(sinktrap_verdict* verdict, int32_t code) {
  return plain_verdict(verdict, code, SINKTRAP_NONE, SINKTRAP_NONE, 0, 0);
}

int32_t plain_fail(sinktrap_verdict* verdict, int32_t code, const char* why) {
  last_error = why;
  return plain_answer(verdict, code);
}

const char* plain_last_error(void) { return last_error; }

/* As integers: null plus an offset, which an empty tensor may have, is not defined for pointers. */
char* plain_data(const DLTensor* t) { return (char*)((uintptr_t)t->data + (uintptr_t)t->byte_offset); }

int64_t plain_stride(const DLTensor* t, int axis) {
  int64_t stride = 1;
  int i;
  for (i = t->ndim - 1; i > axis; --i) stride *= t->shape[i];
  return stride;
}

uint64_t plain_tensor_bytes(const DLTensor* t) {
  uint64_t bytes = plain_bytes(plain_type_of(t->dtype));
  int i;
  for (i = 0; i < t->ndim; ++i) bytes *= (uint64_t)t->shape[i];
  return bytes;
}

int plain_is_some_array(const DLTensor* t, DLDataType dtype, int ndim) {
  /* (bits * lanes + 7) / 8: int32 token slots come here too, so it is not plain_bytes. */
  const int64_t element = ((int64_t)dtype.bits * dtype.lanes + 7) / 8;
  int64_t elements = 1;
  int i, empty = 0;
  if (t == NULL || t->ndim != ndim || t->shape == NULL || !plain_same_type(t->dtype, dtype)) return 0;
  if (t->device.device_type != kDLCPU) return 0;
  for (i = 0; i < ndim; ++i) {
    if (t->shape[i] < 0) return 0;
    if (t->shape[i] == 0) empty = 1;
  }
  if (empty) return 1; /* nothing is read: neither strides nor data matter */
  for (i = 0; i < ndim; ++i) {
    if (t->shape[i] > INT64_MAX / element / elements) return 0;
    elements *= t->shape[i];
  }
  for (i = 0; i < ndim; ++i)
    if (t->strides != NULL && t->shape[i] != 1 && t->strides[i] != plain_stride(t, i)) return 0;
  return plain_data(t) != NULL && (uintptr_t)plain_data(t) % (uintptr_t)element == 0;
}

int plain_is_array(const DLTensor* t, DLDataType dtype, int ndim, const int64_t* extents) {
  int i;
  if (!plain_is_some_array(t, dtype, ndim)) return 0;
  for (i = 0; i < ndim; ++i)
    if (t->shape[i] != extents[i]) return 0;
  return 1;
}

int64_t plain_shared_bytes(uintptr_t a, uint64_t a_bytes, uintptr_t b, uint64_t b_bytes) {
  /* By distance, so that a range at the end of the address space does not wrap. */
  const uintptr_t distance = a <= b ? b - a : a - b;
  const uint64_t lower = a <= b ? a_bytes : b_bytes, upper = a <= b ? b_bytes : a_bytes;
  if (distance >= lower) return 0;
  return (int64_t)(lower - distance < upper ? lower - distance : upper);
}
