// Primitive suspects: one small thing wrong at one place of the forward pass (an axis read in another order,
// an offset, a stride, a part missing or doubled, another slot, another activation), on top of the
// reference's own partial results. On exact inputs an implementation whose output has the bits of a suspect's
// cannot be told apart from it.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cases/inputs.hpp"
#include "reference/forward.hpp"

namespace sinktrap {

// Where a primitive interferes: in the inputs, or behind the step that makes a stage.
enum class Place : std::uint8_t {
  inputs,
  base_and_bridge,  // base_y, bridge
  delta,            // delta; base_y as well for what is wrong with their sum
  activation,       // act
  expert_out,       // expert_out; act may be another one for the adapter
  down_bridge,
  down_delta,
  out,
};

struct Primitive {
  std::string what;  // "gate_up_lora_b: the two halves are exchanged"
  Place place = Place::inputs;
  std::function<void(ForwardInputs&)> edit;                                  // of Place::inputs
  std::function<void(const ForwardInputs&, reference::Stages&)> edit_stage;  // of the others
};

// About a thousand; their indices are the same in every process of the program.
const std::vector<Primitive>& primitives();

// Parts of the list (gate/suspects_routing.cpp).
void add_activation_primitives(std::vector<Primitive>& list);
void add_routing_primitives(std::vector<Primitive>& list);

// The output of the forward pass with these primitives (indices), rounded once.
Tensor output_with(const ForwardInputs& original, std::span<const int> chosen);

}  // namespace sinktrap
