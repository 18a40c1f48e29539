// libFuzzer's custom mutator and crossover, for the targets whose inputs are lines.
#include <algorithm>
#include <cstring>
#include <utility>

#include "fuzz/mutate.hpp"
#include "fuzz/protocol.hpp"
#include "fuzz/targets.hpp"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

using namespace sinktrap;
using namespace sinktrap::fuzz;

// fuzz_case_text prints and parses whatever the extents: sizes that a line could name.
constexpr CaseSizes kAnySize = {1 << 10, 1 << 12, 1 << 12, 1 << 8, 40, 64, 64, 64};

const CaseSizes& sizes() {
  static const CaseTarget* const target = find_case_target(kTarget);
  return target != nullptr ? target->sizes : kAnySize;
}
const std::vector<std::string_view>& kinds() {
  static const CaseTarget* const target = find_case_target(kTarget);
  static const std::vector<std::string_view> any;
  return target != nullptr ? target->kinds : any;
}
const MutatorShares& shares() {
  static const MutatorShares of_target = shares_of(kTarget);
  return of_target;
}
std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}
std::size_t put(const std::string& line, std::uint8_t* data, std::size_t max_size) {
  if (line.empty() || line.size() > max_size) return 0;
  std::memcpy(data, line.data(), line.size());
  return line.size();
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned int seed) {
  Random random(seed);
  const std::uint32_t turn = random.below(16);
  std::size_t made = 0;
  if (mutator_is_on() && turn >= shares().bytes)
    made = put(
        turn < shares().bytes + shares().fields
            ? changed_fields(text_of(data, size), random)
            : new_line(changed_line(text_of(data, size), random, sizes(), kinds()), random, sizes(), kinds()),
        data, max_size);
  return made > 0 ? made : LLVMFuzzerMutate(data, size, max_size);
}

extern "C" std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* a, std::size_t a_size,
                                                 const std::uint8_t* b, std::size_t b_size, std::uint8_t* out,
                                                 std::size_t max_size, unsigned int seed) {
  Random random(seed);
  const std::uint32_t turn = random.below(16);
  if (mutator_is_on() && turn >= shares().bytes) {
    auto line = crossed_line(text_of(a, a_size), text_of(b, b_size), random, sizes());
    // Half of all mutations are crossings, and what is cut together from a case and a refused line is
    // refused.
    if (!line && turn >= shares().bytes + shares().fields)
      line = changed_line(text_of(a, a_size), random, sizes(), kinds());
    if (line)
      if (const std::size_t made = put(new_line(std::move(*line), random, sizes(), kinds()), out, max_size))
        return made;
  }
  // As libFuzzer does without this function: the beginning of one, the end of the other.
  const std::size_t head =
      std::min<std::size_t>(random.below(static_cast<std::uint32_t>(a_size) + 1), max_size);
  const std::size_t from = random.below(static_cast<std::uint32_t>(b_size) + 1);
  const std::size_t tail = std::min(b_size - from, max_size - head);
  std::copy_n(a, head, out);
  std::copy_n(b + from, tail, out + head);
  return head + tail;
}
