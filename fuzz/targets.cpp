#include "fuzz/targets.hpp"

#include <algorithm>
#include <cstring>

namespace sinktrap::fuzz {
namespace {

// Sizes: a fault of layout, of a tail or of an order shows on two or three of everything, and a judgement
// costs what the case has in products; so shapes stay where an execution takes a fraction of a millisecond.
// What needs more (tile edges up to 129, thousands of tokens) is met by the suites, whose cases are not
// mutated. The limits of each target:
//  - n: 3, so that "the first", "the last" and "the other" differ;
//  - H, F: one above the 16 columns of a tensor-core step, where tails begin, in fuzz_forward; the other
//  targets
//    have no tiles;
//  - R, S: 3 or more, so that a rank tail and a slot that is neither first nor last exist;
//  - tokens: more than the slots; steps: a dozen holds bind, two reloads of every slot and a forward after
//  each.
const std::vector<CaseTarget>& targets() {
  static const std::vector<CaseTarget> all = {
      {"fuzz_layout",
       {"layout"},
       {},
       {"strict-is-the-image", "verdicts-agree"},
       // Their edits are what the mutator does, one at a time; they show what only a batch shows.
       {"sglang-is-the-five-checks", "strict-closes-the-holes", "single-axis-changes",
        "limits-have-their-verdict"},
       512,
       {"simt:ordered"},
       false},
      {"fuzz_forward",
       {"forward"},
       {3, 17, 17, 5, 3, 5, 0, 4},
       {"lattice-is-exact", "dense-is-bounded", "sweep-is-silu", "ordered-is-bitwise"},
       {"repeats-bitwise",
        "base-tokens-ignore-the-pool",
        "unused-slots-reach-nothing",
        "rows-do-not-leak",
        "shared-equals-expansion",
        "shards-sum-to-the-whole",
        "hostile-values-stay-on-their-paths",
        "bad-arguments-are-refused",
        "first-bad-slot-is-named",
        "refused-binds-change-nothing",
        "token-order-does-not-matter",
        "slot-labels-do-not-matter",
        "expert-order-does-not-matter",
        "rank-order-does-not-matter",
        "pool-rank-does-not-matter",
        "w13-layout-does-not-matter",
        "batches-concatenate",
        "zero-adapters-are-the-base",
        "down-b-scales",
        "stacked-adapters-add"},
       // Each runs some ten batches of its own: at one execution of 64 they are a twentieth of the time.
       64,
       {"simt:ordered", "simt:tiled", "simt:mma", "simt:decode"},
       true},
      {"fuzz_state",
       {"state"},
       {3, 6, 6, 4, 3, 4, 12, 0},
       {"state-follows-the-model"},
       {},
       1,
       {"simt:ordered", "simt:tiled", "simt:mma", "simt:decode"},
       true},
      {"fuzz_pack",
       {"pack", "shard"},
       {3, 6, 8, 5, 3, 0, 0, 4},
       {"load-leaves-no-trace", "loading-twice-is-loading-once", "unload-zeroes-the-slot",
        "shards-hold-their-features", "collapse-undoes-expansion"},
       // 126 loads on both sides, of faults that the law plants itself: 20 times all others together, and the
       // case adds no more to it than its shapes.
       {"load-refuses-in-order"},
       16,
       {"simt:ordered"},
       false},
  };
  return all;
}

}  // namespace

const CaseTarget* find_case_target(std::string_view name) {
  const auto& all = targets();
  const auto it = std::find_if(all.begin(), all.end(), [&](const CaseTarget& t) { return t.name == name; });
  return it == all.end() ? nullptr : &*it;
}

// FNV-1a, 64 bits, eight bytes at a time.
std::uint64_t hash_of(std::string_view line) {
  std::uint64_t h = 0xcbf29ce484222325;
  const char* at = line.data();
  std::size_t left = line.size();
  while (left > 0) {
    std::uint64_t word = 0;
    const std::size_t n = std::min(left, sizeof word);
    std::memcpy(&word, at, n);
    h = (h ^ word) * 0x100000001b3;
    h ^= h >> 29;
    at += n;
    left -= n;
  }
  return (h ^ line.size()) * 0x9e3779b97f4a7c15 >> 8;
}

namespace {

struct Slot {
  std::string line;
  Case value;
};
// A power of two; a mutation chain has five links, and a few chains pass before a base is met again.
constexpr std::size_t kSlots = 64;
Slot& slot_of(std::string_view line) {
  static std::vector<Slot>& slots = *new std::vector<Slot>(kSlots);
  return slots[hash_of(line) % kSlots];
}

}  // namespace

const Case* remembered(std::string_view line) {
  const Slot& slot = slot_of(line);
  return !line.empty() && slot.line == line ? &slot.value : nullptr;
}

void remember(std::string_view line, Case c) {
  Slot& slot = slot_of(line);
  slot.line = line;
  slot.value = std::move(c);
}

}  // namespace sinktrap::fuzz
