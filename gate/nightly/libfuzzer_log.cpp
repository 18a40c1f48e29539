#include "gate/nightly/libfuzzer_log.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "gate/nightly/bounds.hpp"

namespace sinktrap::nightly {
namespace {

bool starts(std::string_view text, std::string_view with) { return text.substr(0, with.size()) == with; }

// The number at the start of `text`; -1 when there is none.
std::int64_t number_at(std::string_view text) {
  std::int64_t value = -1;
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::int64_t field(std::string_view line, std::string_view name) {
  const std::size_t at = line.find(name);
  return at == std::string_view::npos ? -1 : number_at(line.substr(at + name.size()));
}

// Frames of the machinery: "    #3 0x55d in fuzzer::Fuzzer::ExecuteCallback(...) (file+0x1)".
bool is_machinery(std::string_view function) {
  constexpr std::array<std::string_view, 22> names = {
      "fuzzer::",   "__sanitizer", "__asan",         "__ubsan",     "__interceptor", "__lsan",
      "_start",     "main",        "gsignal",        "raise",       "abort",         "pthread_",
      "__pthread_", "__libc",      "memcpy",         "memmove",     "LLVMFuzzer",    "__GI_",
      "std::abort", "__cxa_",      "std::terminate", "operator new"};
  for (const std::string_view name : names)
    if (starts(function, name)) return true;
  return function.empty() || function.front() == '(' || function.find(" report(") != std::string_view::npos ||
         starts(function, "(anonymous namespace)::report(");
}

std::string_view frame_function(std::string_view line) {
  const std::size_t first = line.find_first_not_of(' ');
  if (first == std::string_view::npos || line[first] != '#') return {};
  const std::size_t in = line.find(" in ");
  if (in == std::string_view::npos || line.find(" 0x") == std::string_view::npos) return {};
  std::string_view name = line.substr(in + 4);
  const std::size_t end = name.rfind(' ');  // the place in the source or the binary
  if (end != std::string_view::npos) name = name.substr(0, end);
  return name;
}

}  // namespace

std::optional<ProgressLine> parse_progress(std::string_view line) {
  if (line.size() < 4 || line[0] != '#') return std::nullopt;
  ProgressLine p;
  const char* end = line.data() + line.size();
  const auto [after, error] = std::from_chars(line.data() + 1, end, p.executions);
  if (error != std::errc() || after == end || (*after != '\t' && *after != ' ')) return std::nullopt;
  std::string_view rest(after, static_cast<std::size_t>(end - after));
  rest.remove_prefix(std::min(rest.size(), rest.find_first_not_of("\t ")));
  const std::size_t word = std::min(rest.size(), rest.find_first_of("\t "));
  p.event = rest.substr(0, word);
  constexpr std::array<std::string_view, 7> events = {"INITED", "NEW",  "REDUCE", "RELOAD",
                                                      "pulse",  "DONE", "READ"};
  bool known = false;
  for (const std::string_view e : events) known = known || e == p.event;
  if (!known) return std::nullopt;
  const auto at_least_0 = [&](std::string_view name) { return std::max<std::int64_t>(field(rest, name), 0); };
  p.coverage = at_least_0("cov: ");
  p.features = at_least_0("ft: ");
  p.corpus = at_least_0("corp: ");
  p.per_second = at_least_0("exec/s: ");
  return p;
}

void RunLog::add(std::string_view line) {
  if (line.size() > Bounds::log_line) line = line.substr(0, Bounds::log_line);
  if (head_.size() < Bounds::log_head) {
    head_.append(line).push_back('\n');
  } else {
    tail_.emplace_back(line);
    tail_bytes_ += line.size() + 1;
    while (tail_bytes_ > Bounds::log_tail) {
      tail_bytes_ -= tail_.front().size() + 1;
      tail_.pop_front();
      ++cut_;
    }
  }
  if (auto p = parse_progress(line)) {
    executions_ = std::max(executions_, p->executions);
    initialised_ = initialised_ || p->event != "READ";
    if (p->coverage > 0 || last_.coverage == 0) last_ = std::move(*p);
    return;
  }
  constexpr std::string_view units = "stat::number_of_executed_units:", written = "Test unit written to ";
  if (starts(line, units)) {
    executions_ = std::max(executions_, number_at(line.substr(units.size())));
  } else if (starts(line, "SUMMARY: ")) {
    if (summary_.empty()) summary_ = line.substr(9);
  } else if (const std::size_t at = line.find(written); at != std::string_view::npos) {
    artifact_ = line.substr(at + written.size());
  } else if (starts(line, "==")) {
    ending_ = true;  // a report begins: "==123==ERROR: ..."
  } else if (ending_) {
    const std::string_view function = frame_function(line);
    if (frame_.empty() && !is_machinery(function)) frame_ = function;
  } else if (!line.empty() && !starts(line, "INFO: ") && !starts(line, "#") && !starts(line, "\t")) {
    said_ = line;
  }
}

std::string RunLog::text() const {
  std::string text = head_;
  if (cut_ > 0) text += fmt::format("... {} lines left out\n", cut_);
  for (const std::string& line : tail_) text += line + "\n";
  return text;
}

void Curve::add(const Sample& sample) {
  samples_.push_back(sample);
  if (samples_.size() <= static_cast<std::size_t>(Bounds::curve_points)) return;
  std::vector<Sample> kept;
  // The last one stays: it is where the curve has got to.
  for (std::size_t i = (samples_.size() - 1) % 2; i < samples_.size(); i += 2) kept.push_back(samples_[i]);
  samples_ = std::move(kept);
}

}  // namespace sinktrap::nightly
