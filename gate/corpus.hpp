// Case files: one case a line; a line that starts with # is the reason for the case below it; blank lines
// separate.
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "cases/case.hpp"

namespace sinktrap {

struct CorpusEntry {
  Case value;
  std::string line;    // canonical
  std::string reason;  // the comment above
  std::string origin;  // file:line
};

// The error is one line: file, line, column, what.
std::variant<std::vector<CorpusEntry>, std::string> read_case_file(const std::string& path);

// The suites and their files.
struct Suite {
  std::string name, summary;
  std::vector<std::string> files;  // in the corpus folder
  int cases;                       // generated cases per implementation
  int size;                        // largest size of generated cases, 0..100
};
const std::vector<Suite>& suites();
const Suite* find_suite(const std::string& name);
// Where the corpus is: $SINKTRAP_CORPUS, or the folder of the sources this program was built from.
std::string corpus_folder();
std::variant<std::vector<CorpusEntry>, std::string> read_suite(const Suite& suite);

}  // namespace sinktrap
