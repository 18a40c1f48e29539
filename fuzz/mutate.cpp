#include "fuzz/mutate.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "cases/names.hpp"
#include "fuzz/targets.hpp"

namespace sinktrap::fuzz {
namespace {

constexpr std::array<std::pair<std::string_view, MutatorShares>, 7> kShares = {{
    // Judged cases are what these targets are for; a sixteenth keeps the parser in play.
    {"fuzz_layout", {1, 1}},
    {"fuzz_forward", {1, 1}},
    {"fuzz_state", {1, 1}},
    {"fuzz_pack", {1, 1}},
    // Here refusals are half of what is tested.
    {"fuzz_case_text", {6, 5}},
    {"fuzz_plugin", {2, 14}},
    {"fuzz_safetensors", {16, 0}},
}};

// Where a mutation starts that has no case: the smallest with two of what can be confused. In the order of
// words::kinds.
constexpr std::array<std::string_view, 5> kStarts = {
    "layout n=2 gate_up_lora_a=2x1x6x8 gate_up_lora_b=2x2x10x3 down_lora_a=2x2x3x5 down_lora_b=2x1x8x3",
    "forward T=2 n=2 H=4 F=3 R=2 S=2 slots=0,-1",
    "state n=2 H=4 F=3 R=2 S=2 fill=dense steps=bind:1;update:all;forward:0,1,-1:2",
    "pack n=2 H=4 F=3 R=2 S=2 slot=1 r=1 fill=dense",
    "shard n=2 H=4 F=4 R=2 S=2 tp=2 fill=dense",
};

// Lines that mutations started from, the line by its hash: each is picked again and again, and parsing costs
// more than judging a layout does. Beside `remembered`, which every execution would push them out of.
struct Base {
  std::string line;
  std::optional<Case> value;  // absent: no case
};
constexpr std::size_t kBases = 4096;  // a corpus has hundreds to thousands of lines

// Null for a line that is no case. Valid until `remember`, or the call for another line of the same place.
const Case* case_of(std::string_view line) {
  if (const Case* known = remembered(line)) return known;
  static std::vector<Base>& bases = *new std::vector<Base>(kBases);
  Base& base = bases[hash_of(line) % kBases];
  if (line.empty() || base.line != line) {
    auto parsed = parse_case(line);
    base.line = line;
    base.value.reset();
    if (auto* c = std::get_if<Case>(&parsed)) base.value = std::move(*c);
  }
  return base.value ? &*base.value : nullptr;
}

// Prints a case that the next execution will need.
std::string printed(Case c) {
  std::string line = print_case(c);
  remember(line, std::move(c));
  return line;
}

// Whether a line has been made before, as far as the table goes back; from now on it has.
bool made_before(std::string_view line) {
  constexpr std::size_t kLines = std::size_t{1} << 18;  // 2 MiB; a minute or more of executions
  static std::vector<std::uint64_t>& made = *new std::vector<std::uint64_t>(kLines);
  const std::uint64_t hash = hash_of(line);
  return std::exchange(made[hash % kLines], hash) == hash;
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> list;
  for (std::size_t at = 0; at < line.size() && list.size() < 256;) {
    const std::size_t end = std::min(line.find(' ', at), line.size());
    if (end > at) list.push_back(line.substr(at, end - at));
    at = end + 1;
  }
  return list;
}

// Edges of the types that a parser may read a number into.
std::string other_number(std::string_view digits, Random& random) {
  std::int64_t v = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), v);
  switch (random.below(8)) {
    case 0:
      return std::to_string(kWildExtents[random.below(static_cast<std::uint32_t>(kWildExtents.size()))]);
    case 1:
      return std::to_string(static_cast<std::uint64_t>(1) << random.below(64));
    case 2:
      return "18446744073709551615";
    case 3:
      return std::to_string(random.next());
    case 4:
      return std::to_string(random.below(70));
    default:
      return std::to_string(static_cast<std::int64_t>(static_cast<std::uint64_t>(v) +
                                                      static_cast<std::uint64_t>(random.between(-2, 2))));
  }
}

}  // namespace

MutatorShares shares_of(std::string_view target) {
  const auto* it =
      std::find_if(kShares.begin(), kShares.end(), [&](const auto& row) { return row.first == target; });
  return it == kShares.end() ? MutatorShares{16, 0} : it->second;
}

std::string changed_line(std::string_view line, Random& random, const CaseSizes& sizes,
                         const std::vector<std::string_view>& kinds) {
  const Case* base = case_of(line);
  const bool known = base != nullptr && (kinds.empty() || std::find(kinds.begin(), kinds.end(),
                                                                    case_kind(*base)) != kinds.end());
  if (!known || !within(*base, sizes)) {
    const std::string_view kind = kinds.empty()
                                      ? words::kinds[random.below(5)]
                                      : kinds[random.below(static_cast<std::uint32_t>(kinds.size()))];
    const auto which = std::find(words::kinds.begin(), words::kinds.end(), kind) - words::kinds.begin();
    base = case_of(kStarts[static_cast<std::size_t>(which)]);
  }
  // One change in half of the mutations, two in a quarter: a fault that two changes show is rarely on the
  // way.
  std::uint32_t changes = 1;
  while (changes < 4 && random.chance(1, 2)) ++changes;
  Case c = changed_case(*base, random, sizes);
  while (--changes > 0) c = changed_case(c, random, sizes);
  return printed(std::move(c));
}

std::optional<std::string> crossed_line(std::string_view a, std::string_view b, Random& random,
                                        const CaseSizes& sizes) {
  const Case *first = case_of(a), *second = case_of(b);
  // The same place: one line twice, or the second has pushed the first out.
  if (first == nullptr || second == nullptr || first == second) return std::nullopt;
  auto crossed = crossed_case(*first, *second, random, sizes);
  if (!crossed) return std::nullopt;
  return printed(std::move(*crossed));
}

std::string new_line(std::string line, Random& random, const CaseSizes& sizes,
                     const std::vector<std::string_view>& kinds) {
  constexpr int kTries = 4;  // all used up by a target that has fewer lines than it makes
  for (int i = 0; i < kTries && made_before(line); ++i) line = changed_line(line, random, sizes, kinds);
  return line;
}

std::string changed_fields(std::string_view line, Random& random) {
  std::vector<std::string_view> list = words_of(line);
  if (list.empty()) return std::string(line);
  const std::size_t i = random.below(static_cast<std::uint32_t>(list.size()));
  std::string changed(list[i]);
  switch (random.below(8)) {
    case 0:
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    case 1:
      list.insert(list.begin() + static_cast<std::ptrdiff_t>(i), list[i]);
      break;
    case 2:
      std::swap(list[i], list[random.below(static_cast<std::uint32_t>(list.size()))]);
      break;
    default: {  // a number in it
      std::vector<std::size_t> starts;
      const auto is_digit = [&](std::size_t at) { return changed[at] >= '0' && changed[at] <= '9'; };
      for (std::size_t at = changed.find('=') + 1; at < changed.size(); ++at)
        if (is_digit(at) && (at == 0 || !is_digit(at - 1))) starts.push_back(at);
      if (starts.empty()) break;
      const std::size_t from = starts[random.below(static_cast<std::uint32_t>(starts.size()))];
      std::size_t to = from;
      while (to < changed.size() && is_digit(to)) ++to;
      changed.replace(from, to - from,
                      other_number(std::string_view(changed).substr(from, to - from), random));
      list[i] = changed;
    }
  }
  std::string text;
  for (const std::string_view word : list) (text += text.empty() ? "" : " ") += word;
  return text;
}

}  // namespace sinktrap::fuzz
