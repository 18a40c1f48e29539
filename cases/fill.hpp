// Tensor contents: random fills, the lattice, and hostile values put afterwards.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "cases/inputs.hpp"
#include "cases/random.hpp"

namespace sinktrap {

// The float tensors of a layer. The value is also the stream of the random numbers that fill it.
enum class Role : std::uint8_t {
  gate_up_lora_a,
  gate_up_lora_b,
  down_lora_a,
  down_lora_b,
  w13,
  w2,
  x,
  gammas
};
inline constexpr int kRoles = 8;
inline constexpr std::string_view kRoleNames[kRoles] = {
    "gate_up_lora_a", "gate_up_lora_b", "down_lora_a", "down_lora_b", "w13", "w2", "x", "gammas"};

Tensor& tensor_of(ForwardInputs& in, Role role);

// Largest finite value of a floating type.
double largest_finite(Element type);

// Fills `count` elements from `first` on as `fill` says: normal values with the deviation of that tensor in a
// layer of these dimensions; the same scaled into the subnormal range; values within a factor 2 of the
// largest finite; nothing for zero. Fill::lattice and Fill::sweep give integers of magnitude 1..127 here (the
// factors of an adapter that is only packed).
void fill_run(Tensor& t, std::int64_t first, std::int64_t count, Role role, const Dimensions& d, Fill fill,
              Random& random);

// Fills all tensors of a layer by `fill` (not the lattice). Subnormal and huge values go into a random,
// nonempty set of tensors; the others are dense, so that products neither all vanish nor all overflow.
void fill_random(const ForwardCase& c, ForwardInputs& in);

// Fills all tensors of `in`, which are zero and of the case's shapes, with the lattice (lattice_plan.hpp
// tells how). Every case that make_inputs accepts is certified by reference::certify, and so is each of its
// `tp` shards of the features; an adapter of a rank above 0 changes the output of every token that uses it.
void fill_lattice(const ForwardCase& c, ForwardInputs& in);

// Fills all tensors of `in`, which are zero and of the case's shapes, with the sweep:
// reference::sweep_interval accepts every case that make_inputs accepts.
void fill_sweep(const ForwardCase& c, ForwardInputs& in);

// The part of a pool buffer that an adapter of rank r fills: for slot s, calls run(first, count) for each
// contiguous stretch of elements (CONTRACT.md section 1); everything else in the slot is zero. All four
// buffers are [S, middle, R, tail] for some middle and tail.
template <class Run>
void for_rank_runs(const Tensor& buffer, Role role, std::int64_t R, std::int64_t s, std::int64_t r, Run run) {
  const bool rank_is_last = role == Role::gate_up_lora_b || role == Role::down_lora_b;
  const std::int64_t tail = rank_is_last ? 1 : buffer.extent(3);
  const std::int64_t slot_size = buffer.extent(1) * buffer.extent(2) * buffer.extent(3);
  for (std::int64_t first = s * slot_size; first < (s + 1) * slot_size; first += R * tail)
    run(first, r * tail);
}

// Puts one hostile value. Throws std::invalid_argument when the tensor's name, the number of indices or an
// index is not of this layer.
void apply_put(const Put& put, ForwardInputs& in);

}  // namespace sinktrap
