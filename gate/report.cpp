#include "gate/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "gate/terminal.hpp"

namespace sinktrap {
namespace {

std::int64_t count(const LawResult& r, Status s) { return r.counts[static_cast<std::size_t>(s)]; }

std::string table(const RunResult& result, const ImplementationResult& mine) {
  std::size_t width = 3;
  for (const Law* law : result.laws) width = std::max(width, law->id.size());
  std::string text = fmt::format("{:<{}}  {:>7} {:>7} {:>6} {:>7} {:>7} {:>7}  {}\n", "law", width, "cases",
                                 "passed", "failed", "crashed", "vacuous", "skipped", "bound used");
  std::array<std::int64_t, 6> sum{};
  for (std::size_t l = 0; l < result.laws.size(); ++l) {
    const LawResult& r = mine.laws[l];
    const std::array<std::int64_t, 6> row = {r.cases(),
                                             count(r, Status::passed),
                                             count(r, Status::failed),
                                             count(r, Status::crashed) + count(r, Status::timed_out),
                                             count(r, Status::vacuous),
                                             count(r, Status::skipped) + count(r, Status::unsupported)};
    for (std::size_t i = 0; i < row.size(); ++i) sum[i] += row[i];
    const std::string stage = r.bound_stage.empty() ? "" : fmt::format(" ({})", r.bound_stage);
    const std::string use = r.bound_use > 0 ? fmt::format("{:.3f}{}", r.bound_use, stage) : "-";
    const std::string line =
        fmt::format("{:<{}}  {:>7} {:>7} {:>6} {:>7} {:>7} {:>7}  {}", result.laws[l]->id, width, row[0],
                    row[1], row[2], row[3], row[4], row[5], use);
    text += (r.bad() > 0 ? paint(Status::failed, line) : line) + "\n";
  }
  return text + fmt::format("{:<{}}  {:>7} {:>7} {:>6} {:>7} {:>7} {:>7}\n", "all", width, sum[0], sum[1],
                            sum[2], sum[3], sum[4], sum[5]);
}

// Which kinds of fault the judged cases could see: of those that have a place for it, how many.
std::string power_line(const ImplementationResult& mine) {
  std::string text;
  for (const reference::FaultKindRow& row : reference::fault_kinds()) {
    const auto k = static_cast<std::size_t>(row.kind);
    std::int64_t seen = 0, all = 0;
    for (const LawResult& r : mine.laws) seen += r.kinds_seen[k], all += r.kinds_seen[k] + r.kinds_vacuous[k];
    if (all > 0) text += fmt::format("{} {} {}/{}", text.empty() ? "" : ",", row.name, seen, all);
  }
  return text.empty() ? "" : fmt::format("  faults that the cases could see:{}\n", text);
}

std::string failure_block(const RunResult& result, const ImplementationResult& mine, std::size_t l) {
  const LawResult& r = mine.laws[l];
  const Law& law = *result.laws[l];
  const Failure& f = r.failures.front();
  const bool shrunk = !f.shrunk.empty();
  const Judgement& j = shrunk ? f.shrunk_judgement : f.judgement;
  std::string text =
      fmt::format("\n{} {} on {} ({} of {} cases)\n", paint(j.status, std::string(status_name(j.status))),
                  law.id, mine.implementation->argument(), r.bad(), r.cases());
  text += fmt::format("  law     {}\n", law.sentence);
  text += fmt::format("  case    {}\n", shrunk ? f.shrunk : f.line);
  if (shrunk && f.shrunk != f.line) text += fmt::format("  from    {}\n", f.line);
  if (!shrunk && j.status != Status::timed_out)
    text += "  note    it did not fail again when it was repeated\n";
  text += fmt::format("  reason  {}\n", j.reason);
  for (const std::string& d : j.details) text += fmt::format("          {}\n", d);
  return text +
         fmt::format("  repeat  {}\n", repeat_command(*mine.implementation, law, shrunk ? f.shrunk : f.line));
}

}  // namespace

std::string shell_quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string xml_escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 32 ? ' ' : c;
    }
  }
  return out;
}

std::string repeat_command(const Implementation& implementation, const Law& law, const std::string& line) {
  return fmt::format("./sinktrap check --impl {} --law {} {}", shell_quoted(implementation.argument()),
                     law.id, shell_quoted(line));
}

std::string text_report(const RunResult& result) {
  std::string text;
  for (const ImplementationResult& mine : result.implementations) {
    text +=
        fmt::format("{} (suite {}, seed {})\n", mine.implementation->argument(), result.suite, result.seed);
    text += table(result, mine);
    text += power_line(mine);
    std::map<std::string, std::int64_t> skips;
    for (const LawResult& r : mine.laws)
      for (const auto& [why, times] : r.notes)
        if (why.compare(0, 7, "vacuous") != 0) skips[why] += times;
    for (const auto& [why, times] : skips) text += fmt::format("  {} {}\n", times, why);
    for (std::size_t l = 0; l < mine.laws.size(); ++l)
      if (!mine.laws[l].failures.empty()) text += failure_block(result, mine, l);
    if (mine.served_nothing(result.laws))
      text += fmt::format(
          "\n{} NOTHING SERVED: {} refused every layer; is it built for one of the suite's types and "
          "sizes?\n",
          paint(Status::failed, "FAILED"), mine.implementation->argument());
    const auto suspects = lineup_text(mine.lineup);
    if (!suspects.empty()) text += "\nLINE-UP of known faults\n";
    for (const std::string& line : suspects) text += "  " + line + "\n";
    text += "\n";
  }
  const Status verdict = result.conforming() ? Status::passed : Status::failed;
  text += paint(verdict, result.conforming() ? "CONFORMING" : "NOT CONFORMING") +
          fmt::format(": {} cases judged in {:.1f} s\n", result.cases(), result.seconds);
  return text;
}

std::string junit_report(const RunResult& result) {
  std::string text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n";
  for (const ImplementationResult& mine : result.implementations) {
    std::int64_t failures = 0, skipped = 0;
    std::string cases;
    for (std::size_t l = 0; l < result.laws.size(); ++l) {
      const LawResult& r = mine.laws[l];
      const std::string head = fmt::format("    <testcase classname=\"{}\" name=\"{}\"",
                                           xml_escaped(mine.implementation->argument()),
                                           xml_escaped(std::string(result.laws[l]->sentence)));
      if (r.bad() > 0) {
        ++failures;
        const Failure& f = r.failures.front();
        cases += fmt::format(
            "{}>\n      <failure message=\"{}\">{}</failure>\n    </testcase>\n", head,
            xml_escaped(fmt::format("{} of {} cases: {}", r.bad(), r.cases(), f.judgement.reason)),
            xml_escaped(f.shrunk.empty() ? f.line : f.shrunk));
      } else if (r.cases() > 0 && r.cases() == count(r, Status::skipped) + count(r, Status::unsupported)) {
        ++skipped;
        cases += fmt::format("{}>\n      <skipped message=\"{}\"/>\n    </testcase>\n", head,
                             xml_escaped(r.notes.empty() ? "no case" : r.notes.begin()->first));
      } else {
        cases += head + "/>\n";
      }
    }
    text += fmt::format(
        "  <testsuite name=\"sinktrap {} {}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\">\n{}  "
        "</testsuite>\n",
        xml_escaped(mine.implementation->argument()), result.suite, result.laws.size(), failures, skipped,
        cases);
  }
  return text + "</testsuites>\n";
}

bool write_report(const std::string& path, const std::string& text) {
  if (path == "-") {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return true;
  }
  std::ofstream file(path);
  file << text;
  file.close();
  if (file) return true;
  fmt::print(stderr, "sinktrap: {}: the report cannot be written\n", path);
  return false;
}

}  // namespace sinktrap
