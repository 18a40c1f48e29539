#include <nlohmann/json.hpp>
#include <span>

#include "gate/report.hpp"

namespace sinktrap {
namespace {

using Json = nlohmann::ordered_json;

Json counts_json(const LawResult& r) {
  Json counts = Json::object();
  for (int s = 0; s < kStatusCount; ++s)
    counts[std::string(status_name(static_cast<Status>(s)))] = r.counts[static_cast<std::size_t>(s)];
  return counts;
}

// Power per fault kind over some laws: in how many judgements the case could see it, and in how many it could
// not.
Json power_json(std::span<const LawResult> laws) {
  Json power = Json::object();
  for (const reference::FaultKindRow& row : reference::fault_kinds()) {
    const auto k = static_cast<std::size_t>(row.kind);
    std::int64_t seen = 0, vacuous = 0;
    for (const LawResult& r : laws) seen += r.kinds_seen[k], vacuous += r.kinds_vacuous[k];
    power[std::string(row.name)] = {{"seen", seen}, {"vacuous", vacuous}};
  }
  return power;
}

Json lineup_json(const Lineup& lineup) {
  Json j;
  j["compared"] = lineup.compared;
  j["suspects"] = Json::array();
  for (const Suspect& s : lineup.suspects)
    j["suspects"].push_back({{"mutant", s.name}, {"what", s.what}, {"matched", s.matched}});
  j["parts_compared"] = lineup.parts_compared;
  j["parts"] = Json::array();
  for (const Suspect& s : lineup.parts) j["parts"].push_back({{"what", s.what}, {"matched", s.matched}});
  j["stage"] = lineup.stage;
  j["localised_on"] = lineup.localised_on;
  j["localisation"] = lineup.localisation;
  return j;
}

Json failure_json(const Implementation& implementation, const Law& law, const Failure& f) {
  Json j;
  j["case"] = f.line;
  j["status"] = status_name(f.judgement.status);
  j["reason"] = f.judgement.reason;
  j["details"] = f.judgement.details;
  if (!f.shrunk.empty()) {
    j["shrunk"] = f.shrunk;
    j["shrunk_reason"] = f.shrunk_judgement.reason;
    j["shrunk_details"] = f.shrunk_judgement.details;
  }
  j["repeat"] = repeat_command(implementation, law, f.shrunk.empty() ? f.line : f.shrunk);
  return j;
}

}  // namespace

std::string json_report(const RunResult& result) {
  Json report;
  report["program"] = "sinktrap";
  report["suite"] = result.suite;
  report["seed"] = result.seed;
  report["seconds"] = result.seconds;
  report["conforming"] = result.conforming();
  report["cases"] = result.cases();
  report["implementations"] = Json::array();
  for (const ImplementationResult& mine : result.implementations) {
    Json implementation;
    implementation["name"] = mine.implementation->name();
    implementation["argument"] = mine.implementation->argument();
    implementation["served_nothing"] = mine.served_nothing(result.laws);
    implementation["power"] = power_json(mine.laws);
    implementation["laws"] = Json::array();
    for (std::size_t l = 0; l < result.laws.size(); ++l) {
      const LawResult& r = mine.laws[l];
      Json law;
      law["id"] = result.laws[l]->id;
      law["sentence"] = result.laws[l]->sentence;
      law["cases"] = r.cases();
      law["counts"] = counts_json(r);
      law["elements"] = r.elements;
      law["unjudged_elements"] = r.unjudged;
      law["bound_used"] = r.bound_use;
      law["bound_stage"] = r.bound_stage;
      law["power"] = power_json({&r, 1});
      law["notes"] = r.notes;
      law["failures"] = Json::array();
      for (const Failure& f : r.failures)
        law["failures"].push_back(failure_json(*mine.implementation, *result.laws[l], f));
      implementation["laws"].push_back(std::move(law));
    }
    if (!mine.lineup.empty()) implementation["lineup"] = lineup_json(mine.lineup);
    report["implementations"].push_back(std::move(implementation));
  }
  return report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace sinktrap
