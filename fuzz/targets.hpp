// The targets whose inputs are case lines: what they judge, on what, and how large a case may be.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "properties/law.hpp"
#include "properties/neighbours.hpp"

namespace sinktrap::fuzz {

struct CaseTarget {
  std::string_view name;
  std::vector<std::string_view> kinds;  // of the cases that are judged; others are parsed and printed only
  CaseSizes sizes;                      // larger cases are parsed and printed only
  // Laws that judge every input they speak about, and laws that take turns: by the case, one of them judges
  // one input in `turns`.
  std::vector<std::string_view> always, in_turn;
  std::uint32_t turns;
  // What is under test unless SINKTRAP_FUZZ_IMPL says so; `one_each`: a case is judged on one of them, picked
  // by the case, else on all.
  std::vector<std::string> implementations;
  bool one_each;
};

// Null for the name of a target that has no cases.
const CaseTarget* find_case_target(std::string_view name);

// A number that the case decides and that its neighbours share by accident only.
std::uint64_t hash_of(std::string_view line);

// Cases that the mutator printed lately, by their canonical lines: the next mutation starts from one of them,
// and the execution in between needs it too. Parsing costs more than judging a layout does.
const Case* remembered(std::string_view line);
void remember(std::string_view line, Case c);

// Parses, checks that printing is stable, and judges. Reports a finding, or returns.
void execute_case(const CaseTarget& target, std::string_view line);

// Parser and printer alone: the refusal of a line names a column inside it, an accepted line prints, and what
// is printed is stable. The case, if there is one.
std::optional<Case> execute_text(std::string_view line);

}  // namespace sinktrap::fuzz
