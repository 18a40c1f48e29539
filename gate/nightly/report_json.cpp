#include <nlohmann/json.hpp>

#include "gate/nightly/report.hpp"

namespace sinktrap::nightly {
namespace {

using Json = nlohmann::ordered_json;

Json target_json(const Report& report, const TargetResult& t) {
  Json j;
  j["target"] = t.name;
  j["seconds"] = t.seconds;
  j["executions"] = t.executions;
  j["executions_per_second"] = speed_of(t);
  j["runs"] = t.runs;
  j["found"] = t.found;
  j["coverage"] = t.coverage;
  j["features"] = t.features;
  j["corpus_before"] = t.corpus_before;
  j["corpus_after"] = t.corpus_after;
  j["merge"] = t.merge;
  j["given_up"] = t.given_up;
  const Before::TargetBefore* before = report.before ? report.before->find(t.name) : nullptr;
  j["before"] = before == nullptr ? Json(nullptr)
                                  : Json{{"executions_per_second", before->per_second},
                                         {"coverage", before->coverage},
                                         {"features", before->features},
                                         {"corpus", before->corpus}};
  j["curve"] = Json::array();
  for (const Sample& s : t.curve.samples())
    j["curve"].push_back({{"seconds", s.seconds},
                          {"executions", s.executions},
                          {"coverage", s.coverage},
                          {"features", s.features},
                          {"corpus", s.corpus},
                          {"executions_per_second", s.per_second}});
  return j;
}

Json finding_json(const Finding& f) {
  Json j;
  j["id"] = f.id;
  j["standing"] = standing_name(f.standing);
  j["target"] = f.target;
  j["kind"] = f.kind;
  j["law"] = f.law.empty() ? Json(nullptr) : Json(f.law);
  j["implementation"] = f.implementation;
  j["reason"] = f.reason;
  j["place"] = f.place;
  j["case"] = f.smallest.empty() ? Json(nullptr) : Json(f.smallest);
  j["found_as"] = f.line.empty() ? Json(nullptr) : Json(f.line);
  j["suspect"] = f.suspect.empty() ? Json(nullptr) : Json(f.suspect);
  j["suspect_is"] = f.suspect_what;
  j["repeat"] = f.repeat;
  j["first_seen"] = f.first_seen;
  j["times"] = f.times;
  j["note"] = f.note;
  return j;
}

Json tests_json(const TestsResult& tests) {
  Json j;
  for (const Outcome o : {Outcome::passed, Outcome::failed, Outcome::not_run})
    j[std::string(outcome_name(o) == "not run" ? "not_run" : outcome_name(o))] = tests.count(o);
  j["problem"] = tests.problem;
  j["tests"] = Json::array();
  for (const TestResult& t : tests.tests)
    j["tests"].push_back(
        {{"test", t.name}, {"outcome", outcome_name(t.outcome)}, {"seconds", t.seconds}, {"why", t.why}});
  return j;
}

// Numbers of another program's file: anything may be there.
double number(const Json& j, const char* name) {
  return j.is_object() && j.contains(name) && j[name].is_number() ? j[name].get<double>() : 0;
}
std::int64_t whole(const Json& j, const char* name) {
  const double v = number(j, name);
  return v > -9e15 && v < 9e15 ? static_cast<std::int64_t>(v) : 0;
}
std::string words(const Json& j, const char* name) {
  return j.is_object() && j.contains(name) && j[name].is_string() ? j[name].get<std::string>() : "";
}
Json part(const Json& j, const char* name) { return j.contains(name) ? j[name] : Json(nullptr); }

}  // namespace

std::string night_json(const Report& r) {
  Json j;
  j["program"] = "sinktrap nightly";
  j["night"] = r.night;
  j["started"] = r.started;
  j["ended"] = r.ended;
  j["budget_seconds"] = r.plan.seconds;
  j["seconds"] = r.seconds;
  j["jobs"] = r.plan.jobs;
  j["verdict"] = verdict_line(r);
  j["exit_code"] = r.bad() ? 1 : 0;
  j["interrupted"] = r.interrupted.empty() ? Json(nullptr) : Json(r.interrupted);
  j["implementations"] = r.implementations;
  j["phases"] = Json::array();
  for (const Step& step : r.plan.steps)
    j["phases"].push_back({{"phase", phase_name(step.phase)},
                           {"planned_seconds", step.seconds},
                           {"seconds", r.spent[static_cast<std::size_t>(step.phase)]}});
  j["resumed"] = nullptr;
  if (r.resumed) {
    j["resumed"] = {{"started", r.resumed->started},
                    {"budget_seconds", r.resumed->budget},
                    {"seconds", r.resumed->elapsed},
                    {"phase", r.resumed->phase},
                    {"targets", Json::array()}};
    for (const auto& t : r.resumed->targets)
      j["resumed"]["targets"].push_back({{"target", t.name},
                                         {"seconds", t.seconds},
                                         {"executions", t.executions},
                                         {"coverage", t.coverage},
                                         {"found", t.found}});
  }
  j["findings_new"] = r.count(Standing::fresh);
  j["findings_open"] = r.count(Standing::open) + r.count(Standing::unchecked);
  j["findings_fixed"] = r.count(Standing::fixed);
  j["findings_waiting"] = r.waiting;
  j["findings"] = Json::array();
  for (const Finding& f : r.findings) j["findings"].push_back(finding_json(f));
  j["targets"] = Json::array();
  for (const TargetResult& t : r.targets) j["targets"].push_back(target_json(r, t));
  j["tests"] = tests_json(r.tests);
  j["kill_matrix"] = {{"mutants", r.matrix.all},       {"killed", r.matrix.killed},
                      {"survived", r.matrix.survived}, {"equivalent", r.matrix.equivalent},
                      {"not_run", r.matrix.not_run},   {"survivors", r.matrix.survivors},
                      {"problem", r.matrix.problem}};
  j["mutation"] = {{"score", r.mutation.score}, {"problem", r.mutation.problem}};
  j["before"] = nullptr;
  if (r.before)
    j["before"] = {{"started", r.before->started},
                   {"findings", r.before->findings},
                   {"tests_failed", r.before->tests_failed},
                   {"killed", r.before->killed}};
  j["problems"] = r.problems;
  return j.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::optional<Before> read_before(const std::string& json) {
  const Json j = Json::parse(json, nullptr, false);
  if (!j.is_object() || words(j, "program") != "sinktrap nightly") return std::nullopt;
  Before b;
  b.started = words(j, "started");
  b.findings = whole(j, "findings_new") + whole(j, "findings_open");
  b.tests_failed = whole(part(j, "tests"), "failed");
  b.killed = whole(part(j, "kill_matrix"), "killed");
  const Json targets = part(j, "targets");
  if (targets.is_array())
    for (const Json& t : targets)
      b.targets.push_back({words(t, "target"), number(t, "executions_per_second"), whole(t, "coverage"),
                           whole(t, "features"), whole(t, "corpus_after")});
  return b;
}

}  // namespace sinktrap::nightly
