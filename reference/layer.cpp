#include "reference/layer.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "reference/forward.hpp"
#include "reference/validate.hpp"

namespace sinktrap::reference {
void Layer::Operand::allocate(Element type, std::array<std::int64_t, 3> extents) {
  std::int64_t size = element_bytes(type);
  for (std::int64_t extent : extents)
    if (__builtin_mul_overflow(size, extent, &size)) throw std::bad_alloc();
  bytes.resize(static_cast<std::size_t>(size));
  shape = extents;
}

void Layer::Bound::derive(std::int64_t slot) {
  derive_w1_delta(pool, slot, w1_delta.bytes.data());
  if (pool.outer == 1)
    derive_a_cat(pool, slot, a_cat.bytes.data());
  else
    derive_b_cat(pool, slot, b_cat.bytes.data());
}

Verdict Layer::create(const sinktrap_layer* d, const Arithmetic& arithmetic, std::unique_ptr<Layer>& layer) {
  if (d == nullptr || d->struct_size < sizeof(sinktrap_layer)) return verdict_of(SINKTRAP_ARGUMENT);
  for (std::int64_t dimension : {d->n_shared_experts, d->hidden_size, d->intermediate_size})
    if (dimension < 1) return verdict_of(SINKTRAP_LAYER, SINKTRAP_NONE, SINKTRAP_NONE, dimension, 1);
  const auto type = element_from_dl(d->dtype);
  const bool known_layout =
      d->w13_layout == SINKTRAP_W13_INTERLEAVED || d->w13_layout == SINKTRAP_W13_CONTIGUOUS;
  const Doubled features = doubled(d->intermediate_size);
  if (!type || !is_storage(*type) || !known_layout || features.wrapped ||
      !is_array(d->w13, *type, {d->n_shared_experts, features.nearest, d->hidden_size}) ||
      !is_array(d->w2, *type, {d->n_shared_experts, d->hidden_size, d->intermediate_size}))
    return verdict_of(SINKTRAP_ARGUMENT);

  std::unique_ptr<Layer> made(new Layer);
  made->arithmetic_ = arithmetic;
  made->n_ = d->n_shared_experts;
  made->H_ = d->hidden_size;
  made->F_ = d->intermediate_size;
  made->w13_layout_ = d->w13_layout;
  made->type_ = *type;
  made->w13_ = first_byte(*d->w13);
  made->w2_ = first_byte(*d->w2);
  layer = std::move(made);
  return kOk;
}

Verdict Layer::check_pool(const DLTensor* buffers) const {
  if (buffers == nullptr) return verdict_of(SINKTRAP_ARGUMENT);
  sinktrap_layout layout{n_, H_, F_, 0, 0, {}};
  std::copy_n(buffers, SINKTRAP_BUFFER_COUNT, layout.buffers);
  const Verdict v = validate(layout, SINKTRAP_PROFILE_STRICT);
  if (v.code != SINKTRAP_OK) return v;

  const DLTensor& first = buffers[SINKTRAP_BUFFER_GATE_UP_LORA_A];
  if (dtype_key(first.dtype) != dtype_key(dl_type(type_)))
    return verdict_of(SINKTRAP_DTYPE, SINKTRAP_BUFFER_GATE_UP_LORA_A, SINKTRAP_NONE, dtype_key(first.dtype),
                      dtype_key(dl_type(type_)));
  if (!on_host(first.device))
    return verdict_of(SINKTRAP_DEVICE, SINKTRAP_BUFFER_GATE_UP_LORA_A, SINKTRAP_NONE,
                      device_key(first.device), device_key(kHost));
  if (bound_ == nullptr) return kOk;
  for (int b = 0; b < SINKTRAP_BUFFER_COUNT; ++b)
    for (int axis = 0; axis < 4; ++axis)
      if (buffers[b].shape[axis] != bound_->shapes[b][axis])
        return verdict_of(SINKTRAP_POOL_SHAPE_CHANGED, b, axis, buffers[b].shape[axis],
                          bound_->shapes[b][axis]);
  return kOk;
}

Verdict Layer::bind(const DLTensor* buffers) {
  const Verdict v = check_pool(buffers);
  if (v.code != SINKTRAP_OK) return v;
  const Pool pool = pool_of(buffers);
  if (bound_ == nullptr) {
    // Everything that can fail happens before the first bind shows.
    auto made = std::make_unique<Bound>();
    for (int b = 0; b < SINKTRAP_BUFFER_COUNT; ++b) std::copy_n(buffers[b].shape, 4, made->shapes[b].begin());
    made->w1_delta.allocate(type_, {pool.S, pool.n * 2 * pool.F, 2 * pool.R});
    if (pool.outer == 1)
      made->a_cat.allocate(type_, {pool.S, pool.R, pool.n * pool.F});
    else
      made->b_cat.allocate(type_, {pool.S, pool.H, pool.n * pool.R});
    bound_ = std::move(made);
  }
  bound_->pool = pool;
  for (std::int64_t s = 0; s < pool.S; ++s) bound_->derive(s);
  return kOk;
}

Verdict Layer::update(const sinktrap_slot_set* slots) {
  if (bound_ == nullptr) return verdict_of(SINKTRAP_UNBOUND);
  const std::int64_t S = bound_->pool.S;
  if (slots == nullptr) {
    for (std::int64_t s = 0; s < S; ++s) bound_->derive(s);
    return kOk;
  }
  if (slots->count < 0 || (slots->count > 0 && slots->ids == nullptr)) return verdict_of(SINKTRAP_ARGUMENT);
  for (std::int64_t i = 0; i < slots->count; ++i)
    if (slots->ids[i] < 0 || slots->ids[i] >= S) return slot_range(slots->ids[i], S);
  for (std::int64_t i = 0; i < slots->count; ++i) bound_->derive(slots->ids[i]);
  return kOk;
}

Verdict Layer::load(std::int64_t slot, const sinktrap_adapter* adapter) {
  if (bound_ == nullptr) return verdict_of(SINKTRAP_UNBOUND);
  return load_slot(bound_->pool, slot, adapter);
}

Verdict Layer::unload(std::int64_t slot) {
  if (bound_ == nullptr) return verdict_of(SINKTRAP_UNBOUND);
  return unload_slot(bound_->pool, slot);
}

Verdict Layer::derived(const char* name, DLTensor* view) {
  if (name == nullptr || view == nullptr) return verdict_of(SINKTRAP_ARGUMENT);
  const std::string_view wanted = name;
  if (wanted != "w1_delta" && wanted != "a_cat" && wanted != "b_cat") return verdict_of(SINKTRAP_UNSUPPORTED);
  if (bound_ == nullptr) return verdict_of(SINKTRAP_UNBOUND);
  if (wanted == (has_a_cat() ? "b_cat" : "a_cat")) return verdict_of(SINKTRAP_UNSUPPORTED);
  Operand& operand = wanted == "w1_delta" ? bound_->w1_delta : has_a_cat() ? bound_->a_cat : bound_->b_cat;
  *view = DLTensor{};
  view->data = operand.bytes.data();
  view->device = kHost;
  view->ndim = static_cast<std::int32_t>(operand.shape.size());
  view->dtype = dl_type(type_);
  view->shape = operand.shape.data();
  return kOk;
}

// A slot_range anywhere goes before an unbound; before the first bind the number of slots is not known.
Verdict Layer::check_ids(const std::int32_t* ids, std::int64_t count) const {
  bool needs_pool = false;
  for (std::int64_t t = 0; t < count; ++t) {
    if (ids[t] < -1 || (bound_ != nullptr && ids[t] >= bound_->pool.S))
      return slot_range(ids[t], bound_ == nullptr ? 0 : bound_->pool.S);
    needs_pool = needs_pool || ids[t] > -1;
  }
  return needs_pool && bound_ == nullptr ? verdict_of(SINKTRAP_UNBOUND) : kOk;
}

Verdict Layer::forward(const sinktrap_forward_args* a) const {
  if (a == nullptr || a->struct_size < sizeof(sinktrap_forward_args) || !is_array(a->x, type_, {-1, H_}))
    return verdict_of(SINKTRAP_ARGUMENT);
  const std::int64_t T = a->x->shape[0];
  const bool f32_gammas = is_array(a->gammas, Element::f32, {T, n_});
  if ((!f32_gammas && !is_array(a->gammas, type_, {T, n_})) || !is_array(a->token_slot, Element::i32, {T}) ||
      !is_array(a->out, type_, {T, H_}))
    return verdict_of(SINKTRAP_ARGUMENT);
  if (T == 0) return kOk;
  const auto* ids = reinterpret_cast<const std::int32_t*>(first_byte(*a->token_slot));
  const Verdict v = check_ids(ids, T);
  if (v.code != SINKTRAP_OK) return v;

  Problem p;
  p.T = T;
  p.n = n_;
  p.H = H_;
  p.F = F_;
  p.w13_layout = w13_layout_;
  p.type = type_;
  p.gamma_type = f32_gammas ? Element::f32 : type_;
  p.x = first_byte(*a->x);
  p.gammas = first_byte(*a->gammas);
  p.w13 = w13_;
  p.w2 = w2_;
  p.token_slot = ids;
  if (bound_ != nullptr) {
    p.S = bound_->pool.S;
    p.R = bound_->pool.R;
    p.outer = bound_->pool.outer;
    std::copy(bound_->pool.data.begin(), bound_->pool.data.end(), p.pool.begin());
  }

  char* out = first_byte(*a->out);
  if (arithmetic_.kind == Arithmetic::Kind::ordered) {
    const std::vector<std::byte> stored = forward_ordered(p, arithmetic_.seams);
    std::memcpy(out, stored.data(), stored.size());
  } else {
    const Stages stages = forward_f64(p, false);
    for (std::int64_t i = 0; i < T * H_; ++i)
      store_element(type_, out, i, stages.out[static_cast<std::size_t>(i)]);
  }
  return kOk;
}

}  // namespace sinktrap::reference
