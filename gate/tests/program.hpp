// Runs the program as a user does and keeps what it printed.
#pragma once
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace sinktrap::testing {

struct Ended {
  int code = -1;
  std::string out, err;
};

inline std::filesystem::path scratch_folder() {
  static const auto folder = [] {
    auto f = std::filesystem::temp_directory_path() / ("sinktrap-program-" + std::to_string(getpid()));
    std::filesystem::create_directories(f);
    return f;
  }();
  return folder;
}

inline std::string file_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// `arguments` is shell text.
inline Ended program(const std::string& arguments) {
  const auto out = scratch_folder() / "out", err = scratch_folder() / "err";
  const std::string command = "cd '" + scratch_folder().string() + "' && '" SINKTRAP_PROGRAM "' " +
                              arguments + " >'" + out.string() + "' 2>'" + err.string() + "' </dev/null";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, file_text(out), file_text(err)};
}

inline std::string plain_c(const std::string& fault = "") {
  return SINKTRAP_PLAIN_C_FOLDER "/libsinktrap_plain_c" + (fault.empty() ? "" : "_" + fault) + ".so";
}

// Names of the mutants of one kind, from the program's own list: "NAME KIND WHAT...".
inline std::vector<std::string> mutants_of(const std::string& kind) {
  std::vector<std::string> names;
  std::istringstream lines(program("list mutants").out);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name, its_kind;
    words >> name >> its_kind;
    if (its_kind == kind) names.push_back(name);
  }
  return names;
}

// One line, ended.
inline bool one_line(const std::string& text) { return !text.empty() && text.find('\n') == text.size() - 1; }

}  // namespace sinktrap::testing
