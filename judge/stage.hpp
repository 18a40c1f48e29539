// The parts of a layer that can be at fault, as localising names them (judge/localise.hpp) and as the list of
// mutants states them (mutants/plain_c/plain_faults.def).
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace sinktrap {

// In the order in which one explains the others: what comes first is looked at first, since a fault there
// shows in everything behind it.
enum class Stage : std::uint8_t {
  memory,
  crash,
  validation,
  arguments,
  binding,
  update,
  loading,
  sharding,
  repeatability,
  routing,
  base_product,
  activation,
  gamma,
  down_sum,
  store,
  gate_up_delta,
  down_delta,
  deltas,
  nowhere,
};
constexpr int kStages = 19;

struct StageRow {
  Stage stage;
  std::string_view id;       // "gate_up_delta"
  std::string_view name;     // "gate/up delta"
  std::string_view meaning;  // one sentence
};
const std::array<StageRow, kStages>& stages();
inline const StageRow& row_of(Stage s) { return stages()[static_cast<std::size_t>(s)]; }
std::optional<Stage> find_stage(std::string_view id);

}  // namespace sinktrap
