#include "gate/terminal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace sinktrap {

bool coloured() { return isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr; }

std::string paint(Status status, const std::string& text) {
  if (!coloured()) return text;
  const int colour = is_bad(status) ? 31 : status == Status::passed ? 32 : 33;
  return fmt::format("\033[{}m{}\033[0m", colour, text);
}

void Progress::show(const std::string& what, std::int64_t done, std::int64_t total, double seconds,
                    std::optional<double> limit) {
  if (!on_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < std::chrono::milliseconds(200)) return;
  last_ = now;
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  double left = rate > 0 ? static_cast<double>(total - done) / rate : 0;
  if (limit) left = std::clamp(*limit - seconds, 0.0, left);
  const std::string of = total < INT32_MAX ? fmt::format(" of {}", total) : "";
  note(fmt::format("{}: {}{} cases, {:.0f} a second, {:.0f} s left", what, done, of, rate, left));
}

void Progress::note(const std::string& text) {
  if (!on_) return;
  fmt::print(stderr, "\r\033[K{}", text);
  std::fflush(stderr);
}

void Progress::clear() {
  if (on_) fmt::print(stderr, "\r\033[K");
}

}  // namespace sinktrap
