// Child processes of a night. Each is the head of a process group that ends with the night, however that
// ends: a guard process beside it kills the groups of a parent that is gone (SIGKILL included).
#pragma once
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sinktrap::nightly {

using Clock = std::chrono::steady_clock;

// Start it before anything that it has to guard, one in a process.
class Guard {
 public:
  // Throws std::runtime_error when no process can be started.
  Guard();
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  void add(pid_t group) const { tell(group); }
  void remove(pid_t group) const { tell(-group); }

 private:
  void tell(pid_t message) const;
  pid_t pid_ = -1;
  int pipe_ = -1;
};

struct Command {
  std::vector<std::string> arguments;  // the first is the program: a path, or a name for PATH
  std::vector<std::pair<std::string, std::string>> environment;  // beside that of the parent
  std::string folder;                                            // to run in; empty: the parent's
  std::function<int()> inside;  // instead of a program: runs in the child; its result is the exit code
};

class Process {
 public:
  using Line = std::function<void(std::string_view)>;
  // Standard output and error come line by line to `line`; standard input is empty. A program that cannot be
  // started ends with code 127 and a line that says why. Throws std::runtime_error when no process can be
  // made.
  Process(const Guard& guard, const Command& command, Line line);
  ~Process();  // kills what still runs
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  int output() const { return output_; }  // for poll; -1 when closed
  // Reads what there is, and looks whether the process has ended.
  void attend();
  bool ended() const { return pid_ < 0; }
  bool signalled() const { return signal_ != 0; }
  // 128 + signal for a process that a signal ended, as in a shell.
  int code() const { return signal_ != 0 ? 128 + signal_ : code_; }
  double seconds() const;  // since its start, up to its end
  // SIGTERM to the group, then SIGKILL when `grace` seconds have passed (by attend). A second call changes
  // nothing.
  void stop(double grace);
  bool stopped() const { return stop_at_.has_value(); }

 private:
  void read_output();
  void finish(int status);

  const Guard& guard_;
  Line line_;
  pid_t pid_ = -1;
  int output_ = -1, code_ = -1, signal_ = 0;
  std::string part_;  // a line that has not ended
  Clock::time_point start_ = Clock::now(), end_{};
  std::optional<Clock::time_point> stop_at_, kill_at_;
};

// Waits until one of them has something to say or to end, at most `seconds`.
void wait_for(const std::vector<Process*>& processes, double seconds);

// Set by SIGINT, SIGTERM and SIGHUP once watch_signals was called: the signal, or 0.
int caught_signal();
void watch_signals();

// Runs one command to its end, or stops it after `seconds` or on a signal. Absent: it did not end by itself.
std::optional<int> run_within(const Guard& guard, const Command& command, double seconds,
                              const Process::Line& line);

}  // namespace sinktrap::nightly
