// The page: tables, and curves as inline SVG. No script and nothing from elsewhere, so that it can be kept as
// one file and opened years later.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "gate/nightly/report.hpp"
#include "gate/report.hpp"

namespace sinktrap::nightly {
namespace {

constexpr const char* kStyle =
    "body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:75em;padding:0 1em;color:#1c2430}"
    "table{border-collapse:collapse;margin:1em 0}td,th{padding:.25em .7em;border-bottom:1px solid #d8dde5;"
    "text-align:right}td:first-child,th:first-child,td.l,th.l{text-align:left}code{background:#f1f3f7;"
    "padding:.1em "
    ".3em;word-break:break-all}.verdict{padding:.7em "
    "1em;border-radius:.4em;font-weight:600}.bad{background:#fde7e4}"
    ".good{background:#e3f4e6}.finding{border-left:4px solid #c8402f;padding:.2em 1em;margin:1em 0}"
    ".finding.fixed{border-color:#3b8f4b}figure{display:inline-block;margin:.5em 1em .5em "
    "0}figcaption{color:#5a6472}"
    "svg{background:#fafbfc;border:1px solid #d8dde5}";

constexpr double kWidth = 460, kHeight = 150, kLeft = 62, kRight = 12, kTop = 12, kBottom = 22;

// "12", "3.4k", "5.6M"
std::string short_number(double v) {
  if (v >= 1e6) return fmt::format("{:.1f}M", v / 1e6);
  if (v >= 1e4) return fmt::format("{:.1f}k", v / 1e3);
  return fmt::format("{:.0f}", v);
}

template <class Value>
std::string chart(const std::string& title, const std::vector<Sample>& samples, double seconds,
                  Value&& value) {
  double top = 1;
  for (const Sample& s : samples) top = std::max(top, static_cast<double>(value(s)));
  const double span = std::max(seconds, 1.0);
  const auto x = [&](double t) { return kLeft + (kWidth - kLeft - kRight) * std::min(t / span, 1.0); };
  const auto y = [&](double v) { return kHeight - kBottom - (kHeight - kTop - kBottom) * v / top; };
  std::string points;
  for (const Sample& s : samples)
    points += fmt::format("{:.1f},{:.1f} ", x(s.seconds), y(static_cast<double>(value(s))));
  std::string svg = fmt::format(
      "<figure><svg width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" role=\"img\" "
      "aria-label=\"{2}\">",
      kWidth, kHeight, xml_escaped(title));
  for (const double part : {0.0, 0.5, 1.0})
    svg += fmt::format(
        "<line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#dfe3ea\"/><text x=\"{}\" "
        "y=\"{:.1f}\" "
        "font-size=\"11\" text-anchor=\"end\" fill=\"#5a6472\">{}</text>",
        kLeft, kWidth - kRight, y(part * top), y(part * top), kLeft - 5, y(part * top) + 4,
        short_number(part * top));
  svg += fmt::format(
      "<text x=\"{}\" y=\"{}\" font-size=\"11\" fill=\"#5a6472\">0 s</text><text x=\"{}\" y=\"{}\" "
      "font-size=\"11\" text-anchor=\"end\" fill=\"#5a6472\">{:.0f} s</text>",
      kLeft, kHeight - 7, kWidth - kRight, kHeight - 7, span);
  svg +=
      fmt::format("<polyline fill=\"none\" stroke=\"#2b62b8\" stroke-width=\"1.6\" points=\"{}\"/>", points);
  return svg + fmt::format("</svg><figcaption>{}</figcaption></figure>\n", xml_escaped(title));
}

std::string row(const std::vector<std::string>& cells, const char* tag = "td") {
  std::string text = "<tr>";
  for (const std::string& c : cells) text += fmt::format("<{0}>{1}</{0}>", tag, xml_escaped(c));
  return text + "</tr>\n";
}

std::string number(std::int64_t v) { return fmt::format("{}", v); }

std::string targets_html(const Report& r) {
  std::string text = "<h2>Fuzzing</h2>\n<table>\n" +
                     row({"target", "seconds", "executions", "per second", "coverage", "features", "corpus",
                          "found", "before: per second", "coverage", "remarks"},
                         "th");
  for (const TargetResult& t : r.targets) {
    const Before::TargetBefore* b = r.before ? r.before->find(t.name) : nullptr;
    text += row({t.name, fmt::format("{:.1f}", t.seconds), number(t.executions),
                 fmt::format("{:.0f}", speed_of(t)), number(t.coverage), number(t.features),
                 number(t.corpus_after), number(t.found), b ? fmt::format("{:.0f}", b->per_second) : "-",
                 b ? number(b->coverage) : "-",
                 t.given_up + (t.given_up.empty() || t.merge.empty() ? "" : "; ") + t.merge});
  }
  text += "</table>\n";
  const double seconds = std::max(r.spent[static_cast<std::size_t>(Phase::fuzzing)], 1.0);
  for (const TargetResult& t : r.targets) {
    text += fmt::format("<h3>{}</h3>\n", xml_escaped(t.name));
    if (t.curve.samples().empty()) {
      text += "<p>No run of it reached the end of its seeds.</p>\n";
      continue;
    }
    text += chart(t.name + ": coverage (edges)", t.curve.samples(), seconds,
                  [](const Sample& s) { return s.coverage; });
    text += chart(t.name + ": executions per second", t.curve.samples(), seconds,
                  [](const Sample& s) { return s.per_second; });
  }
  return text;
}

std::string finding_html(const Finding& f) {
  std::string text = fmt::format("<div class=\"finding{}\"><h3>{}: {} ({})</h3>\n<table>\n",
                                 f.standing == Standing::fixed ? " fixed" : "", standing_name(f.standing),
                                 xml_escaped(f.law.empty() ? f.kind : f.law), xml_escaped(f.target));
  const auto line = [&](const char* name, const std::string& value, bool code) {
    if (value.empty()) return;
    text += fmt::format("<tr><td>{}</td><td class=\"l\">{}{}{}</td></tr>\n", name, code ? "<code>" : "",
                        xml_escaped(value), code ? "</code>" : "");
  };
  line("implementation", f.implementation, true);
  line("case", f.smallest, true);
  line("found as", f.line == f.smallest ? "" : f.line, true);
  line("reason", f.reason, false);
  line("place", f.place, false);
  line("suspect", f.suspect.empty() ? "" : fmt::format("{} ({})", f.suspect_what, f.suspect), false);
  line("note", f.note, false);
  line("seen", fmt::format("{} times, first {}", f.times, f.first_seen), false);
  line("repeat", f.repeat, true);
  return text + "</table></div>\n";
}

std::string checks_html(const Report& r) {
  std::string text = fmt::format("<h2>Nightly tests</h2>\n<p>{} passed, {} failed, {} not run{}</p>\n",
                                 r.tests.count(Outcome::passed), r.tests.count(Outcome::failed),
                                 r.tests.count(Outcome::not_run),
                                 r.tests.problem.empty() ? "" : " (" + xml_escaped(r.tests.problem) + ")");
  text += "<table>\n" + row({"test", "outcome", "seconds", "why"}, "th");
  for (const TestResult& t : r.tests.tests)
    text += row({t.name, std::string(outcome_name(t.outcome)), fmt::format("{:.1f}", t.seconds), t.why});
  text += fmt::format(
      "</table>\n<h2>Mutants</h2>\n<p>{} of {} killed, {} survived, {} equivalent, {} not run {}</p>\n",
      r.matrix.killed, r.matrix.all, r.matrix.survived, r.matrix.equivalent, r.matrix.not_run,
      xml_escaped(r.matrix.problem));
  for (const std::string& name : r.matrix.survivors)
    text += fmt::format("<p>survived: {}</p>\n", xml_escaped(name));
  return text + fmt::format("<p>Mutation score: {}</p>\n",
                            xml_escaped(r.mutation.score.empty() ? r.mutation.problem : r.mutation.score));
}

}  // namespace

std::string night_html(const Report& r) {
  std::string text = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>sinktrap night "
      "{}</title>\n<style>{}</style>\n</head>\n<body>\n<h1>sinktrap: night {} of {}</h1>\n<p class=\"verdict "
      "{}\">{}</p>\n<p>{:.1f} of {:.0f} s, {} jobs; ended {}</p>\n",
      r.night, kStyle, r.night, xml_escaped(r.started), r.bad() ? "bad" : "good",
      xml_escaped(verdict_line(r)), r.seconds, r.plan.seconds, r.plan.jobs, xml_escaped(r.ended));
  if (r.resumed)
    text +=
        fmt::format("<p>The night of {} did not end: {:.1f} of {:.0f} s, in {}. What it found is here.</p>\n",
                    xml_escaped(r.resumed->started), r.resumed->elapsed, r.resumed->budget,
                    xml_escaped(r.resumed->phase));
  if (r.before)
    text += fmt::format("<p>The night before, {}: {} findings, {} tests failed, {} mutants killed.</p>\n",
                        xml_escaped(r.before->started), r.before->findings, r.before->tests_failed,
                        r.before->killed);
  for (const std::string& p : r.problems) text += fmt::format("<p>Problem: {}</p>\n", xml_escaped(p));
  text += fmt::format("<h2>Findings</h2>\n<p>{} new, {} open, {} no longer fail, {} waiting for triage</p>\n",
                      r.count(Standing::fresh), r.count(Standing::open) + r.count(Standing::unchecked),
                      r.count(Standing::fixed), r.waiting);
  for (const Finding& f : r.findings) text += finding_html(f);
  text += targets_html(r) + checks_html(r);
  text += "<h2>Time</h2>\n<table>\n" + row({"phase", "planned s", "spent s"}, "th");
  for (const Step& step : r.plan.steps)
    text += row({std::string(phase_name(step.phase)), fmt::format("{:.1f}", step.seconds),
                 fmt::format("{:.1f}", r.spent[static_cast<std::size_t>(step.phase)])});
  return text + "</table>\n</body>\n</html>\n";
}

}  // namespace sinktrap::nightly
