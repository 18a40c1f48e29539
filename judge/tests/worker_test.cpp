// Worker processes: crashes and hangs cost one case.
#include "judge/worker.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "judge/phase.hpp"

namespace sinktrap {
namespace {

std::string scratch(const char* name) {
  const auto folder =
      std::filesystem::temp_directory_path() / (std::string("sinktrap-") + name + std::to_string(getpid()));
  std::filesystem::remove_all(folder);
  return folder.string();
}

Judgement act(const Task& t) {
  Judgement j;
  j.reason = t.line;
  if (t.line == "segfault") {
    const Phase phase("forward");
    raise(SIGSEGV);
  }
  if (t.line == "exit") _exit(3);
  if (t.line == "hang")
    for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
  if (t.line == "compute")
    for (const std::clock_t end = std::clock() + CLOCKS_PER_SEC / 5; std::clock() < end;) {
    }
  return j;
}

TEST(Workers, EveryCaseIsAnsweredAndOnlyTheBadOnesAreLost) {
  signal(SIGSEGV, SIG_DFL);  // a sanitizer's handler would print its report here
  Workers workers(act, {2, 0.5, scratch("workers")});
  const std::vector<std::string> lines = {"a", "segfault", "b", "hang", "c", "exit", "d", "e"};
  std::size_t next = 0;
  std::map<std::string, Judgement> results;
  workers.run(
      [&]() -> std::optional<Task> {
        return next < lines.size() ? std::optional<Task>({0, 0, lines[next++]}) : std::nullopt;
      },
      [&](const Task& t, const Judgement& j) { results[t.line] = j; });
  ASSERT_EQ(results.size(), lines.size());
  for (const char* fine : {"a", "b", "c", "d", "e"}) EXPECT_EQ(results[fine].status, Status::passed) << fine;
  EXPECT_EQ(results["segfault"].status, Status::crashed);
  EXPECT_NE(results["segfault"].reason.find("in forward"), std::string::npos) << results["segfault"].reason;
  EXPECT_EQ(results["exit"].status, Status::crashed);
  EXPECT_NE(results["exit"].reason.find("status 3"), std::string::npos);
  EXPECT_EQ(results["hang"].status, Status::timed_out);
}

// A fifth of a second of computing, with a limit of twice that, on one core that five others want too.
TEST(Workers, ALimitDoesNotCountTheTimeWithoutACore) {
  std::ifstream counts("/proc/self/schedstat");
  std::int64_t running = 0;
  if (!(counts >> running) || running == 0) GTEST_SKIP() << "the kernel keeps no /proc/PID/schedstat";
  cpu_set_t mine;
  ASSERT_EQ(sched_getaffinity(0, sizeof mine, &mine), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; CPU_COUNT(&one) == 0 && cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &mine)) CPU_SET(cpu, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  std::vector<pid_t> others;
  for (int i = 0; i < 5; ++i) {
    const pid_t other = fork();
    if (other == 0) {
      alarm(60);
      for (volatile bool forever = true; forever;) {
      }
      _exit(0);
    }
    others.push_back(other);
  }
  Workers workers(act, {1, 0.4, ""});
  const Judgement j = workers.run_one({0, 0, "compute"});
  for (const pid_t other : others) {
    kill(other, SIGKILL);
    waitpid(other, nullptr, 0);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof mine, &mine), 0);
  EXPECT_EQ(j.status, Status::passed) << j.reason;
}

TEST(Workers, TheLineIsOnDiskWhileTheCaseRuns) {
  const std::string folder = scratch("journal");
  Workers workers(
      [folder](const Task& t) {
        std::ifstream file(folder + "/running-0.case");
        Judgement j;
        std::getline(file, j.reason);
        if (j.reason != t.line) j.status = Status::failed;
        return j;
      },
      {1, 5, folder});
  EXPECT_EQ(workers.run_one({0, 0, "a longer line"}).status, Status::passed);
  EXPECT_EQ(workers.run_one({0, 0, "short"}).status, Status::passed);
}

TEST(Workers, ALargeAnswerAndALargeQuestionArriveWhole) {
  Workers workers(
      [](const Task& t) {
        Judgement j;
        j.details.assign(100, t.line);
        return j;
      },
      {1, 20, ""});
  const std::string line(200000, 'x');
  const Judgement j = workers.run_one({0, 0, line});
  ASSERT_EQ(j.details.size(), 100u);
  EXPECT_EQ(j.details[99], line);
}

TEST(Workers, AFolderThatCannotBeMadeIsAnError) {
  EXPECT_THROW(Workers(act, {1, 1, "/proc/no/such/folder"}), std::runtime_error);
}

}  // namespace
}  // namespace sinktrap
