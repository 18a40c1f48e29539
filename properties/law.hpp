// A law: a sentence that can be false, the generator of its cases, and the judgement. `run`, ctest and the
// fuzzers all read the one registry.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cases/case.hpp"
#include "judge/implementation.hpp"
#include "judge/status.hpp"

namespace sinktrap {

// The families of generated cases (properties/generators.cpp).
enum class Generator : std::uint8_t {
  layout_shapes,    // shapes only: valid ones, near misses, wild ones
  layout_anything,  // with types, strides, devices and addresses
  layout_valid,     // valid shapes only
  forward_lattice,  // exact inputs
  forward_sharded,  // exact inputs whose F is cut by tp > 1
  forward_shared,   // exact inputs, shared-outer, n > 1
  forward_rows,     // two tokens or more
  forward_unused,   // a slot that no token uses
  forward_dense,    // independently drawn inputs
  forward_limits,   // exact inputs, most extents 1, no or one token
  forward_rich,     // exact or dense; two or more of everything: experts, tokens, slots, ranks
  forward_sweep,    // gates through [-12, 12], all else exact
  forward_hostile,  // every fill, and NaN or infinity at named places
  state,
  pack,
  shard,
};

struct Law {
  std::string_view id;        // short, for --law and test names: "lattice-exact"
  std::string_view sentence;  // what is claimed
  Generator generator;
  std::uint64_t needs;  // capabilities without which the law is skipped, by name
  // True when a case of any origin (corpus, user) can be judged under the law.
  bool (*applies)(const Case&);
  // May throw Stop.
  Judgement (*judge)(const Case&, const Implementation&);
  // Share of the generated cases of a run, relative to the other laws.
  int weight;
  // Writes only those slots of a pool that hold an adapter: a pool of gigabytes of empty slots takes no
  // memory.
  bool sparse = false;
};

// All laws, in the order of CONTRACT.md.
const std::vector<Law>& laws();
const Law* find_law(std::string_view id);

// Why a case is too large to be judged with this many bytes of memory (absent: what the machine has free), or
// empty. What the implementation takes beyond its tensors is its own.
std::string memory_fault(const Law& law, const Case& c, const Implementation& implementation,
                         std::optional<std::int64_t> available = std::nullopt);

// Judges a case under a law: checks capabilities and memory, catches Stop.
Judgement judge_case(const Law& law, const Case& c, const Implementation& implementation);

// The groups that the registry is put together from.
std::vector<Law> layout_laws();
std::vector<Law> forward_laws();
std::vector<Law> hostile_laws();
std::vector<Law> argument_laws();
std::vector<Law> metamorphic_laws();
std::vector<Law> state_laws();
std::vector<Law> pack_laws();

}  // namespace sinktrap
