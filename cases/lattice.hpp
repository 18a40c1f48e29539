// The lattice: inputs on which every legal implementation computes without any rounding (CONTRACT.md section
// 6).
//
// How it is built, before a final change of units by powers of two:
//  - Tokens fall into at most 12 classes; x[t] is the integer pattern of its class times 1 or 2. Every weight
//  row of
//    w13 and gate_up_lora_a is drawn at random and then closed so that its product with each class is the
//    integer that the plan asks for (lattice_pattern.hpp). The bridges are such patterns too, and
//    gate_up_lora_b is closed on them.
//  - Gates are 64 m / z with m in z..7z or -7z..-2z, so silu is the identity or zero; up is odd and at
//  most 3.
//  - Features fall into groups of equal |act|. w2 and down_lora_a have large weights that cancel inside each
//  group, and
//    a few weights of +-1 on top, the nets: the outputs are sums of few activations, narrow enough for the
//    storage type, while the sums that lead to them swing widely (lattice_plan.hpp, lattice_down.cpp).
//  - One output row is a witness: what it shows of a token differs from what the base model shows, whatever
//  the slot.
#pragma once
#include "cases/inputs.hpp"

namespace sinktrap {

// Fills all tensors of `in`, which are zero and of the case's shapes. Every case that make_inputs accepts is
// certified by reference::certify, and so is each of its `tp` shards of the features.
void fill_lattice(const ForwardCase& c, ForwardInputs& in);

}  // namespace sinktrap
