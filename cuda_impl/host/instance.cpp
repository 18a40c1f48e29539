// The state machine of CONTRACT.md section 3: layer, bind, update, derived operands.
#include "cuda_impl/host/instance.hpp"

#include <algorithm>
#include <numeric>

#include "cuda_impl/host/validation.hpp"

namespace sinktrap::cuda_impl::SINKTRAP_TARGET {

Verdict Instance::check_layer(Kernel kernel, const sinktrap_layer* layer) {
  if (layer == nullptr || layer->struct_size < sizeof(sinktrap_layer))
    return refuse_argument("layer: missing, or of an older interface");
  for (std::int64_t extent : {layer->n_shared_experts, layer->hidden_size, layer->intermediate_size})
    if (extent < 1) return verdict_of(SINKTRAP_LAYER, SINKTRAP_NONE, SINKTRAP_NONE, extent, 1);
  if (layer->w13_layout != SINKTRAP_W13_INTERLEAVED && layer->w13_layout != SINKTRAP_W13_CONTIGUOUS)
    return refuse_argument("layer: w13_layout is neither interleaved nor contiguous");
  if (!storage_type(layer->dtype)) return refuse_argument("layer: dtype is not bf16, f16 or f32");
  const std::int64_t n = layer->n_shared_experts, H = layer->hidden_size, F = layer->intermediate_size;
  const auto rows = product({2, F});
  if (!rows) return refuse_argument("layer: intermediate size is too large");
  std::string problem = tensor_problem("w13", layer->w13, {n, *rows, H}, layer->dtype);
  if (problem.empty()) problem = tensor_problem("w2", layer->w2, {n, H, F}, layer->dtype);
  if (!problem.empty()) return refuse_argument(std::move(problem));
  if (!is_ordered(kernel) && *storage_type(layer->dtype) == Type::f32) {
    set_last_error("layer: this kernel has no f32 storage");
    return verdict_of(SINKTRAP_UNSUPPORTED);
  }
  return verdict_of(SINKTRAP_OK);
}

Instance::Instance(Kernel kernel, const sinktrap_layer& layer, const Options& options)
    : kernel_(kernel),
      n_(layer.n_shared_experts),
      H_(layer.hidden_size),
      F_(layer.intermediate_size),
      w13_layout_(layer.w13_layout),
      dtype_(layer.dtype),
      type_(*storage_type(layer.dtype)),
      w13_(elements(*layer.w13)),
      w2_(elements(*layer.w2)),
      seams_(options.seams),
      schedule_(options.schedule) {}

sinktrap_declaration Instance::declaration() const { return {1, seams_, SINKTRAP_SILU_RELATIVE, 1}; }

PoolView Instance::view(const Pool& pool) const {
  PoolView v{};
  v.S = pool.S;
  v.outer = pool.outer;
  v.n = n_;
  v.H = H_;
  v.F = F_;
  v.R = pool.R;
  std::copy(pool.buffers.begin(), pool.buffers.end(), v.buffers);
  v.w1_delta = w1_delta_.get();
  // A first bind that failed half way may have left the buffer of the other layout.
  v.a_cat = pool.outer == 1 ? a_cat_.get() : nullptr;
  v.b_cat = pool.outer == 1 ? nullptr : b_cat_.get();
  return v;
}

void Instance::derive(const Pool& pool, const std::vector<std::int64_t>& slots) const {
  const PoolView v = view(pool);
  for (std::int64_t slot : slots) require_device(derive_slot(v, slot, element_bytes(type_)));
  require_device(device_synchronise());
}

Verdict Instance::bind(const DLTensor* buffers) {
  if (buffers == nullptr) return refuse_argument("bind: no buffers");
  if (const Verdict v = validate_buffers(n_, H_, F_, buffers); v.code != SINKTRAP_OK) return v;
  if (!same_type(buffers[0].dtype, dtype_))
    return verdict_of(SINKTRAP_DTYPE, 0, SINKTRAP_NONE, encode_type(buffers[0].dtype), encode_type(dtype_));
  if (encode_device(buffers[0].device) != encode_device(kDevice))
    return verdict_of(SINKTRAP_DEVICE, 0, SINKTRAP_NONE, encode_device(buffers[0].device),
                      encode_device(kDevice));

  Pool pool;
  pool.bound = true;
  pool.S = buffers[SINKTRAP_BUFFER_GATE_UP_LORA_A].shape[0];
  pool.outer = buffers[SINKTRAP_BUFFER_GATE_UP_LORA_A].shape[1];
  pool.R = buffers[SINKTRAP_BUFFER_GATE_UP_LORA_B].shape[3];
  for (std::size_t b = 0; b < SINKTRAP_BUFFER_COUNT; ++b) {
    DLTensor t = buffers[b];
    pool.buffers[b] = elements(t);
    std::copy(t.shape, t.shape + 4, pool.extents[b].begin());
  }
  if (pool_.bound) {
    for (std::size_t b = 0; b < SINKTRAP_BUFFER_COUNT; ++b)
      for (std::size_t axis = 0; axis < 4; ++axis)
        if (pool.extents[b][axis] != pool_.extents[b][axis])
          return verdict_of(SINKTRAP_POOL_SHAPE_CHANGED, static_cast<std::int32_t>(b),
                            static_cast<std::int32_t>(axis), pool.extents[b][axis], pool_.extents[b][axis]);
  } else {
    // Once for the life of the instance: addresses stay as they are from here on. gate_up_lora_b has fewer
    // than 2^63 bytes and w1_delta twice as many; the cats are permutations of pool buffers.
    const auto bytes = [&](std::int64_t slots, std::int64_t rows, std::int64_t columns) {
      return static_cast<std::uint64_t>(slots) * static_cast<std::uint64_t>(rows) *
             static_cast<std::uint64_t>(columns) * static_cast<std::uint64_t>(element_bytes(type_));
    };
    w1_delta_.reserve(bytes(pool.S, n_ * 2 * F_, 2 * pool.R));
    if (pool.outer == 1)
      a_cat_.reserve(bytes(pool.S, pool.R, n_ * F_));
    else
      b_cat_.reserve(bytes(pool.S, H_, n_ * pool.R));
    w1_delta_shape_ = {pool.S, n_ * 2 * F_, 2 * pool.R};
    a_cat_shape_ = {pool.S, pool.R, n_ * F_};
    b_cat_shape_ = {pool.S, H_, n_ * pool.R};
  }
  std::vector<std::int64_t> all(static_cast<std::size_t>(pool.S));
  std::iota(all.begin(), all.end(), std::int64_t{0});
  derive(pool, all);
  pool_ = pool;
  return verdict_of(SINKTRAP_OK);
}

// Each slot of a set once, ascending.
Verdict Instance::slots_of(const sinktrap_slot_set* slots, std::vector<std::int64_t>& ids) const {
  if (!pool_.bound) return verdict_of(SINKTRAP_UNBOUND);
  if (slots == nullptr) {
    ids.resize(static_cast<std::size_t>(pool_.S));
    std::iota(ids.begin(), ids.end(), std::int64_t{0});
  } else {
    if (slots->count < 0 || (slots->count > 0 && slots->ids == nullptr))
      return refuse_argument("update: a slot set without ids");
    for (std::int64_t i = 0; i < slots->count; ++i)
      if (const Verdict v = slot_problem(slots->ids[i]); v.code != SINKTRAP_OK) return v;
    ids.assign(slots->ids, slots->ids + slots->count);
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  }
  return verdict_of(SINKTRAP_OK);
}

Verdict Instance::update(const sinktrap_slot_set* slots) {
  std::vector<std::int64_t> ids;
  if (const Verdict v = slots_of(slots, ids); v.code != SINKTRAP_OK) return v;
  derive(pool_, ids);
  return verdict_of(SINKTRAP_OK);
}

Verdict Instance::slot_problem(std::int64_t slot) const {
  if (!pool_.bound) return verdict_of(SINKTRAP_UNBOUND);
  if (slot < 0 || slot >= pool_.S)
    return verdict_of(SINKTRAP_SLOT_RANGE, SINKTRAP_NONE, SINKTRAP_NONE, slot, pool_.S);
  return verdict_of(SINKTRAP_OK);
}

Verdict Instance::derived(std::string_view name, DLTensor* out) {
  if (out == nullptr) return refuse_argument("derived: no place for the view");
  const bool known = name == "w1_delta" || name == "a_cat" || name == "b_cat";
  if (known && !pool_.bound) return verdict_of(SINKTRAP_UNBOUND);
  const PoolView v = view(pool_);
  void* data = nullptr;
  std::int64_t* shape = nullptr;
  if (name == "w1_delta") {
    data = v.w1_delta;
    shape = w1_delta_shape_.data();
  } else if (name == "a_cat") {
    data = v.a_cat;
    shape = a_cat_shape_.data();
  } else if (name == "b_cat") {
    data = v.b_cat;
    shape = b_cat_shape_.data();
  }
  if (data == nullptr) {
    set_last_error("derived: no operand \"" + std::string(name) + "\" in this expert layout");
    return verdict_of(SINKTRAP_UNSUPPORTED);
  }
  *out = DLTensor{data, kDevice, 3, dtype_, shape, nullptr, 0};
  return verdict_of(SINKTRAP_OK);
}

}  // namespace sinktrap::cuda_impl::SINKTRAP_TARGET
