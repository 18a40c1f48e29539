#include "gate/corpus.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>

namespace sinktrap {

std::variant<std::vector<CorpusEntry>, std::string> read_case_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) return fmt::format("{}: cannot be read; expected a file of case lines", path);
  std::vector<CorpusEntry> entries;
  std::string line, reason;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.size() > CaseLimits::max_line) return fmt::format("{}:{}:1: line too long", path, number);
    const std::size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string::npos) {
      reason.clear();
      continue;
    }
    if (line[first] == '#') {
      const std::size_t text = line.find_first_not_of("# \t", first);
      if (text != std::string::npos) reason += (reason.empty() ? "" : " ") + line.substr(text);
      continue;
    }
    auto parsed = parse_case(line);
    if (const auto* error = std::get_if<CaseError>(&parsed))
      return fmt::format("{}:{}:{}: {}", path, number, error->column, error->what);
    Case value = std::get<Case>(std::move(parsed));
    std::string canonical = print_case(value);
    entries.push_back({std::move(value), std::move(canonical), reason, fmt::format("{}:{}", path, number)});
    reason.clear();
  }
  return entries;
}

const std::vector<Suite>& suites() {
  static const std::vector<Suite> all = {
      {"smoke", "small cases of every kind, a minute", {"smoke.cases"}, 5000, 40},
      {"conformance",
       "tile edges, real shapes, all kinds; the gate for a kernel change",
       {"smoke.cases", "conformance.cases", "real/layers.cases"},
       12000,
       100},
  };
  return all;
}

const Suite* find_suite(const std::string& name) {
  for (const Suite& s : suites())
    if (s.name == name) return &s;
  return nullptr;
}

std::string corpus_folder() {
  const char* given = std::getenv("SINKTRAP_CORPUS");
  return given && *given ? given : SINKTRAP_CORPUS_FOLDER;
}

std::variant<std::vector<CorpusEntry>, std::string> read_suite(const Suite& suite) {
  std::vector<CorpusEntry> all;
  for (const std::string& name : suite.files) {
    auto entries = read_case_file(corpus_folder() + "/" + name);
    if (auto* error = std::get_if<std::string>(&entries)) return *error;
    for (auto& e : std::get<std::vector<CorpusEntry>>(entries)) all.push_back(std::move(e));
  }
  return all;
}

}  // namespace sinktrap
