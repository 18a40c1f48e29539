// What there is to choose: random legal choices and the list of faults.
#include "contract/verdict.hpp"
#include "zoo/zoo.hpp"

namespace sinktrap::zoo {

Choice random_choice(Random& random, bool absolute) {
  Choice c;
  for (Summation& s : c.sums) {
    s = legal_summations()[random.below(static_cast<std::uint32_t>(legal_summations().size()))];
    s.order = static_cast<Summation::Order>(random.below(3));
  }
  const std::uint32_t any = static_cast<std::uint32_t>(random.next()) & SINKTRAP_ALL_SEAMS;
  const std::uint32_t sets[] = {0, SINKTRAP_ALL_SEAMS, any};
  c.seams = sets[random.below(3)];
  c.silu = static_cast<Silu>(random.below(absolute ? kSilus : kSilus - 1));
  c.factors = random.between(0, 2);
  c.one_accumulator = random.chance(1, 2);
  c.experts_in_one = random.chance(1, 2);
  c.experts_reversed = random.chance(1, 2);
  c.delta_summed_first = random.chance(1, 2);
  c.flush = random.chance(1, 4);
  c.skip_zeros = random.chance(1, 4);
  c.shuffle = random.next();
  return c;
}

Choice plain_choice(std::uint32_t seams) {
  Choice c;
  c.seams = seams;
  return c;
}

std::string choice_text(const Choice& c) {
  std::string text = "seams " + std::string(seams_to_text(c.seams)) + " sums";
  for (int i = 0; i < kSums; ++i) {
    const Summation& s = c.sums[static_cast<std::size_t>(i)];
    text += " " + std::to_string(static_cast<int>(s.kind)) + "/" + std::to_string(static_cast<int>(s.order)) +
            "/" + std::to_string(s.width);
  }
  return text + " silu " + std::to_string(static_cast<int>(c.silu)) + " factors " +
         std::to_string(c.factors) + (c.one_accumulator ? " one accumulator" : "") +
         (c.experts_in_one ? " experts in one" : "") + (c.experts_reversed ? " reversed" : "") +
         (c.delta_summed_first ? " summed first" : "") + (c.flush ? " flush" : "") +
         (c.skip_zeros ? " skip zeros" : "");
}

std::span<const WrongRow> wrongs() {
  static constexpr WrongRow kRows[] = {
      {Wrong::hard_swish, "hard-swish", "silu replaced by z clamp(z/6 + 1/2, 0, 1)"},
      {Wrong::gelu, "GELU", "silu replaced by GELU (tanh form)"},
      {Wrong::quick_gelu, "quick-GELU", "silu replaced by z sigmoid(1.702 z)"},
      {Wrong::gamma_inside_silu, "gamma inside silu", "z sigmoid(z gamma) up in place of silu(z) up gamma"},
      {Wrong::storage_accumulation, "storage accumulation", "all sums accumulate in the storage type"},
      {Wrong::bridge_rounded_each, "bridge rounded each",
       "the shared down bridge is rounded for each expert"},
      {Wrong::experts_summed_stored, "experts summed stored", "experts are added in the storage type"},
      {Wrong::scaled_down_delta, "1.05 scaling", "the down delta times 1.05"},
      {Wrong::last_hidden_column_lost, "last K element dropped", "sums over H lose their last column"},
      {Wrong::last_feature_lost, "last feature dropped", "sums over F lose their last feature"},
      {Wrong::last_token_delta_lost, "one token's delta missing",
       "the last adapted token is served by the base model"},
      {Wrong::halves_swapped, "swapped halves", "gate and up rows of gate_up_lora_b exchanged"},
  };
  return kRows;
}

}  // namespace sinktrap::zoo
