// What a child says before it ends, and what is said of one that does not come so far.
#include "judge/child.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>

namespace sinktrap {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

std::string said(const std::function<std::string()>& work, milliseconds limit = kChildLimit) {
  return said_by_child("it", "while it worked", work, limit);
}

TEST(Child, SaysWhatItsWorkReturns) {
  EXPECT_EQ(said([] { return std::string("two\nlines"); }), "two\nlines");
  EXPECT_EQ(said([] { return std::string(); }), "");
  const std::string large(300000, 'x');
  EXPECT_EQ(said([&] { return large + "y"; }), large + "y");
}

TEST(Child, ThatEndsTheProcessHasNotSaidThatAllIsWell) {
  EXPECT_EQ(said([]() -> std::string { _exit(0); }), "it ended the process with status 0 while it worked");
  EXPECT_EQ(said([]() -> std::string { _exit(3); }), "it ended the process with status 3 while it worked");
}

TEST(Child, ThatIsKilledIsNamedWithItsSignal) {
  const std::string text = said([]() -> std::string {
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
    return "";
  });
  EXPECT_EQ(text, "it was killed by signal 11 (Segmentation fault) while it worked");
}

TEST(Child, ThatDoesNotEndIsKilled) {
  const auto start = steady_clock::now();
  const std::string text = said(
      []() -> std::string {
        signal(SIGALRM, SIG_IGN);
        for (;;) pause();
      },
      milliseconds(200));
  EXPECT_EQ(text, "it did not end within 0.2 s while it worked");
  EXPECT_LT(steady_clock::now() - start, std::chrono::seconds(20));
}

// A library that starts a server when it is loaded: the pipe stays open as long as the server lives.
TEST(Child, ThatLeavesAProcessBehindIsNotWaitedForForever) {
  const auto start = steady_clock::now();
  const std::string text = said([] {
    if (fork() == 0) {
      sleep(60);
      _exit(0);
    }
    return std::string("fine");
  });
  EXPECT_EQ(text, "fine");
  EXPECT_LT(steady_clock::now() - start, kChildLimit);
}

TEST(Child, ThatClosesItsFilesIsStillWaitedFor) {
  const std::string text = said([]() -> std::string {
    for (int file = 3; file < 64; ++file) close(file);
    usleep(50000);
    _exit(0);
  });
  EXPECT_EQ(text, "it ended the process with status 0 while it worked");
}

}  // namespace
}  // namespace sinktrap
