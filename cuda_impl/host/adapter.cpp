// Loading and unloading adapters: CONTRACT.md section 4. The host checks, the kernels of slots.cu write.
#include "cuda_impl/host/instance.hpp"

namespace sinktrap::cuda_impl::SINKTRAP_TARGET {
namespace {

// A factor as section 4 names it in verdicts: gate and up A both count as gate_up_lora_a.
struct Factor {
  const char* name;
  const DLTensor* tensor;
  std::int32_t buffer;
  std::int64_t rows, columns;  // what is expected
};

// A product for a message: the nearest int64 where it does not fit (no extent can be that large and have
// memory).
std::int64_t saturated(std::initializer_list<std::int64_t> extents) {
  return product(extents).value_or(INT64_MAX);
}

Verdict indivisible(std::int32_t buffer, std::int32_t axis, std::int64_t found, std::int64_t divisor) {
  return verdict_of(SINKTRAP_INDIVISIBLE, buffer, axis, found, divisor);
}

Verdict check_adapter(const sinktrap_adapter& a, DLDataType dtype, const PoolView& p) {
  const std::int64_t r = a.rank, copies = a.per_expert != 0 ? p.n : 1;
  const Factor factors[] = {
      {"gate_a", a.gate_a, SINKTRAP_BUFFER_GATE_UP_LORA_A, saturated({copies, r}), p.H},
      {"up_a", a.up_a != nullptr ? a.up_a : a.gate_a, SINKTRAP_BUFFER_GATE_UP_LORA_A, saturated({copies, r}),
       p.H},
      {"gate_up_b", a.gate_up_b, SINKTRAP_BUFFER_GATE_UP_LORA_B, saturated({p.n, 2, p.F, a.tp_size}), r},
      {"down_a", a.down_a, SINKTRAP_BUFFER_DOWN_LORA_A, r, saturated({p.n, p.F, a.tp_size})},
      {"down_b", a.down_b, SINKTRAP_BUFFER_DOWN_LORA_B, saturated({copies, p.H}), r},
  };
  for (const Factor& f : factors)
    if (std::string problem = form_problem(f.name, f.tensor, 2, dtype); !problem.empty())
      return refuse_argument(std::move(problem), f.buffer, SINKTRAP_NONE, 0, 0);
  if (r > p.R) return verdict_of(SINKTRAP_RANK_EXCEEDED, SINKTRAP_NONE, SINKTRAP_NONE, r, p.R);
  if (a.per_expert != 0 && p.outer == 1 && p.n > 1) return verdict_of(SINKTRAP_LAYOUT_MISMATCH);

  const std::int64_t rows = a.gate_up_b->shape[0], columns = a.down_a->shape[1];
  if (rows % (2 * p.n) != 0) return indivisible(SINKTRAP_BUFFER_GATE_UP_LORA_B, 0, rows, 2 * p.n);
  if (columns % p.n != 0) return indivisible(SINKTRAP_BUFFER_DOWN_LORA_A, 1, columns, p.n);
  const std::int64_t F_all = rows / (2 * p.n);
  if (F_all % a.tp_size != 0) return indivisible(SINKTRAP_BUFFER_GATE_UP_LORA_B, 0, F_all, a.tp_size);
  for (const Factor& f : factors) {
    const std::int64_t expected[] = {f.rows, f.columns};
    for (int axis = 0; axis < 2; ++axis)
      if (f.tensor->shape[axis] != expected[axis])
        return refuse_argument(std::string(f.name) + ": extent does not fit the pool", f.buffer, axis,
                               f.tensor->shape[axis], expected[axis]);
  }
  return verdict_of(SINKTRAP_OK);
}

}  // namespace

void Instance::zero_slot(std::int64_t slot) {
  for (std::size_t b = 0; b < SINKTRAP_BUFFER_COUNT; ++b) {
    const auto& extent = pool_.extents[b];
    const std::int64_t bytes = extent[1] * extent[2] * extent[3] * element_bytes(type_);
    require_device(device_fill(static_cast<char*>(pool_.buffers[b]) + slot * bytes, 0,
                               static_cast<std::uint64_t>(bytes)));
  }
  require_device(device_synchronise());
}

Verdict Instance::load(std::int64_t slot, const sinktrap_adapter* a) {
  if (const Verdict v = slot_problem(slot); v.code != SINKTRAP_OK) return v;
  if (a == nullptr || a->struct_size < sizeof(sinktrap_adapter))
    return refuse_argument("load: adapter missing, or of an older interface");
  if (a->tp_size < 1 || a->tp_rank < 0 || a->tp_rank >= a->tp_size)
    return refuse_argument("load: tp_rank is outside 0..tp_size-1");
  if (a->rank < 0) return refuse_argument("load: negative rank");
  if (a->rank == 0) {
    zero_slot(slot);
    return verdict_of(SINKTRAP_OK);
  }
  const PoolView p = view(pool_);
  if (const Verdict v = check_adapter(*a, dtype_, p); v.code != SINKTRAP_OK) return v;
  AdapterView v{};
  v.n = n_;
  v.H = H_;
  v.F = F_;
  v.R = p.R;
  v.outer = p.outer;
  v.slot = slot;
  v.r = a->rank;
  v.F_all = F_ * a->tp_size;
  v.first_feature = F_ * a->tp_rank;
  v.per_expert = a->per_expert != 0 && p.outer == n_;
  v.scaling = a->scaling;
  v.gate_a = elements(*a->gate_a);
  v.up_a = elements(a->up_a != nullptr ? *a->up_a : *a->gate_a);
  v.gate_up_b = elements(*a->gate_up_b);
  v.down_a = elements(*a->down_a);
  v.down_b = elements(*a->down_b);
  for (std::size_t b = 0; b < SINKTRAP_BUFFER_COUNT; ++b) v.pool[b] = pool_.buffers[b];
  require_device(load_slot(v, type_));
  return verdict_of(SINKTRAP_OK);
}

Verdict Instance::unload(std::int64_t slot) {
  if (const Verdict v = slot_problem(slot); v.code != SINKTRAP_OK) return v;
  zero_slot(slot);
  return verdict_of(SINKTRAP_OK);
}

}  // namespace sinktrap::cuda_impl::SINKTRAP_TARGET
