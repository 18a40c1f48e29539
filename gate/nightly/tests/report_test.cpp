// The three forms of a report say the same, and the page needs nothing but itself.
#include "gate/nightly/report.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace sinktrap::nightly {
namespace {

using Json = nlohmann::json;

Report sample_report() {
  Report r;
  r.started = "2026-01-01T00:00:00Z";
  r.ended = "2026-01-01T00:02:00Z";
  r.night = 3;
  r.plan = make_plan(120, 2, 2);
  r.spent.assign(kPhases, 0);
  r.spent[static_cast<std::size_t>(Phase::fuzzing)] = 61.5;
  r.seconds = 117.25;
  r.implementations = {"./faulty.so"};
  for (const char* name : {"fuzz_pack", "fuzz_state"}) {
    TargetResult t;
    t.name = name;
    t.seconds = 60;
    t.executions = 123456;
    t.coverage = 4854;
    t.features = 9164;
    t.corpus_after = 321;
    for (int i = 0; i < 50; ++i)
      t.curve.add({i * 1.2, std::int64_t{i} * 2500, 4000 + i * 17, 9000 + i, 300 + i, 2000.0 + i});
    r.targets.push_back(std::move(t));
  }
  r.targets[1].given_up = "8 runs in a row found only what is known";
  Finding f;
  f.target = "fuzz_pack";
  f.kind = "law";
  f.law = "load-leaves-no-trace";
  f.implementation = "./faulty.so";
  f.reason = "expected <0> & found \"1\"";
  f.line = f.smallest = "pack n=1";
  f.repeat = "./sinktrap check --impl './faulty.so' --law load-leaves-no-trace 'pack n=1'";
  f.times = 5;
  r.findings.push_back(f);
  f.law = "lattice-is-exact";
  f.standing = Standing::fixed;
  r.findings.push_back(f);
  r.tests.tests = {{"a.passes", Outcome::passed, 1, ""},
                   {"a.fails", Outcome::failed, 2, "Failed"},
                   {"a.waits", Outcome::not_run, 0, "budget"}};
  r.matrix.all = 176;
  r.matrix.killed = 48;
  r.matrix.not_run = 128;
  r.mutation.problem = "not run: budget";
  return r;
}

TEST(NightReport, TheJsonIsValidAndHasEveryNumber) {
  const Report r = sample_report();
  const Json j = Json::parse(night_json(r), nullptr, false);
  ASSERT_TRUE(j.is_object());
  EXPECT_EQ(j["targets"].size(), 2u);
  EXPECT_EQ(j["targets"][0]["executions"], 123456);
  EXPECT_EQ(j["targets"][0]["curve"].size(), r.targets[0].curve.samples().size());
  EXPECT_EQ(j["findings"].size(), 2u);
  EXPECT_EQ(j["findings_new"], 1);
  EXPECT_EQ(j["findings_fixed"], 1);
  EXPECT_EQ(j["tests"]["failed"], 1);
  EXPECT_EQ(j["tests"]["not_run"], 1);
  EXPECT_EQ(j["tests"]["passed"], 1);
  EXPECT_EQ(j["kill_matrix"]["killed"], 48);
  EXPECT_EQ(j["exit_code"], 1);
  EXPECT_TRUE(j["interrupted"].is_null());
}

TEST(NightReport, BytesThatAreNoTextDoNotBreakTheJson) {
  Report r = sample_report();
  r.findings[0].reason = "\xff\xfe\x01 \"quoted\"";
  r.problems.emplace_back("\xc3");
  EXPECT_FALSE(Json::parse(night_json(r), nullptr, false).is_discarded());
}

TEST(NightReport, TheTextAndThePageSayTheNumbersOfTheJson) {
  const Report r = sample_report();
  const Json j = Json::parse(night_json(r));
  for (const std::string& form : {night_text(r), night_html(r)}) {
    for (const Json& t : j["targets"])
      for (const char* field : {"executions", "coverage", "features", "corpus_after"})
        EXPECT_NE(form.find(fmt::format("{}", t[field].get<std::int64_t>())), std::string::npos) << field;
    EXPECT_NE(form.find(fmt::format("{:.0f}", j["targets"][0]["executions_per_second"].get<double>())),
              std::string::npos);
    EXPECT_NE(form.find(fmt::format("{} of {}", j["kill_matrix"]["killed"].get<int>(),
                                    j["kill_matrix"]["mutants"].get<int>())),
              std::string::npos);
    EXPECT_NE(form.find("1 passed, 1 failed, 1 not run"), std::string::npos);
    EXPECT_NE(form.find(j["verdict"].get<std::string>()), std::string::npos);
    EXPECT_NE(form.find("a.waits"), std::string::npos);
  }
}

TEST(NightReport, ThePageRefersToNothingOutside) {
  const std::string page = night_html(sample_report());
  for (const char* reference :
       {"http:", "https:", "src=", "href=", "url(", "@import", "<script", "<link", "<iframe"})
    EXPECT_EQ(page.find(reference), std::string::npos) << reference;
  EXPECT_NE(page.find("<svg"), std::string::npos);
  EXPECT_NE(page.find("polyline"), std::string::npos);
}

TEST(NightReport, WhatAFindingSaysIsTextOnThePage) {
  const std::string page = night_html(sample_report());
  EXPECT_NE(page.find("expected &lt;0&gt; &amp; found"), std::string::npos);
  EXPECT_EQ(page.find("expected <0>"), std::string::npos);
}

// Every drawn point of a curve lies on the picture.
TEST(NightReport, CurvesStayInTheirPicture) {
  const std::string page = night_html(sample_report());
  std::size_t at = page.find("points=\"");
  int points = 0;
  for (; at != std::string::npos; at = page.find("points=\"", at + 1)) {
    const std::string list = page.substr(at + 8, page.find('"', at + 8) - at - 8);
    std::size_t from = 0;
    while (from < list.size()) {
      const double x = std::stod(list.substr(from)), y = std::stod(list.substr(list.find(',', from) + 1));
      EXPECT_TRUE(x >= 0 && x <= 460 && y >= 0 && y <= 150) << x << "," << y;
      from = list.find(' ', from) + 1;
      ++points;
    }
  }
  EXPECT_EQ(points, 4 * 50);
}

TEST(NightReport, IsBadForFindingsFailuresAndSurvivorsOnly) {
  Report r = sample_report();
  EXPECT_TRUE(r.bad());
  r.tests.tests[1].outcome = Outcome::not_run;
  EXPECT_TRUE(r.bad()) << "a new finding";
  r.findings.erase(r.findings.begin());
  EXPECT_FALSE(r.bad()) << "what no longer fails, and what was not run, are no findings";
  r.waiting = 1;
  EXPECT_TRUE(r.bad()) << "a finding that waits for triage";
  r.waiting = 0;
  r.matrix.survivors.emplace_back("stale_slot");
  EXPECT_TRUE(r.bad());
}

TEST(NightReport, IsComparedWithTheOneBefore) {
  const auto before = read_before(night_json(sample_report()));
  ASSERT_TRUE(before);
  EXPECT_EQ(before->targets.size(), 2u);
  EXPECT_EQ(before->findings, 1);
  Report r = sample_report();
  r.before = before;
  r.targets[0].coverage *= 2;
  EXPECT_NE(night_text(r).find("+100%"), std::string::npos) << night_text(r);
  for (const char* other :
       {"", "[]", "{", "{\"program\": 3}", "{\"program\": \"sinktrap nightly\", \"targets\": 7}"})
    EXPECT_TRUE(!read_before(other) || read_before(other)->targets.empty()) << other;
}

TEST(NightState, ComesBackAsItWasAndNotCutOff) {
  State s;
  s.last.night = 4;
  s.last.started = "2026-01-01T00:00:00Z";
  s.last.budget = 120;
  s.last.elapsed = 61.5;
  s.last.phase = "kill matrix";
  s.last.finished = false;
  s.last.targets.push_back({"fuzz_pack", 12.5, 1000, 20, 1});
  s.tests["a test with spaces"] = {3.5, Outcome::failed, 3};
  const std::string text = state_text(s);
  State back;
  ASSERT_TRUE(parse_state(text, back));
  EXPECT_EQ(state_text(back), text);
  EXPECT_EQ(back.last.phase, "kill matrix");
  EXPECT_FALSE(back.last.finished);
  for (std::size_t size = 0; size + 1 < text.size(); ++size)
    EXPECT_FALSE(parse_state(text.substr(0, size), back));
}

}  // namespace
}  // namespace sinktrap::nightly
