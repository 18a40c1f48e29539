#include "judge/stage.hpp"

namespace sinktrap {

const std::array<StageRow, kStages>& stages() {
  static constexpr std::array<StageRow, kStages> kRows = {{
      {Stage::memory, "memory", "memory",
       "a call writes what it must not write, or leaves unwritten what it has to write"},
      {Stage::crash, "crash", "crash", "a call does not return"},
      {Stage::validation, "validation", "validation", "verdicts on layouts (section 2)"},
      {Stage::arguments, "arguments", "arguments", "what forward says about its own arguments (section 3)"},
      {Stage::binding, "binding", "binding", "bind, and the operands that it derives (section 3)"},
      {Stage::update, "update", "update", "deriving a slot again (section 3)"},
      {Stage::loading, "loading", "loading", "an adapter into a slot, or out of it (section 4)"},
      {Stage::sharding, "sharding", "sharding", "shard, expand, collapse (sections 2 and 4)"},
      {Stage::repeatability, "repeatability", "repeatability",
       "the same call gives another result: a second time, or beside another layer"},
      {Stage::routing, "routing", "routing",
       "a token gets another slot's adapter, or looks at what is not its own"},
      {Stage::base_product, "base_product", "base product", "w13 . x"},
      {Stage::activation, "activation", "activation", "silu, its product with up, act"},
      {Stage::gamma, "gamma", "gamma", "the weights of the experts"},
      {Stage::down_sum, "down_sum", "down sum", "w2 . act, summed over the experts"},
      {Stage::store, "store", "store", "the final rounding of out"},
      {Stage::gate_up_delta, "gate_up_delta", "gate/up delta", "the bridges and gate/up B"},
      {Stage::down_delta, "down_delta", "down delta", "the down bridge and down B"},
      {Stage::deltas, "deltas", "both deltas", "gate/up delta and down delta, each without the other"},
      {Stage::nowhere, "nowhere", "nowhere alone", "every part by itself is right on this case"},
  }};
  return kRows;
}

std::optional<Stage> find_stage(std::string_view id) {
  for (const StageRow& row : stages())
    if (row.id == id && row.stage != Stage::nowhere) return row.stage;
  return std::nullopt;
}

}  // namespace sinktrap
