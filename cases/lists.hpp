// Lists of integers in a case line, with a short form for long ones: `-1*3,(0,1)*2` is -1,-1,-1,0,1,0,1.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cases/case.hpp"

namespace sinktrap {

// Limits of one list: how many entries, and the range of each.
struct ListLimits {
  std::size_t max_entries;
  std::int64_t low, high;
};

// Columns in errors count from 1 inside `text`. An empty text is an error; so is a repetition count below 1.
std::variant<std::vector<std::int64_t>, CaseError> parse_list(std::string_view text,
                                                              const ListLimits& limits);

// The canonical text: one repeated group if the whole list is one, else runs. Lists of up to 32 entries are
// written out unless all entries are equal and more than 4.
std::string print_list(const std::vector<std::int64_t>& list);

// A whole decimal integer inside [low, high], or an error that says so. `what` names it.
std::variant<std::int64_t, CaseError> parse_integer(std::string_view text, std::int64_t low,
                                                    std::int64_t high, std::string_view what);

// The beginning of a piece of user text as an error repeats it: at most 40 characters, on one line, '?' for
// what does not print.
std::string shown(std::string_view text);

}  // namespace sinktrap
