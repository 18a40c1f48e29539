// What a run found: for people, for programs (JSON), for test systems (JUnit XML).
#pragma once
#include <string>

#include "gate/run.hpp"

namespace sinktrap {

// One word for a shell; text for XML or HTML, control characters as spaces.
std::string shell_quoted(const std::string& text);
std::string xml_escaped(const std::string& text);

// The command that judges one line again, for a shell: the line is quoted.
std::string repeat_command(const Implementation& implementation, const Law& law, const std::string& line);

// Table and one block per failing law.
std::string text_report(const RunResult& result);
// Per implementation and law: counts by status, bound use, every failing line; the seed.
std::string json_report(const RunResult& result);
std::string junit_report(const RunResult& result);

// `path` "-" is stdout. False, with a message on stderr, when it cannot be written.
bool write_report(const std::string& path, const std::string& text);

}  // namespace sinktrap
