// Files of inputs: the dictionary, seeds with their reasons, and what a replay reads.
#pragma once
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace sinktrap::fuzz {

// fuzz/sinktrap.dict: every word of the case language (cases/names.hpp), of a table line
// (fuzz/table_line.hpp) and of a safetensors header.
std::string dictionary_text();

struct Input {
  std::string bytes;
  std::string reason;  // the comment above
  std::string origin;  // file:line
};

// The inputs of one file. `.cases`: a line each; `.bytes`: a line each, with \xNN and \\ for bytes that a
// text cannot hold; in both a line that starts with # is the reason for the one below it, and blank lines
// separate. Any other file is one input. The error is one line.
std::variant<std::vector<Input>, std::string> read_inputs(const std::string& path);

}  // namespace sinktrap::fuzz
