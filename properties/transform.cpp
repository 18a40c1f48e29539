#include "properties/transform.hpp"

#include <algorithm>
#include <cmath>

#include "contract/tensor.hpp"

namespace sinktrap {
namespace {

// Copies `rows` rows of `width` elements: row_of gives the source row of a result row, column the first
// source column.
template <class RowOf>
Tensor take(const Tensor& from, std::vector<std::int64_t> shape, std::int64_t from_width, std::int64_t column,
            RowOf&& row_of) {
  Tensor to(from.type(), std::move(shape));
  const std::int64_t width = to.shape().back(), rows = width == 0 ? 0 : to.size() / width;
  const std::int64_t bytes = element_bytes(from.type());
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto* source = from.bytes().data() + (row_of(r) * from_width + column) * bytes;
    std::copy_n(source, width * bytes, to.bytes().data() + r * width * bytes);
  }
  return to;
}

}  // namespace

void fill_with_nan(Tensor& t) {
  for (std::int64_t i = 0; i < t.size(); ++i) t.set(i, NAN);
}

void fill_slot(Tensor& t, std::int64_t s, double value) {
  const std::int64_t per_slot = t.size() / t.extent(0);
  for (std::int64_t i = 0; i < per_slot; ++i) t.set(s * per_slot + i, value);
}

Tensor take_axis(const Tensor& t, int axis, const std::vector<std::int64_t>& indices) {
  auto shape = t.shape();
  const auto at = static_cast<std::size_t>(axis);
  const std::int64_t extent = shape[at];
  std::int64_t before = 1, bytes = element_bytes(t.type());
  for (std::size_t i = 0; i < at; ++i) before *= shape[i];
  for (std::size_t i = at + 1; i < shape.size(); ++i) bytes *= shape[i];
  shape[at] = static_cast<std::int64_t>(indices.size());
  Tensor to(t.type(), shape);
  for (std::int64_t b = 0; b < before; ++b)
    for (std::int64_t i = 0; i < shape[at]; ++i)
      if (const std::int64_t from = indices[static_cast<std::size_t>(i)]; from >= 0)
        std::copy_n(t.bytes().data() + (b * extent + from) * bytes, bytes,
                    to.bytes().data() + (b * shape[at] + i) * bytes);
  return to;
}

Tensor repeat_outer(const Tensor& factor, std::int64_t n) {
  auto shape = factor.shape();
  shape[1] = n;
  const std::int64_t rows = shape[2], width = shape[3];
  return take(factor, shape, width, 0, [=](std::int64_t r) { return r / (n * rows) * rows + r % rows; });
}

ForwardInputs shard_inputs(const ForwardInputs& in, std::int64_t p, std::int64_t P) {
  ForwardInputs out = in;
  const std::int64_t F = in.d.F, part = F / P, first = p * part;
  out.d.F = part;
  // Rows of a [.., 2F, ..] tensor whose halves are stacked, and of an interleaved one.
  const auto halves = [=](std::int64_t r) {
    const std::int64_t block = r / (2 * part), inside = r % (2 * part);
    return block * 2 * F + inside / part * F + first + inside % part;
  };
  const auto pairs = [=](std::int64_t r) { return r / (2 * part) * 2 * F + 2 * first + r % (2 * part); };
  const auto all = [](std::int64_t r) { return r; };
  const std::int64_t n = in.d.n, H = in.d.H, R = in.d.R, S = in.d.S;
  out.w13 = in.w13_layout == SINKTRAP_W13_INTERLEAVED ? take(in.w13, {n, 2 * part, H}, H, 0, pairs)
                                                      : take(in.w13, {n, 2 * part, H}, H, 0, halves);
  out.w2 = take(in.w2, {n, H, part}, F, first, all);
  out.pool[SINKTRAP_BUFFER_GATE_UP_LORA_B] =
      take(in.pool[SINKTRAP_BUFFER_GATE_UP_LORA_B], {S, n, 2 * part, R}, R, 0, halves);
  out.pool[SINKTRAP_BUFFER_DOWN_LORA_A] =
      take(in.pool[SINKTRAP_BUFFER_DOWN_LORA_A], {S, n, R, part}, F, first, all);
  return out;
}

void lengthen_rows(BufferViews& views, BufferStrides& strides, std::size_t b) {
  const std::int64_t* s = views[b].shape;
  strides[b] = {s[1] * s[2] * (s[3] + 1), s[2] * (s[3] + 1), s[3] + 1, 1};
  views[b].strides = strides[b].data();
}

void lengthen_some_rows(BufferViews& views, BufferStrides& strides, std::size_t b) {
  for (std::size_t i = 0; i < views.size(); ++i, b = (b + 1) % views.size()) {
    lengthen_rows(views, strides, b);
    if (!is_contiguous(views[b])) return;
    views[b].strides = nullptr;
  }
}

}  // namespace sinktrap
