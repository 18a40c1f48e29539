// Changes of inputs that know what an input is; mutator.cpp gives them to libFuzzer.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "cases/random.hpp"
#include "properties/neighbours.hpp"

namespace sinktrap::fuzz {

// How often, out of 16 mutations, bytes are changed without knowing what they mean, or one key=value field as
// text; the others change a typed value. Bytes and fields are what the parsers' refusals are tested with.
struct MutatorShares {
  std::uint32_t bytes, fields;
};
MutatorShares shares_of(std::string_view target);

// The line of a neighbour, one to four typed changes away (properties/neighbours.hpp). A line that is no
// case, or is larger than `sizes`, gives a starting case of a random kind of `kinds` (empty: of any).
std::string changed_line(std::string_view line, Random& random, const CaseSizes& sizes,
                         const std::vector<std::string_view>& kinds);
// Both lines as one case; empty when they are not two cases of a kind.
std::optional<std::string> crossed_line(std::string_view a, std::string_view b, Random& random,
                                        const CaseSizes& sizes);

// The line itself, or, where it has been made before, a neighbour that has not: a target's cases are small,
// and left alone a third of the mutations of fuzz_forward were lines that had been judged.
std::string new_line(std::string line, Random& random, const CaseSizes& sizes,
                     const std::vector<std::string_view>& kinds);

// The line with one of its key=value words changed as text: another number, a word left out, twice, or
// elsewhere.
std::string changed_fields(std::string_view line, Random& random);

}  // namespace sinktrap::fuzz
