// From a raw finding to one that a person can use: does it repeat, what is the smallest case, which known
// fault behaves like it, and the command that shows it. Runs in a child process of its own (Command::inside).
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "gate/nightly/findings.hpp"
#include "gate/nightly/process.hpp"

namespace sinktrap::nightly {

struct TriageOptions {
  std::vector<std::string> implementations;  // --impl; for inputs that name none
  std::filesystem::path program;             // the target that found it
  std::vector<std::string> flags;            // its limits
  std::filesystem::path folder;              // for running cases and scratch files
  double seconds = 45;                       // for all of it
};

// `input` is the path of the raw bytes, empty when there are none.
Finding triage(const Guard& guard, Finding f, const std::filesystem::path& input, const TriageOptions& o);

// Judges a known finding again: its standing becomes open, fixed or unchecked, and `note` says why.
Finding recheck(const Guard& guard, Finding f, const std::filesystem::path& input, const TriageOptions& o);

// The environment in which the targets run: implementations, symbolizer.
std::vector<std::pair<std::string, std::string>> target_environment(
    const std::vector<std::string>& implementations);

}  // namespace sinktrap::nightly
