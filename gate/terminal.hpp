// Colour and the progress line: only where a person watches.
#pragma once
#include <unistd.h>

#include <chrono>
#include <optional>
#include <string>

#include "judge/status.hpp"

namespace sinktrap {

// Colour on stdout: a terminal, and NO_COLOR not set.
bool coloured();
std::string paint(Status status, const std::string& text);

// One line on stderr that is rewritten in place; silent unless stderr is a terminal.
class Progress {
 public:
  explicit Progress(bool wanted) : on_(wanted && isatty(STDERR_FILENO) != 0) {}
  // Cases done of total (an unbounded total is that of a time limit), with rate and time left.
  void show(const std::string& what, std::int64_t done, std::int64_t total, double seconds,
            std::optional<double> limit);
  void note(const std::string& text);
  void clear();

 private:
  bool on_;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace sinktrap
