// The operations of CONTRACT.md sections 3 and 4 on host memory, without state: derived operands, loading and
// unloading a slot, tensor-parallel shards, expansion and collapse of outer factors.
#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>

#include "contract/tensor.hpp"
#include "contract/verdict.hpp"

namespace sinktrap::reference {

// Where tensors have to be: the device of the reference's tables.
constexpr DLDevice kHost = {kDLCPU, 0};
bool on_host(DLDevice device);

// A pool whose four buffers have been validated: extents, storage type and memory, in the names of section 1.
struct Pool {
  std::int64_t S = 0, n = 1, outer = 1, R = 0, H = 1, F = 1;
  Element type = Element::bf16;
  std::array<char*, SINKTRAP_BUFFER_COUNT> data{};  // row-major contiguous

  // Bytes of one slot of a buffer.
  std::int64_t slot_bytes(int buffer) const;
};

// Reads the extents of four buffers that have passed strict validation.
Pool pool_of(const DLTensor buffers[SINKTRAP_BUFFER_COUNT]);

// A host array that may be read and written as typed memory: these extents, this type, contiguous, host
// device, aligned, not null unless empty, below 2^63 bytes. An extent of -1 fits any extent >= 0.
bool is_array(const DLTensor* t, Element type, std::initializer_list<std::int64_t> expected);

// `slot_range` for an id outside a pool of so many slots.
Verdict slot_range(std::int64_t id, std::int64_t slots);

// Derived operands of one slot (section 3), written at the slot's place in the whole operand.
// w1_delta: [S, n*2F, 2R]; a_cat: [S, R, n*F], shared-outer only; b_cat: [S, H, n*R], per-expert only.
void derive_w1_delta(const Pool& pool, std::int64_t slot, char* w1_delta);
void derive_a_cat(const Pool& pool, std::int64_t slot, char* a_cat);
void derive_b_cat(const Pool& pool, std::int64_t slot, char* b_cat);

// Writes one adapter into a slot; F of the pool is that of the tensor-parallel rank. Verdicts and their
// order: section 4, "Precedence in load", from `slot_range` on. r = 0 zeroes the slot and does not look at
// the factors.
Verdict load_slot(const Pool& pool, std::int64_t slot, const sinktrap_adapter* adapter);
// Zeroes a slot. `slot_range`.
Verdict unload_slot(const Pool& pool, std::int64_t slot);

// Cuts rank tp_rank of tp_size out of four whole buffers into four that hold F / tp_size features.
// `argument` (rank, size, or whole buffers that strict validation refuses), `indivisible`, `argument` (shard
// buffers).
Verdict shard_pool(const DLTensor* full, std::int64_t tp_rank, std::int64_t tp_size, const DLTensor* shard);

// One outer factor, [S, 1, a, b] to [S, n, a, b]: `argument` where the two do not fit.
Verdict expand_outer(const DLTensor* shared, std::int32_t buffer, const DLTensor* per_expert);
// And back: `argument`, then `not_collapsible` (found the first expert that differs) unless the n copies are
// bit-identical.
Verdict collapse_outer(const DLTensor* per_expert, std::int32_t buffer, const DLTensor* shared);

}  // namespace sinktrap::reference
