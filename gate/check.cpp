// `run` and `check`: from arguments to results and exit codes.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <thread>

#include "gate/commands.hpp"
#include "gate/report.hpp"
#include "gate/terminal.hpp"
#include "judge/worker.hpp"
#include "mutants/kernel_mutants.hpp"
#include "mutants/mutants.hpp"
#include "reference/power.hpp"

namespace sinktrap {
namespace {

using Implementations = std::vector<std::shared_ptr<const Implementation>>;

// Empty with a message printed when one of them cannot be used.
std::optional<Implementations> open_all(std::vector<std::string> names) {
  if (names.empty()) names.push_back(default_implementation());
  Implementations list;
  for (const std::string& name : names) {
    auto opened = Implementation::open(name);
    if (const auto* error = std::get_if<std::string>(&opened)) {
      bad_input(*error);
      return std::nullopt;
    }
    list.push_back(std::get<std::shared_ptr<const Implementation>>(opened));
  }
  return list;
}

std::optional<std::vector<const Law*>> find_laws(const std::vector<std::string>& ids) {
  std::vector<const Law*> list;
  for (const std::string& id : ids) {
    const Law* law = find_law(id);
    if (law == nullptr) {
      bad_input(fmt::format("--law {}: no law of that name; `sinktrap list laws` shows them", id));
      return std::nullopt;
    }
    list.push_back(law);
  }
  return list;
}

int processors() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

void print_judgement(const Implementation& implementation, const Law& law, const Judgement& j) {
  std::string extra = j.reason.empty() ? "" : ": " + j.reason;
  if (j.status == Status::passed && j.bound_use > 0)
    extra = fmt::format(" (bound used {:.3f}, mostly {})", j.bound_use,
                        j.bound_stage.empty() ? "-" : j.bound_stage);
  fmt::print("{} {} {}{}\n", paint(j.status, std::string(status_name(j.status))), implementation.argument(),
             law.id, extra);
  for (const std::string& d : j.details) fmt::print("    {}\n", d);
}

}  // namespace

int bad_input(const std::string& what) {
  fmt::print(stderr, "sinktrap: {}\n", what);
  return 2;
}

int run_command(const RunArguments& a) {
  RunOptions options;
  options.suite = find_suite(a.suite);
  if (options.suite == nullptr) {
    std::string known;
    for (const Suite& s : suites()) known += (known.empty() ? "" : ", ") + s.name;
    return bad_input(fmt::format("--suite {}: expected one of {}", a.suite, known));
  }
  if (a.json == "-" && a.junit == "-")
    return bad_input("--json - and --junit -: only one of them can have stdout");
  const auto laws = find_laws(a.laws);
  if (!laws) return 2;
  const auto implementations = open_all(a.implementations);
  if (!implementations) return 2;
  auto corpus = read_suite(*options.suite);
  if (const auto* error = std::get_if<std::string>(&corpus)) return bad_input(*error);
  options.laws = *laws;
  options.cases = a.cases;
  options.seconds = a.seconds;
  options.seed = a.seed;
  options.workers = a.jobs > 0 ? a.jobs : processors();
  options.timeout_seconds = a.timeout;
  options.folder = a.folder;
  options.progress = true;
  const auto line_up = find_lineup_mode(a.line_up);
  if (!line_up) return bad_input(fmt::format("--line-up {}: expected all, parts, where or off", a.line_up));
  options.lineup = *line_up;
  try {
    const RunResult result = run_suite(*implementations, std::get<std::vector<CorpusEntry>>(corpus), options);
    if (a.json != "-" && a.junit != "-") fmt::print("{}", text_report(result));
    if (!a.json.empty() && !write_report(a.json, json_report(result))) return 2;
    if (!a.junit.empty() && !write_report(a.junit, junit_report(result))) return 2;
    if (result.cases() == 0) return bad_input("no case was judged; raise --cases or --seconds");
    return result.conforming() ? 0 : 1;
  } catch (const std::runtime_error& e) {
    return bad_input(e.what());
  }
}

int check_command(const CheckArguments& a) {
  const auto chosen = find_laws(a.laws);
  if (!chosen) return 2;
  std::vector<CorpusEntry> entries;
  for (const std::string& line : a.cases) {
    auto parsed = parse_case(line);
    if (const auto* error = std::get_if<CaseError>(&parsed))
      return bad_input(fmt::format("case, column {}: {}", error->column, error->what));
    Case value = std::get<Case>(std::move(parsed));
    std::string canonical = print_case(value);
    entries.push_back({std::move(value), std::move(canonical), "", ""});
  }
  for (const std::string& path : a.files) {
    auto read = read_case_file(path);
    if (const auto* error = std::get_if<std::string>(&read)) return bad_input(*error);
    for (auto& e : std::get<std::vector<CorpusEntry>>(read)) entries.push_back(std::move(e));
  }
  if (entries.empty()) return bad_input("check: no case given; expected CASE... or --file FILE");
  const auto implementations = open_all(a.implementations);
  if (!implementations) return 2;
  try {
    Workers workers(
        [&](const Task& t) {
          return judge_line(laws()[t.law], t.line, *(*implementations)[t.implementation]);
        },
        {1, a.timeout, a.folder});
    bool bad = false, any = false;
    std::vector<Service> services(implementations->size());
    for (const CorpusEntry& e : entries) {
      fmt::print("{}\n", e.line);
      bool judged = false;
      for (std::uint32_t i = 0; i < implementations->size(); ++i)
        for (std::uint32_t l = 0; l < laws().size(); ++l) {
          const Law& law = laws()[l];
          if (!chosen->empty() && std::find(chosen->begin(), chosen->end(), &law) == chosen->end()) continue;
          if (!law.applies(e.value)) continue;
          const Judgement j = workers.run_one({i, l, e.line});
          print_judgement(*(*implementations)[i], law, j);
          std::fflush(stdout);
          bad = bad || is_bad(j.status);
          services[i].count(law, j.status);
          judged = any = true;
        }
      if (!judged) fmt::print("  not judged: none of the laws asked for speaks about this case\n");
    }
    if (!any)
      return bad_input(
          "check: no law asked for speaks about any of the cases; `sinktrap list laws` shows what each is "
          "about");
    for (std::size_t i = 0; i < implementations->size(); ++i) {
      if (!services[i].nothing()) continue;
      fmt::print("NOT CONFORMING: {} refused every layer\n", (*implementations)[i]->argument());
      bad = true;
    }
    return bad ? 1 : 0;
  } catch (const std::runtime_error& e) {
    return bad_input(e.what());
  }
}

int list_command(const std::string& what) {
  if (what == "implementations") {
    for (const BuiltIn& b : built_in_implementations())
      fmt::print("{:<20} {}{}\n", b.name, b.summary,
                 b.missing.empty() ? "" : "; cannot run here: " + b.missing);
    fmt::print("{:<20} {}\n", "FILE.so?OPTIONS",
               "a shared library that exports sinktrap_implementation (contract/sinktrap.h)");
  } else if (what == "laws") {
    for (const Law& law : laws())
      fmt::print("{:<28} {}{}\n", law.id, law.sentence,
                 law.needs ? fmt::format(" [needs {}]", capability_names(law.needs)) : "");
  } else if (what == "mutants") {
    for (const auto* list : {&mutants(), &kernel_mutants()})
      for (const Mutant& m : *list) fmt::print("{:<30} {:<11} {} ({})\n", m.name, m.kind, m.what, m.report);
  } else if (what == "suites") {
    for (const Suite& s : suites())
      fmt::print("{:<12} {} ({} generated cases)\n", s.name, s.summary, s.cases);
  } else if (what == "statuses") {
    for (int s = 0; s < kStatusCount; ++s)
      fmt::print("{:<12} {}\n", status_name(static_cast<Status>(s)), status_meaning(static_cast<Status>(s)));
  } else if (what == "faults") {
    for (const reference::FaultKindRow& row : reference::fault_kinds())
      fmt::print("{:<20} {}\n", row.name, row.meaning);
  } else {
    return bad_input(
        fmt::format("list {}: expected implementations, laws, mutants, suites, statuses or faults", what));
  }
  return 0;
}

}  // namespace sinktrap
