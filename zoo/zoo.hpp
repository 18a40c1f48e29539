// CONTRACT.md section 5 in f32, with every choice that the contract leaves to an implementation as a
// parameter, and a list of faults that turn it into an illegal one.
#pragma once
#include <array>
#include <string_view>
#include <vector>

#include "cases/inputs.hpp"
#include "zoo/summation.hpp"

namespace sinktrap::zoo {

// A layer, its pool and a batch, decoded; names and shapes of CONTRACT.md section 1.
struct Layer {
  std::int64_t T = 0, n = 1, H = 1, F = 1, R = 1, outer = 1;
  std::int32_t w13_layout = SINKTRAP_W13_INTERLEAVED;
  Element type = Element::bf16;
  std::vector<float> x, gammas, w13, w2;
  std::array<std::vector<float>, SINKTRAP_BUFFER_COUNT> pool;
  std::vector<std::int32_t> token_slot;
};
std::vector<float> decoded(const Tensor& t);
Layer layer_of(const ForwardInputs& in);

// The six sums of section 5.
enum class Sums : std::uint8_t { base_y, gate_up_bridge, gate_up_delta, expert_out, down_bridge, down_delta };
constexpr int kSums = 6;
constexpr std::string_view kSumNames[kSums] = {"base_y",     "gate_up_bridge", "gate_up_delta",
                                               "expert_out", "down_bridge",    "down_delta"};

enum class Silu : std::uint8_t {
  division,    // z / (1 + exp(-z))
  reciprocal,  // z * (1 / (1 + exp(-z)))
  exp2,        // exp(-z) as exp2(-z log2 e), the product rounded to f32
  fast_exp,    // exp by a rounded power of two and a polynomial, within 2^-22 (and the argument's rounding)
  two_sided,   // exp(-|z|), both sides from it
  wide,        // f64
  tanh         // z (1 + tanh(z / 2)) / 2: only in the class `absolute`
};
constexpr int kSilus = 7;
float silu(float z, Silu how);

// Everything that a legal implementation may choose.
struct Choice {
  std::array<Summation, kSums> sums;
  std::uint32_t seams = 0;
  Silu silu = Silu::division;
  int factors = 0;  // (silu up) gamma, silu (up gamma), (silu gamma) up; with the seam product: the first
  bool one_accumulator = false;  // base and delta in one sum where no seam stands between them
  bool experts_in_one = false;   // all experts in one sum, where no seam stands between them
  bool experts_reversed = false;
  bool delta_summed_first = false;  // the outer terms of the down delta are added before their seam
  bool flush = false;               // f32 subnormal results become 0
  bool skip_zeros = false;          // terms with a zero factor are skipped
  std::uint64_t shuffle = 0;        // seed of shuffled sums
};
// Drawn evenly: each sum by itself, seams none, all or any. `absolute`: Silu::tanh may come too.
Choice random_choice(Random& random, bool absolute);
// The ordered arithmetic's own choices with everything in ascending order.
Choice plain_choice(std::uint32_t seams);
// One line, for failures.
std::string choice_text(const Choice& c);

enum class Wrong : std::uint8_t {
  nothing,
  hard_swish,
  gelu,
  quick_gelu,
  gamma_inside_silu,
  storage_accumulation,     // all six sums in the storage type
  bridge_rounded_each,      // the shared down bridge rounded to storage for each expert
  experts_summed_stored,    // experts added in the storage type
  scaled_down_delta,        // times 1.05
  last_hidden_column_lost,  // the last element of every dot product with x
  last_feature_lost,        // the last feature of both down sums
  last_token_delta_lost,    // the last adapted token served by the base model
  halves_swapped,           // gate and up rows of gate_up_lora_b
};
struct WrongRow {
  Wrong wrong;
  std::string_view name, meaning;
};
std::span<const WrongRow> wrongs();

// [T, H], rounded to storage. With Wrong::storage_accumulation the choice's sums do not count.
std::vector<double> forward(const Layer& layer, const Choice& choice, Wrong wrong = Wrong::nothing);

}  // namespace sinktrap::zoo
