// Edits of a batch that leave one part of the layer to be judged alone: everything else is made trivial, so
// that a fault there cannot show. Localising (judge/localise.hpp) judges an implementation on them one after
// the other. They keep all shapes and types.
#pragma once
#include "cases/inputs.hpp"

namespace sinktrap::probes {

// All zero; the shape stays.
void zero(Tensor& t);

// Every token in this slot.
void all_slots(ForwardInputs& in, std::int32_t slot);

// Base tokens and a pool of zeros: what is wrong now is wrong without any adapter.
void base_only(ForwardInputs& in);

void equal_gammas(ForwardInputs& in, double value);
// Expert 0 alone, with this weight.
void first_gamma(ForwardInputs& in, double value);
// Half for the first and the last expert, where there are two: gammas whose sum is 1.
void half_gammas(ForwardInputs& in);

// Gates and ups of every expert and feature are `value`, whichever row of w13 is read for which: x has one
// coordinate, w13 one column. From 40 on silu(z) is z (CONTRACT.md section 6).
void even_activations(ForwardInputs& in, double value);

// Behind one of these: expert e has activations, the others have none.
void only_expert(ForwardInputs& in, std::int64_t e);

// Gates and ups of token t are one multiple of 1/4 in [-12, 12], exact in every storage type; `round` chooses
// which. What silu makes of them is not exact.
constexpr int kSweepRounds = 8;
void swept_activations(ForwardInputs& in, int round);

// Every output is feature 0 of the experts (of expert 0 alone), times 1 or a weight of four bits.
enum class Weight : std::uint8_t { one, four_bits };
enum class Experts : std::uint8_t { all, first };
void first_feature_out(ForwardInputs& in, Weight weight, Experts experts);

// w2 of values with as many bits as the storage type has, so that a sum over them rounds at every step; about
// 2^-6, so that f16 holds the sums.
void many_bits_in_w2(ForwardInputs& in);

}  // namespace sinktrap::probes
