// Operations on pools without an instance: tensor-parallel shards, and expansion and collapse of outer
// factors (CONTRACT.md sections 2 and 4). All throw DeviceFailure when the device fails.
#pragma once
#include "cuda_impl/host/device_buffer.hpp"

namespace sinktrap::cuda_impl::SINKTRAP_TARGET {

// `argument` (rank, size, or whole buffers that strict validation refuses), `indivisible`, `argument` (shard
// buffers).
Verdict shard_pool(const DLTensor* full, std::int64_t tp_rank, std::int64_t tp_size, const DLTensor* shard);

// [S, 1, a, b] -> [S, n, a, b] of gate_up_lora_a or down_lora_b; n is the second extent of `per_expert`.
Verdict expand_factor(const DLTensor* shared, std::int32_t buffer, const DLTensor* per_expert);
// And back. not_collapsible: last_error names the first slot and expert that differ; nothing is written.
Verdict collapse_factor(const DLTensor* per_expert, std::int32_t buffer, const DLTensor* shared);

}  // namespace sinktrap::cuda_impl::SINKTRAP_TARGET
