#include "cuda_impl/simt_msan/cases.hpp"

#include <sanitizer/msan_interface.h>

#include <vector>

#include "cuda_impl/host/scratch.hpp"

namespace sinktrap::cuda_impl::SINKTRAP_TARGET {
namespace {

std::uint64_t size_of(Type type) { return type == Type::f32 ? 4 : 2; }

// 1 and 0.5 by turns, in any of the three types: small enough for every sum.
std::uint32_t pattern(Type type, std::int64_t i) {
  const bool one = i % 3 != 0;
  switch (type) {
    case Type::bf16:
      return one ? 0x3f80 : 0x3f00;
    case Type::f16:
      return one ? 0x3c00 : 0x3800;
    case Type::f32:
      return one ? 0x3f800000 : 0x3f000000;
  }
  return 0;
}

// Device memory of `count` elements, the first `written` of them initialised.
class Elements {
 public:
  Elements(Type type, std::int64_t count, std::int64_t written) {
    const std::uint64_t size = size_of(type);
    auto* at = static_cast<unsigned char*>(buffer_.reserve(static_cast<std::uint64_t>(count) * size));
    for (std::int64_t i = 0; i < written; ++i) {
      const std::uint32_t bits = pattern(type, i);
      require_device(device_write(at + static_cast<std::uint64_t>(i) * size, &bits, size));
    }
  }
  Elements(Type type, std::int64_t count) : Elements(type, count, count) {}
  void* get() const { return buffer_.get(); }

 private:
  DeviceBuffer buffer_;
};

bool run(Kernel kernel, const ForwardView& v) {
  switch (kernel) {
    case Kernel::ordered:
      return run_ordered(v);
    case Kernel::tiled:
      return run_tiled(v);
    case Kernel::mma:
      return run_mma(v);
    case Kernel::decode:
      return run_decode(v);
  }
  return false;
}

}  // namespace

bool run_forward_case(const MsanCase& c) {
  device_schedule(c.schedule);
  const std::int64_t outer = c.per_expert ? c.n : 1, slots = c.S - 1;
  const Elements w13(c.type, c.n * 2 * c.F * c.H), w2(c.type, c.n * c.H * c.F);
  const Elements x(c.type, c.T * c.H), gammas(c.gammas_f32 ? Type::f32 : c.type, c.T * c.n);
  const Elements out(c.type, c.T * c.H, 0);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(c.T), -1);
  if (c.R > 0)
    for (std::size_t t = 0; t < tokens.size(); ++t)
      tokens[t] = static_cast<std::int32_t>(static_cast<std::int64_t>(t * 5) % c.S) - 1;
  DeviceBuffer ids;
  ids.reserve(tokens.size() * 4);
  require_device(device_write(ids.get(), tokens.data(), tokens.size() * 4));

  ForwardView v{};
  v.T = c.T, v.n = c.n, v.H = c.H, v.F = c.F, v.R = c.R, v.outer = c.R > 0 ? outer : 1;
  v.type = c.type, v.contiguous_w13 = c.contiguous_w13, v.gammas_f32 = c.gammas_f32;
  v.seams = c.kernel == Kernel::ordered ? SINKTRAP_ALL_SEAMS : 0;
  v.w13 = w13.get(), v.w2 = w2.get(), v.x = x.get(), v.gammas = gammas.get(), v.out = out.get();
  v.token_slot = static_cast<const std::int32_t*>(ids.get());

  const std::int64_t counts[] = {outer * 2 * c.R * c.H, c.n * 2 * c.F * c.R, c.n * c.R * c.F,
                                 outer * c.H * c.R};
  const Elements pool[] = {Elements(c.type, c.S * counts[0], 0), Elements(c.type, c.S * counts[1], 0),
                           Elements(c.type, c.S * counts[2], 0), Elements(c.type, c.S * counts[3], 0)};
  const Elements w1(c.type, c.S * 2 * counts[1], 0),
      cat(c.type, c.S * (outer == 1 ? counts[2] : counts[3]), 0);
  const Elements factors[] = {Elements(c.type, outer * c.R * c.H), Elements(c.type, outer * c.R * c.H),
                              Elements(c.type, counts[1]), Elements(c.type, counts[2]),
                              Elements(c.type, counts[3])};
  if (c.R > 0) {
    v.pool = {c.S, outer, c.n, c.H, c.F, c.R, {}, w1.get(), nullptr, nullptr};
    (outer == 1 ? v.pool.a_cat : v.pool.b_cat) = cat.get();
    AdapterView a{};
    a.n = c.n, a.H = c.H, a.F = c.F, a.R = c.R, a.outer = outer, a.F_all = c.F, a.scaling = 0.5f;
    a.per_expert = c.per_expert;
    a.gate_a = factors[0].get(), a.up_a = factors[1].get(), a.gate_up_b = factors[2].get();
    a.down_a = factors[3].get(), a.down_b = factors[4].get();
    for (int b = 0; b < SINKTRAP_BUFFER_COUNT; ++b) v.pool.buffers[b] = a.pool[b] = pool[b].get();
    for (std::int64_t slot = 0; slot < slots; ++slot) {
      a.slot = slot;
      a.r = slot % 2 == 0 ? c.R : c.R - 1;
      if (!load_slot(a, c.type)) return false;
    }
    // Of all slots, as bind does: what is copied from the unwritten one stays uninitialised.
    for (std::int64_t slot = 0; slot < c.S; ++slot)
      if (!derive_slot(v.pool, slot, static_cast<std::int64_t>(size_of(c.type)))) return false;
  }
  // The scratch is not filled: NaNs would count as initialised.
  DeviceBuffer scratch;
  const ScratchPlan plan(c.kernel, v);
  plan.place(plan.groups(c.T), scratch, v);
  if (!run(c.kernel, v)) return false;
  __msan_check_mem_is_initialized(out.get(), static_cast<std::size_t>(c.T * c.H) * size_of(c.type));
  return true;
}

bool run_pool_kernels() {
  device_schedule(0);
  constexpr std::int64_t kS = 2, kN = 3, kF = 6, kR = 2, kBlock = 10;
  for (Type type : {Type::bf16, Type::f32}) {
    const auto bytes = static_cast<std::int64_t>(size_of(type));
    const Elements full(type, kS * kN * 2 * kF * kR), shard(type, kS * kN * kF * kR, 0);
    if (!shard_gate_up(full.get(), shard.get(), kS * kN * 2, kF, kR, kF / 2, kF / 2, bytes) ||
        !shard_down(full.get(), shard.get(), kS * kN * kR, kF, kF / 2, 0, bytes))
      return false;
    __msan_check_mem_is_initialized(shard.get(), static_cast<std::size_t>(kS * kN * kF * kR * bytes));
    const Elements shared(type, kS * kBlock), expanded(type, kS * kN * kBlock, 0);
    unsigned long long different = ~0ull;
    DeviceBuffer answer;
    answer.reserve(sizeof different);
    require_device(device_write(answer.get(), &different, sizeof different));
    if (!expand_outer(shared.get(), expanded.get(), kS, kN, kBlock, bytes) ||
        !compare_experts(expanded.get(), kS, kN, kBlock, bytes,
                         static_cast<unsigned long long*>(answer.get())))
      return false;
    require_device(device_read(&different, answer.get(), sizeof different));
    if (different != ~0ull) return false;
  }
  // A layout whose buffers are described and not there, and one with a missing shape.
  FlatLayout layouts[2] = {};
  for (FlatLayout& l : layouts) {
    l.n = 2, l.H = 8, l.F = 5, l.shapes_only = 1;
    for (FlatBuffer& b : l.buffers) b.ndim = 4;
  }
  layouts[1].buffers[2].ndim = 0;
  DeviceBuffer flat, verdicts;
  flat.reserve(sizeof layouts);
  auto* judged = static_cast<sinktrap_verdict*>(verdicts.reserve(2 * sizeof(sinktrap_verdict)));
  require_device(device_write(flat.get(), layouts, sizeof layouts));
  if (!judge_layouts(static_cast<const FlatLayout*>(flat.get()), 2, SINKTRAP_PROFILE_STRICT, judged))
    return false;
  __msan_check_mem_is_initialized(judged, 2 * sizeof(sinktrap_verdict));
  return judged[1].code == SINKTRAP_NOT_4D;
}

}  // namespace sinktrap::cuda_impl::SINKTRAP_TARGET
