// Worker processes: crashes and hangs cost one case.
#include "judge/worker.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/time.h>
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
  // Files of the process: the standard ones and what a worker talks through.
  for (int file = STDERR_FILENO + 1; file < 64; ++file) {
    if (t.line.rfind("close", 0) == 0) close(file);
    if (t.line == "write" || t.line == "begin")
      (void)!write(file, "tkns\xff\xff\xff\xff", t.line == "write" ? 8 : 3);
  }
  if (t.line == "begin") _exit(0);
  if (t.line == "hang" || t.line == "close and hang")
    for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
  if (t.line == "stop")  // in a moment, when the answer has been sent
    std::thread([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      kill(getpid(), SIGSTOP);
    }).detach();
  if (t.line == "spin")
    for (volatile bool forever = true; forever;) {
    }
  if (t.line.rfind("compute", 0) == 0) {
    const std::clock_t time = t.line == "compute" ? CLOCKS_PER_SEC / 5 : CLOCKS_PER_SEC / 5 * 3;
    for (const std::clock_t end = std::clock() + time; std::clock() < end;) {
    }
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

// One core that five other processes want too, as long as this lives.
class Crowd {
 public:
  Crowd() {
    cpu_set_t one;
    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof mine_, &mine_) != 0) throw std::runtime_error("no affinity");
    for (int cpu = 0; CPU_COUNT(&one) == 0 && cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &mine_)) CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0) throw std::runtime_error("no affinity");
    for (pid_t& other : others_) {
      other = fork();
      if (other != 0) continue;
      alarm(60);
      for (volatile bool forever = true; forever;) {
      }
      _exit(0);
    }
  }
  ~Crowd() {
    for (const pid_t other : others_) {
      kill(other, SIGKILL);
      waitpid(other, nullptr, 0);
    }
    sched_setaffinity(0, sizeof mine_, &mine_);
  }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;
  static bool is_counted() {
    std::ifstream counts("/proc/self/schedstat");
    std::int64_t running = 0;
    return counts >> running && running > 0;
  }

 private:
  cpu_set_t mine_;
  pid_t others_[5];
};

// A fifth of a second of computing, with a limit of twice that.
TEST(Workers, ALimitDoesNotCountTheTimeWithoutACore) {
  if (!Crowd::is_counted()) GTEST_SKIP() << "the kernel keeps no /proc/PID/schedstat";
  const Crowd crowd;
  Workers workers(act, {1, 0.4, ""});
  const Judgement j = workers.run_one({0, 0, "compute"});
  EXPECT_EQ(j.status, Status::passed) << j.reason;
}

// Holds this process up for 2 ms every few steps, wherever it is, as a loaded machine does. Not in fork(),
// which would begin again every time.
class HeldUp {
 public:
  HeldUp() {
    static const int at_fork =
        pthread_atfork([] { set(SIG_BLOCK); }, [] { set(SIG_UNBLOCK); }, [] { set(SIG_UNBLOCK); });
    if (at_fork != 0) throw std::runtime_error("no pthread_atfork");
    struct sigaction action {};
    action.sa_handler = [](int) {
      usleep(2000);
      static unsigned times = 0;
      in_a_while(25 << (times++ % 5));  // 25 to 400 us: few steps as a rule, enough for the longest at times
    };
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, &before_);
    in_a_while(25);
  }
  ~HeldUp() {
    in_a_while(0);
    sigaction(SIGALRM, &before_, nullptr);
  }
  HeldUp(const HeldUp&) = delete;
  HeldUp& operator=(const HeldUp&) = delete;

 private:
  static void set(int how) {
    sigset_t alarms;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    sigprocmask(how, &alarms, nullptr);
  }
  static void in_a_while(int microseconds) {
    const itimerval once{{0, 0}, {0, microseconds}};
    setitimer(ITIMER_REAL, &once, nullptr);
  }
  struct sigaction before_ {};
};

// The time that a worker waited for a core grows while it is looked at: what was late is not in time again.
TEST(Workers, AHangEndsOnACoreThatOthersWant) {
  const Crowd crowd;
  Workers workers(act, {2, 0.02, ""});
  const HeldUp held_up;
  for (int k = 0; k < 20; ++k) EXPECT_EQ(workers.run_one({0, 0, "spin"}).status, Status::timed_out);
}

// As from a terminal: everything is stopped, and goes on after more than the limit.
TEST(Workers, ALimitDoesNotCountTheTimeInWhichAllIsStopped) {
  const pid_t group = fork();
  if (group == 0) {
    setpgid(0, 0);
    Workers workers(act, {1, 2, ""});
    const Judgement j = workers.run_one({0, 0, "compute slowly"});
    _exit(j.status == Status::passed ? 0 : 1);
  }
  setpgid(group, group);
  usleep(300000);
  ASSERT_EQ(kill(-group, SIGSTOP), 0);
  usleep(3000000);
  ASSERT_EQ(kill(-group, SIGCONT), 0);
  int status = 0;
  ASSERT_EQ(waitpid(group, &status, 0), group);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

// The implementation shares a process with what judges it, and must not be able to answer in its place.
TEST(Workers, WhatIsWrittenIntoTheirFilesIsNoAnswer) {
  Workers workers(act, {1, 5, ""});
  const Judgement written = workers.run_one({0, 0, "write"});
  EXPECT_EQ(written.status, Status::crashed);
  EXPECT_NE(written.reason.find("not its own"), std::string::npos) << written.reason;
  EXPECT_EQ(workers.run_one({0, 0, "begin"}).status, Status::crashed);
  EXPECT_EQ(workers.run_one({0, 0, "close"}).status, Status::crashed);
  EXPECT_EQ(workers.run_one({0, 0, "fine"}).status, Status::passed);
  Workers impatient(act, {1, 0.3, ""});
  EXPECT_EQ(impatient.run_one({0, 0, "close and hang"}).status, Status::timed_out);
  EXPECT_EQ(impatient.run_one({0, 0, "fine"}).status, Status::passed);
}

// One that has answered, and does not see any more that its input has ended.
TEST(Workers, AnIdleOneThatDoesNotEndIsKilled) {
  const auto start = std::chrono::steady_clock::now();
  {
    Workers workers(act, {1, 5, ""});
    EXPECT_EQ(workers.run_one({0, 0, "stop"}).status, Status::passed);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
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
