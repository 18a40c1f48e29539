// What every fuzz target shares: the implementations under test, the line that is being executed, and what is
// left behind when a law does not hold. docs/fuzzing.md describes the variables for users.
//
//   SINKTRAP_FUZZ_IMPL      implementations, as for --impl, separated by ';', or mutant:NAME
//   SINKTRAP_FUZZ_FINDINGS  folder for findings and for the line that is being executed
//   SINKTRAP_FUZZ_MUTATOR   "off": libFuzzer's byte mutations only
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "judge/implementation.hpp"

namespace sinktrap::fuzz {

// Name of this program's target: "fuzz_layout". Defined by each target.
extern const char* const kTarget;

struct UnderTest {
  std::shared_ptr<const Implementation> implementation;
  std::string argument;  // as given
  std::string repeat;  // what stands before the law in a repeat command: "./sinktrap check --impl 'simt:mma'"
};

// Those of SINKTRAP_FUZZ_IMPL, else `defaults`. One that cannot be opened ends the process: one line, exit
// code 2.
const std::vector<UnderTest>& under_test(const std::vector<std::string>& defaults);

// Remembers the input that is being executed, in a mapped file NAME.current in the findings folder: it is
// there after a SIGKILL too. Inputs beyond 64 KiB are cut. Costs a copy of the input; nothing without the
// folder.
void executing(std::string_view input);

struct Finding {
  std::string law, implementation, reason;
  std::string line;    // the case, or the input
  std::string repeat;  // a command
};

// Writes the finding to a new file in the findings folder (temporary name, fsync, rename), then the reason
// and the repeat command to stderr, and aborts.
[[noreturn]] void report(const Finding& finding);

// The text of that file: comment lines, then the line. Bytes that do not print are escaped, in a comment
// then.
std::string finding_text(const Finding& finding);

// An input that a reader refused must be refused in one printable line. Reports otherwise.
void check_refusal(std::string_view law, std::string_view why, std::string_view input);

bool mutator_is_on();

}  // namespace sinktrap::fuzz
