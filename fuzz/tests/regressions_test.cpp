// corpus/regressions: every line guards something, and says what. A line that names a mutant must still
// refuse it: a regression that has gone blind is found here, not by the next fault.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "fuzz/files.hpp"
#include "fuzz/protocol.hpp"
#include "judge/worker.hpp"
#include "mutants/mutants.hpp"
#include "properties/law.hpp"

namespace sinktrap::fuzz {

const char* const kTarget = "regressions_test";

namespace {

namespace fs = std::filesystem;

const fs::path kFolder = SINKTRAP_SOURCE_DIR "/corpus/regressions";

struct Regression {
  Case value;
  std::string line, reason, origin;
};

std::vector<Regression> regressions() {
  std::vector<Regression> all;
  for (const auto& file : fs::directory_iterator(kFolder)) {
    if (file.path().extension() != ".cases") continue;
    auto inputs = read_inputs(file.path().string());
    if (const auto* why = std::get_if<std::string>(&inputs)) {
      ADD_FAILURE() << *why;
      continue;
    }
    for (const Input& input : std::get<std::vector<Input>>(inputs)) {
      const auto parsed = parse_case(input.bytes);
      if (const auto* error = std::get_if<CaseError>(&parsed))
        ADD_FAILURE() << input.origin << ":" << error->column << ": " << error->what;
      else
        all.push_back({std::get<Case>(parsed), input.bytes, input.reason, input.origin});
    }
  }
  return all;
}

int index_of_mutant(const std::string& name) {
  const auto& all = mutants();
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].name == name) return static_cast<int>(i);
  return kUnmutated;
}

// All that a reason guards by a mutant: pairs of mutant and law.
std::vector<std::pair<std::string, std::string>> guarded_mutants(const std::string& reason) {
  static const std::regex pattern("guards: mutant ([a-z0-9_]+) under law ([a-z0-9-]+)");
  std::vector<std::pair<std::string, std::string>> list;
  for (std::sregex_iterator it(reason.begin(), reason.end(), pattern), end; it != end; ++it)
    list.emplace_back((*it)[1], (*it)[2]);
  return list;
}

TEST(Regressions, every_line_says_what_it_guards) {
  const auto all = regressions();
  EXPECT_GT(all.size(), 100u);
  for (const Regression& r : all) {
    EXPECT_NE(r.reason.find("guards: "), std::string::npos) << r.origin << " has no `# guards: ...` above it";
    EXPECT_EQ(print_case(r.value), r.line) << r.origin;
    for (const auto& [mutant, law] : guarded_mutants(r.reason)) {
      EXPECT_NE(index_of_mutant(mutant), kUnmutated) << r.origin << ": no mutant " << mutant;
      EXPECT_NE(find_law(law), nullptr) << r.origin << ": no law " << law;
    }
  }
}

// Each in a child: some crash, some hang, and the selection of a mutant is of the whole process.
TEST(Regressions, every_guarded_mutant_still_fails_on_its_line) {
  struct Guard {
    std::string line, mutant, law, origin;
  };
  std::vector<Guard> guards;
  for (const Regression& r : regressions())
    for (const auto& [mutant, law] : guarded_mutants(r.reason))
      guards.push_back({r.line, mutant, law, r.origin});
  ASSERT_GT(guards.size(), 100u);
  // Seconds after which a tiny case counts as hanging; only hang_in_forward gets there.
  constexpr double kHangs = 5;
  Workers workers(
      [&](const Task& t) {
        const Guard& g = guards[t.implementation];
        const auto mutant = select_mutant(index_of_mutant(g.mutant));
        return judge_case(*find_law(g.law), std::get<Case>(parse_case(t.line)), *mutant);
      },
      {2, kHangs, ""});
  std::size_t next = 0, refused = 0;
  workers.run(
      [&]() -> std::optional<Task> {
        if (next == guards.size()) return std::nullopt;
        const std::size_t i = next++;
        return Task{static_cast<std::uint32_t>(i), 0, guards[i].line};
      },
      [&](const Task& t, const Judgement& j) {
        const Guard& g = guards[t.implementation];
        refused += is_bad(j.status) ? 1 : 0;
        EXPECT_TRUE(is_bad(j.status)) << g.origin << ": the mutant " << g.mutant << " passes under " << g.law
                                      << " (" << status_name(j.status) << " " << j.reason << ")";
      });
  EXPECT_EQ(refused, guards.size());
}

// A guard that is a test of its own: that test has to exist.
TEST(Regressions, every_test_that_guards_exists) {
  std::string sources;
  for (const char* folder : {"cases", "contract", "cuda_impl", "fuzz", "gate", "judge", "mutants",
                             "properties", "reference", "zoo"})
    for (const auto& file : fs::recursive_directory_iterator(fs::path(SINKTRAP_SOURCE_DIR) / folder)) {
      if (file.path().extension() != ".cpp" || file.path().string().find("tests") == std::string::npos)
        continue;
      std::ifstream in(file.path());
      std::ostringstream text;
      text << in.rdbuf();
      sources += text.str();
    }
  static const std::regex pattern("guards: test ([A-Za-z0-9_]+)\\.([A-Za-z0-9_]+)");
  int tests = 0;
  for (const Regression& r : regressions())
    for (std::sregex_iterator it(r.reason.begin(), r.reason.end(), pattern), end; it != end; ++it, ++tests)
      EXPECT_NE(sources.find(fmt::format("({}, {})", (*it)[1].str(), (*it)[2].str())), std::string::npos)
          << r.origin << ": no test " << (*it)[0];
  EXPECT_GT(tests, 0);
}

}  // namespace
}  // namespace sinktrap::fuzz
