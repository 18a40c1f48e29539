#include "cuda_impl/host/reshape.hpp"

#include "cuda_impl/host/tensors.hpp"
#include "cuda_impl/host/validation.hpp"

namespace sinktrap::cuda_impl::SINKTRAP_TARGET {
namespace {

// A pair of outer factors that fit each other.
struct OuterPair {
  std::string problem;
  std::int64_t S = 0, n = 0, block = 0, bytes = 0;  // block: elements of one expert of one slot
};

OuterPair read_pair(const DLTensor* shared, const DLTensor* per_expert, std::int32_t buffer) {
  OuterPair pair;
  const auto bad = [&pair](std::string why) {
    pair.problem = std::move(why);
    return pair;
  };
  if (buffer != SINKTRAP_BUFFER_GATE_UP_LORA_A && buffer != SINKTRAP_BUFFER_DOWN_LORA_B)
    return bad("only gate_up_lora_a and down_lora_b are outer factors");
  if (per_expert == nullptr || per_expert->ndim != 4 || per_expert->shape == nullptr)
    return bad("per-expert factor: needs 4 axes");
  const auto type = storage_type(per_expert->dtype);
  if (!type) return bad("per-expert factor: not a storage type");
  if (std::string why = form_problem("per-expert factor", per_expert, 4, per_expert->dtype); !why.empty())
    return bad(std::move(why));
  const std::int64_t* extent = per_expert->shape;
  for (int axis = 0; axis < 4; ++axis)
    if (extent[axis] < 1) return bad("per-expert factor: an extent below 1");
  if (std::string why =
          tensor_problem("shared factor", shared, {extent[0], 1, extent[2], extent[3]}, per_expert->dtype);
      !why.empty())
    return bad(std::move(why));
  pair.S = extent[0];
  pair.n = extent[1];
  pair.block = extent[2] * extent[3];
  pair.bytes = element_bytes(*type);
  return pair;
}

}  // namespace

Verdict shard_pool(const DLTensor* full, std::int64_t tp_rank, std::int64_t tp_size, const DLTensor* shard) {
  if (full == nullptr || shard == nullptr) return refuse_argument("shard: missing buffers");
  if (tp_size < 1 || tp_rank < 0 || tp_rank >= tp_size)
    return refuse_argument("shard: tp_rank is outside 0..tp_size-1");
  const DLTensor& gate_up_b = full[SINKTRAP_BUFFER_GATE_UP_LORA_B];
  if (gate_up_b.ndim != 4 || gate_up_b.shape == nullptr)
    return refuse_argument("shard: whole buffers are not 4-D");
  const std::int64_t n = gate_up_b.shape[1];
  if (const Verdict v = validate_buffers(n, SINKTRAP_ANY, SINKTRAP_ANY, full); v.code != SINKTRAP_OK)
    return refuse_argument("shard: whole buffers: " + verdict_to_text(v));
  const DLTensor& gate_up_a = full[SINKTRAP_BUFFER_GATE_UP_LORA_A];
  if (encode_device(gate_up_a.device) != encode_device(kDevice))
    return refuse_argument("shard: whole buffers are not on the implementation's device");
  const std::int64_t S = gate_up_a.shape[0], outer = gate_up_a.shape[1], H = gate_up_a.shape[3];
  const std::int64_t R = gate_up_b.shape[3], F = gate_up_b.shape[2] / 2;
  if (F % tp_size != 0)
    return verdict_of(SINKTRAP_INDIVISIBLE, SINKTRAP_BUFFER_GATE_UP_LORA_B, 2, F, tp_size);

  const std::int64_t F_shard = F / tp_size, first = tp_rank * F_shard;
  const DLDataType dtype = gate_up_a.dtype;
  const std::int64_t extents[SINKTRAP_BUFFER_COUNT][4] = {
      {S, outer, 2 * R, H}, {S, n, 2 * F_shard, R}, {S, n, R, F_shard}, {S, outer, H, R}};
  DLTensor target[SINKTRAP_BUFFER_COUNT];
  for (int b = 0; b < SINKTRAP_BUFFER_COUNT; ++b) {
    const auto& e = extents[b];
    target[b] = shard[b];
    const std::string name{buffer_name(b)};
    if (std::string why =
            tensor_problem(("shard of " + name).c_str(), &target[b], {e[0], e[1], e[2], e[3]}, dtype);
        !why.empty())
      return refuse_argument(std::move(why));
  }
  const std::int64_t bytes = element_bytes(*storage_type(dtype));
  for (int b : {SINKTRAP_BUFFER_GATE_UP_LORA_A, SINKTRAP_BUFFER_DOWN_LORA_B})
    require_device(device_copy(
        elements(target[b]), elements(full[b]),
        static_cast<std::uint64_t>(extents[b][0] * extents[b][1] * extents[b][2] * extents[b][3] * bytes)));
  require_device(shard_gate_up(elements(gate_up_b), elements(target[SINKTRAP_BUFFER_GATE_UP_LORA_B]),
                               S * n * 2, F, R, F_shard, first, bytes));
  require_device(shard_down(elements(full[SINKTRAP_BUFFER_DOWN_LORA_A]),
                            elements(target[SINKTRAP_BUFFER_DOWN_LORA_A]), S * n * R, F, F_shard, first,
                            bytes));
  require_device(device_synchronise());
  return verdict_of(SINKTRAP_OK);
}

Verdict expand_factor(const DLTensor* shared, std::int32_t buffer, const DLTensor* per_expert) {
  OuterPair pair = read_pair(shared, per_expert, buffer);
  if (!pair.problem.empty()) return refuse_argument("expand: " + pair.problem);
  DLTensor target = *per_expert;
  require_device(expand_outer(elements(*shared), elements(target), pair.S, pair.n, pair.block, pair.bytes));
  require_device(device_synchronise());
  return verdict_of(SINKTRAP_OK);
}

Verdict collapse_factor(const DLTensor* per_expert, std::int32_t buffer, const DLTensor* shared) {
  OuterPair pair = read_pair(shared, per_expert, buffer);
  if (!pair.problem.empty()) return refuse_argument("collapse: " + pair.problem);
  DeviceBuffer result;
  unsigned long long different = ~0ull;
  auto* answer = static_cast<unsigned long long*>(result.reserve(sizeof different));
  require_device(device_write(answer, &different, sizeof different));
  require_device(compare_experts(elements(*per_expert), pair.S, pair.n, pair.block, pair.bytes, answer));
  require_device(device_read(&different, answer, sizeof different));
  if (different != ~0ull) {
    const auto n = static_cast<unsigned long long>(pair.n);
    set_last_error("collapse: slot " + std::to_string(different / n) + ": expert " +
                   std::to_string(different % n) + " differs from expert 0");
    return verdict_of(SINKTRAP_NOT_COLLAPSIBLE, buffer, 1, static_cast<std::int64_t>(different % n), 0);
  }
  const auto slot_bytes = static_cast<std::uint64_t>(pair.block * pair.bytes);
  const auto* from = static_cast<const char*>(elements(*per_expert));
  DLTensor target = *shared;
  auto* to = static_cast<char*>(elements(target));
  for (std::int64_t slot = 0; slot < pair.S; ++slot)
    require_device(device_copy(to + slot * pair.block * pair.bytes,
                               from + slot * pair.n * pair.block * pair.bytes, slot_bytes));
  require_device(device_synchronise());
  return verdict_of(SINKTRAP_OK);
}

}  // namespace sinktrap::cuda_impl::SINKTRAP_TARGET
