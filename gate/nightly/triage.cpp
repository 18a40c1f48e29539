#include "gate/nightly/triage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "gate/lineup.hpp"
#include "gate/nightly/files.hpp"
#include "gate/nightly/libfuzzer_log.hpp"
#include "gate/report.hpp"
#include "gate/run.hpp"
#include "judge/worker.hpp"
#include "properties/shrink.hpp"

namespace sinktrap::nightly {
namespace fs = std::filesystem;
namespace {

// A case under a target's own limits takes far less; what takes this long hangs.
constexpr double kCaseSeconds = 10;
// As for `run`, with less time: a night has many findings.
constexpr int kShrinkBudget = 600;
constexpr double kShrinkSeconds = 10;
// One run of one input in a target with sanitizers; libFuzzer's own limit for a unit is below.
constexpr double kInputSeconds = 40;
constexpr int kMinimiseSeconds = 8;

using Opened = std::shared_ptr<const Implementation>;

std::vector<std::string> names_of(const std::vector<std::string>& given) {
  if (!given.empty()) return given;
  std::vector<std::string> names;
  for (const BuiltIn& b : built_in_implementations())
    if (b.missing.empty()) names.push_back(b.name);
  return names;
}

// Judges, shrinks and compares one case under one law.
class CaseTriage {
 public:
  CaseTriage(Opened implementation, const Law& law, std::string folder)
      : implementation_(std::move(implementation)),
        law_(law),
        folder_(std::move(folder)),
        workers_([this](const Task& t) { return judge_line(law_, t.line, *implementation_); },
                 {1, kCaseSeconds, folder_}) {}

  Judgement judge(const std::string& line) { return workers_.run_one({0, 0, line}); }

  // `f.line` fails with `first`.
  void settle(Finding& f, const Judgement& first) {
    f.kind = "law";
    f.law = law_.id;
    f.implementation = implementation_->argument();
    f.smallest = f.line;
    f.reason = first.reason;
    if (first.status != Status::timed_out) shrink(f, first.status);
    f.repeat = repeat_command(*implementation_, law_, f.smallest);
    const Lineup lineup =
        line_up(implementation_, {{&law_, f.line}, {&law_, f.smallest}}, {LineupMode::all, folder_, 1});
    if (lineup.suspects.empty()) return;
    f.suspect = lineup.suspects.front().name;
    f.suspect_what = lineup.suspects.front().what;
  }

 private:
  void shrink(Finding& f, Status wanted) {
    const auto start = std::chrono::steady_clock::now();
    const auto fails = [&](const Case& c) {
      if (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > kShrinkSeconds)
        return false;
      const Judgement j = judge(print_case(c));
      if (j.status == wanted) f.reason = j.reason;
      return j.status == wanted;
    };
    f.smallest = print_case(shrink_case(std::get<Case>(parse_case(f.line)), fails, kShrinkBudget));
  }

  Opened implementation_;
  const Law& law_;
  std::string folder_;
  Workers workers_;
};

// Every law and implementation that may have failed on this line, one after the other; true when one did.
bool triage_case(Finding& f, const TriageOptions& o) {
  const auto parsed = parse_case(f.line);
  if (!std::holds_alternative<Case>(parsed)) return false;
  const Case& c = std::get<Case>(parsed);
  const Law* named = f.law.empty() ? nullptr : find_law(f.law);
  for (const std::string& name :
       f.implementation.empty() ? names_of(o.implementations) : std::vector<std::string>{f.implementation}) {
    auto opened = Implementation::open(name);
    if (const auto* error = std::get_if<std::string>(&opened)) {
      f.note = *error;
      continue;
    }
    for (const Law& law : laws()) {
      if ((named != nullptr && &law != named) || !law.applies(c)) continue;
      CaseTriage with(std::get<Opened>(opened), law, o.folder.string());
      const Judgement j = with.judge(f.line);
      if (!is_bad(j.status)) continue;
      with.settle(f, j);
      return true;
    }
  }
  return false;
}

std::string shell_command(const TriageOptions& o, const std::string& input) {
  std::string text;
  if (!o.implementations.empty()) {
    std::string all;
    for (const std::string& name : o.implementations) all += (all.empty() ? "" : ";") + name;
    text = "SINKTRAP_FUZZ_IMPL=" + shell_quoted(all) + " ";
  }
  text += shell_quoted(o.program.string());
  for (const std::string& flag : o.flags) text += " " + flag;
  return text + " " + shell_quoted(input);
}

struct InputRun {
  bool failed = false, ended = false;
  RunLog log;
};

InputRun run_input(const Guard& guard, const fs::path& input, const TriageOptions& o,
                   const std::vector<std::string>& more = {}, double seconds = kInputSeconds) {
  Command command;
  command.arguments = {o.program.string()};
  command.arguments.insert(command.arguments.end(), o.flags.begin(), o.flags.end());
  command.arguments.insert(command.arguments.end(), more.begin(), more.end());
  // What a crash leaves behind here is known already.
  command.arguments.push_back("-artifact_prefix=" + (o.folder / "again-").string());
  command.arguments.push_back(input.string());
  command.environment = target_environment(o.implementations);
  command.environment.emplace_back("SINKTRAP_FUZZ_FINDINGS", (o.folder / "again").string());
  InputRun run;
  const auto code = run_within(guard, command, seconds, [&](std::string_view line) { run.log.add(line); });
  run.ended = code.has_value();
  run.failed = code.value_or(0) != 0;
  return run;
}

void clean_scratch(const TriageOptions& o) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(o.folder, error))
    if (entry.path().filename().string().compare(0, 5, "again") == 0) fs::remove_all(entry.path(), error);
  make_folder(o.folder / "again");
}

// libFuzzer's own minimiser: smaller bytes that end the process as well. The input is replaced only then.
void minimise_bytes(const Guard& guard, const fs::path& input, const TriageOptions& o) {
  const fs::path smaller = o.folder / "again-smaller";
  run_input(guard, input, o,
            {"-minimize_crash=1", fmt::format("-max_total_time={}", kMinimiseSeconds),
             "-exact_artifact_path=" + smaller.string()},
            2 * kMinimiseSeconds);
  const auto now = read_whole(input), then = read_whole(smaller);
  if (now && then && then->size() < now->size() && run_input(guard, smaller, o).failed)
    write_whole(input, *then);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> target_environment(
    const std::vector<std::string>& implementations) {
  std::vector<std::pair<std::string, std::string>> environment;
  std::string all;
  for (const std::string& name : implementations) all += (all.empty() ? "" : ";") + name;
  if (!all.empty()) environment.emplace_back("SINKTRAP_FUZZ_IMPL", all);
  // Debian's package llvm-14; without it stacks have addresses only.
  constexpr const char* kSymbolizer = "/usr/lib/llvm-14/bin/llvm-symbolizer";
  std::error_code error;
  if (fs::exists(kSymbolizer, error)) environment.emplace_back("ASAN_SYMBOLIZER_PATH", kSymbolizer);
  return environment;
}

Finding triage(const Guard& guard, Finding f, const fs::path& input, const TriageOptions& o) {
  f.triaged = true;
  clean_scratch(o);
  const bool is_crash = f.kind != "unreadable" && f.kind != "bytes" && f.kind != "law";
  if (f.line.empty() && !input.empty() && is_crash) {
    // Of a target that reads lines, the input may be one.
    const std::string bytes = read_whole(input).value_or("");
    const auto parsed = parse_case(bytes);
    if (const auto* c = std::get_if<Case>(&parsed)) f.line = print_case(*c);
  }
  if (!f.line.empty() && triage_case(f, o)) {
    f.input.clear();  // the line says it all
    return f;
  }
  if (!f.law.empty()) {
    f.smallest = f.line;
    f.note = f.note.empty() ? "it did not fail again outside the fuzz target" : f.note;
    f.repeat = fmt::format("./sinktrap check --impl {} --law {} {}", shell_quoted(f.implementation), f.law,
                           shell_quoted(f.line));
    if (!input.empty()) f.repeat = shell_command(o, input.string());
    return f;
  }
  f.line.clear();
  if (input.empty() || f.kind == "unreadable") return f;
  InputRun run = run_input(guard, input, o);
  if (!run.failed && run.ended) {
    f.note = "it did not fail again by itself";
  } else if (!run.ended) {
    f.note = fmt::format("no end within {} s when it was repeated", kInputSeconds);
  } else {
    if (is_crash) {
      f.place =
          fmt::format("{}{}{}", run.log.summary(), run.log.frame().empty() ? "" : " in ", run.log.frame());
      f.reason = run.log.said().empty() ? run.log.summary() : run.log.said();
    }
    if (f.kind == "crash" || f.kind == "bytes") minimise_bytes(guard, input, o);
  }
  f.repeat = shell_command(o, input.string());
  clean_scratch(o);
  return f;
}

Finding recheck(const Guard& guard, Finding f, const fs::path& input, const TriageOptions& o) {
  f.standing = Standing::unchecked;
  f.note.clear();
  const Law* law = find_law(f.law);
  if (law != nullptr && !f.smallest.empty()) {
    auto opened = Implementation::open(f.implementation);
    if (const auto* error = std::get_if<std::string>(&opened)) {
      f.note = *error;
      return f;
    }
    const Judgement j = CaseTriage(std::get<Opened>(opened), *law, o.folder.string()).judge(f.smallest);
    f.standing = is_bad(j.status) ? Standing::open : Standing::fixed;
    if (j.status == Status::skipped || j.status == Status::unsupported)
      f.standing = Standing::unchecked, f.note = j.reason;
    // One that fails in the fuzz target only is known by its input.
    if (f.standing != Standing::fixed || input.empty()) return f;
  }
  std::error_code error;
  if (input.empty() || !fs::exists(o.program, error)) {
    f.note = input.empty() ? "it has neither a law of this program nor an input"
                           : o.program.string() + " is missing";
    return f;
  }
  const InputRun run = run_input(guard, input, o);
  f.standing = run.failed || !run.ended ? Standing::open : Standing::fixed;
  return f;
}

}  // namespace sinktrap::nightly
