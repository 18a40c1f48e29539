// What a run makes of an implementation that refuses: some layers are its choice, all of them are no pass.
#include "gate/run.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "contract/verdict.hpp"
#include "gate/report.hpp"
#include "reference/table.hpp"

namespace sinktrap {
namespace {

using Table = sinktrap_implementation_table;

std::int32_t unsupported(sinktrap_verdict* v) {
  *v = verdict_of(SINKTRAP_UNSUPPORTED);
  return SINKTRAP_UNSUPPORTED;
}
std::int32_t refuses_all(const sinktrap_layer*, const char*, sinktrap_instance**, sinktrap_verdict* v) {
  return unsupported(v);
}
std::int32_t refuses_odd_hidden_sizes(const sinktrap_layer* layer, const char* options,
                                      sinktrap_instance** instance, sinktrap_verdict* v) {
  if (layer->hidden_size % 2 != 0) return unsupported(v);
  return reference::f64_table()->create(layer, options, instance, v);
}

std::shared_ptr<const Implementation> with_create(decltype(Table::create) create) {
  static Table tables[2];
  Table& table = tables[create == refuses_all];
  table = *reference::f64_table();
  table.create = create;
  return Implementation::from_table(&table, "refusing", "");
}

struct Scratch {
  std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / ("run_test-" + std::to_string(getpid()));
  ~Scratch() { std::filesystem::remove_all(path); }
};

RunResult run_of(const std::shared_ptr<const Implementation>& implementation, const Scratch& scratch,
                 std::vector<const Law*> laws = {}) {
  RunOptions options;
  options.suite = find_suite("smoke");
  options.laws = std::move(laws);
  options.cases = 300;
  options.folder = scratch.path.string();
  options.lineup = LineupMode::off;
  return run_suite({implementation}, {}, options);
}

TEST(Refusals, OfEveryLayerAreNoPass) {
  const Scratch scratch;
  const auto refusing = with_create(refuses_all);
  const RunResult result = run_of(refusing, scratch);
  EXPECT_TRUE(result.implementations[0].served_nothing(result.laws));
  EXPECT_FALSE(result.conforming());
  EXPECT_NE(text_report(result).find("NOTHING SERVED"), std::string::npos);
  EXPECT_NE(serves_nothing(refusing, scratch.path.string()).find("create was refused: unsupported"),
            std::string::npos);
}

TEST(Refusals, OfSomeLayersPass) {
  const Scratch scratch;
  const auto choosy = with_create(refuses_odd_hidden_sizes);
  const RunResult result = run_of(choosy, scratch);
  std::int64_t refused = 0;
  for (const LawResult& r : result.implementations[0].laws)
    refused += r.counts[static_cast<std::size_t>(Status::unsupported)];
  EXPECT_GT(refused, 0);
  EXPECT_TRUE(result.conforming()) << text_report(result);
  EXPECT_EQ(serves_nothing(choosy, scratch.path.string()), "");
}

TEST(Refusals, OfLayersSayNothingAboutValidation) {
  const Scratch scratch;
  EXPECT_TRUE(run_of(with_create(refuses_all), scratch, {find_law("verdicts-agree")}).conforming());
}

}  // namespace
}  // namespace sinktrap
