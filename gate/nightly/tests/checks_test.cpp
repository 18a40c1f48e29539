// What ran, what did not, and what must not outlive its parent.
#include "gate/nightly/checks.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <thread>

#include "gate/nightly/files.hpp"
#include "gate/nightly/targets.hpp"
#include "scratch.hpp"

namespace sinktrap::nightly {
namespace {

TEST(TestOrder, FailuresThenTheLongUnseenThenTheShort) {
  const std::map<std::string, TestHistory> history = {{"failed", {900, Outcome::failed, 8}},
                                                      {"old", {500, Outcome::passed, 2}},
                                                      {"short", {1, Outcome::passed, 8}},
                                                      {"long", {700, Outcome::passed, 8}}};
  EXPECT_EQ(test_order({"long", "short", "never", "old", "failed"}, history),
            (std::vector<std::string>{"failed", "never", "old", "short", "long"}));
}

TEST(TestNames, AreReadFromTheListingOfCtest) {
  EXPECT_EQ(
      test_names("Test project /b\n  Test  #12: run.generated.simt\n  Test #345: a/b.c\n\nTotal Tests: 2\n"),
      (std::vector<std::string>{"run.generated.simt", "a/b.c"}));
  EXPECT_TRUE(test_names("No tests were found!!!\n").empty());
}

TEST(TestOutput, OnlyWhatPassedIsPassed) {
  const auto outcome = [](int code, const std::string& line) { return read_test_output("t", code, {line}); };
  EXPECT_EQ(outcome(0, "1/1 Test #1: t ....   Passed    0.02 sec").outcome, Outcome::passed);
  EXPECT_EQ(outcome(0, "1/1 Test #1: t ....***Skipped   0.02 sec").outcome, Outcome::not_run);
  EXPECT_EQ(outcome(0, "No tests were found!!!").outcome, Outcome::not_run);
  EXPECT_EQ(outcome(8, "1/1 Test #1: t ....***Failed    0.02 sec").outcome, Outcome::failed);
  EXPECT_EQ(outcome(8, "1/1 Test #1: t ....***Failed    0.02 sec").why, "Failed    0.02 sec");
  EXPECT_EQ(outcome(8, "1/1 Test #1: t ....***Not Run   0.00 sec").outcome, Outcome::failed)
      << "it is not built";
}

void write_tests(const std::filesystem::path& folder, const std::string& text) {
  std::ofstream(folder / "CTestTestfile.cmake") << text;
}

TEST(NightlyTests, WhatDoesNotFitIsNotRunAndNeverPassed) {
  const Scratch scratch;
  write_tests(scratch.path(), R"(
add_test(passes "/bin/true")
add_test(fails "/bin/false")
add_test(sleeps "/bin/sleep" "60")
add_test(known_to_be_long "/bin/sleep" "61")
add_test(another_label "/bin/false")
set_tests_properties(passes fails sleeps known_to_be_long PROPERTIES LABELS nightly)
)");
  const Guard guard;
  const auto start = Clock::now();
  const TestsResult r =
      run_tests({guard}, scratch.path().string(), 4, 2, {{"known_to_be_long", {61, Outcome::passed, 0}}});
  EXPECT_LT(std::chrono::duration<double>(Clock::now() - start).count(), 20);
  std::map<std::string, TestResult> by_name;
  for (const TestResult& t : r.tests) by_name[t.name] = t;
  ASSERT_EQ(by_name.size(), 4u) << r.problem;
  EXPECT_EQ(by_name["passes"].outcome, Outcome::passed);
  EXPECT_EQ(by_name["fails"].outcome, Outcome::failed);
  EXPECT_EQ(by_name["sleeps"].outcome, Outcome::not_run);
  EXPECT_NE(by_name["sleeps"].why.find("budget"), std::string::npos);
  EXPECT_EQ(by_name["known_to_be_long"].why, "budget");
}

TEST(NightlyTests, AFolderWithoutTestsIsSaid) {
  const Scratch scratch;
  const Guard guard;
  const TestsResult r = run_tests({guard}, scratch.path().string(), 10, 1, {});
  EXPECT_TRUE(r.tests.empty());
  EXPECT_NE(r.problem.find("not run"), std::string::npos) << r.problem;
}

TEST(Process, LinesComeAsTheyAreWritten) {
  const Guard guard;
  std::vector<std::string> lines;
  Command command;
  command.arguments = {"/bin/sh", "-c", "echo one; echo two >&2; printf three; exit 5"};
  EXPECT_EQ(run_within(guard, command, 20, [&](std::string_view l) { lines.emplace_back(l); }), 5);
  EXPECT_EQ(lines, (std::vector<std::string>{"one", "two", "three"}));
}

TEST(Process, AProgramThatIsMissingIsSaid) {
  const Guard guard;
  std::string said;
  Command command;
  command.arguments = {"/no/such/program"};
  EXPECT_EQ(run_within(guard, command, 20, [&](std::string_view l) { said = l; }), 127);
  EXPECT_NE(said.find("/no/such/program"), std::string::npos);
}

TEST(Process, WhatDoesNotHearIsKilledInTime) {
  const Guard guard;
  Command command;
  command.arguments = {"/bin/sh", "-c", "trap '' TERM; while true; do sleep 1; done"};
  const auto start = Clock::now();
  EXPECT_EQ(run_within(guard, command, 0.5, Process::Line()), std::nullopt);
  EXPECT_LT(std::chrono::duration<double>(Clock::now() - start).count(), 20);
}

bool is_gone(pid_t pid) { return kill(pid, 0) != 0 && errno == ESRCH; }

// The pid that a line of a file holds, when it is there.
pid_t pid_in(const std::filesystem::path& file) {
  const auto text = read_whole(file);
  return text && text->find('\n') != std::string::npos ? static_cast<pid_t>(std::stol(*text)) : 0;
}

template <class Condition>
bool within(double seconds, Condition&& condition) {
  const auto start = Clock::now();
  while (!condition()) {
    if (std::chrono::duration<double>(Clock::now() - start).count() > seconds) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

TEST(Process, ChildrenAndTheirChildrenEndWithAKilledParent) {
  const Scratch scratch;
  const auto child = scratch.path() / "child", grandchild = scratch.path() / "grandchild";
  const pid_t parent = fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    const Guard guard;
    Command command;
    // The shell's own child knows nothing of a parent's death; only the group reaches it.
    command.arguments = {
        "/bin/sh", "-c",
        "sleep 600 & echo $! >" + grandchild.string() + "; echo $$ >" + child.string() + "; wait"};
    run_within(guard, command, 600, Process::Line());
    _exit(0);
  }
  ASSERT_TRUE(within(20, [&] { return pid_in(child) > 0 && pid_in(grandchild) > 0; }));
  const pid_t first = pid_in(child), second = pid_in(grandchild);
  EXPECT_FALSE(is_gone(first));
  EXPECT_FALSE(is_gone(second));
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  EXPECT_TRUE(within(20, [&] { return is_gone(first) && is_gone(second); }));
}

TEST(Targets, AreReadFromTheListOfTheBuild) {
  const Scratch scratch;
  for (const char* name : {"fuzz_a", "fuzz_b"}) std::filesystem::copy("/bin/true", scratch.path() / name);
  write_whole(scratch.path() / "targets.txt", "fuzz_a -max_len=64 -timeout=5\n\nfuzz_b\n");
  make_folder(scratch.path() / "corpus/seeds/fuzz_b");
  const auto read =
      read_targets(scratch.path() / "targets.txt", scratch.path() / "corpus", scratch.path() / "no.dict");
  ASSERT_TRUE(std::holds_alternative<std::vector<Target>>(read)) << std::get<std::string>(read);
  const auto& targets = std::get<std::vector<Target>>(read);
  ASSERT_EQ(targets.size(), 2u);
  EXPECT_EQ(targets[0].flags, (std::vector<std::string>{"-max_len=64", "-timeout=5"}));
  EXPECT_TRUE(targets[0].seeds.empty());
  EXPECT_EQ(targets[1].seeds, scratch.path() / "corpus/seeds/fuzz_b");
}

TEST(Targets, ABadListIsOneLineThatSaysWhatToDo) {
  const Scratch scratch;
  const auto error = [&](const std::string& text) {
    write_whole(scratch.path() / "targets.txt", text);
    const auto read =
        read_targets(scratch.path() / "targets.txt", scratch.path(), scratch.path() / "no.dict");
    return std::holds_alternative<std::string>(read) ? std::get<std::string>(read) : "";
  };
  const auto missing = read_targets(scratch.path() / "nowhere.txt", scratch.path(), "");
  EXPECT_NE(std::get<std::string>(missing).find("clang-14"), std::string::npos);
  EXPECT_NE(error("").find("names no target"), std::string::npos);
  EXPECT_NE(error("fuzz_missing -runs=1\n").find("targets.txt:1: no program"), std::string::npos);
  EXPECT_NE(error("fuzz_a max_len=3\n").find("max_len=3"), std::string::npos);
  EXPECT_NE(error("../bin/true\n").find("no program"), std::string::npos);
}

}  // namespace
}  // namespace sinktrap::nightly
