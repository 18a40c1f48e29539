#include "gate/nightly/process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <set>
#include <stdexcept>

#include "gate/nightly/bounds.hpp"

namespace sinktrap::nightly {
namespace {

volatile std::sig_atomic_t g_signal = 0;

void remember(int signal) { g_signal = signal; }

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

Clock::time_point in_seconds(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

// Reads groups, and kills those that are left when the other end is gone.
[[noreturn]] void guard_main(int pipe) {
  for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) std::signal(s, SIG_IGN);
  // Everything else that was inherited is closed, so that no lock or pipe of the parent lives on here.
  for (int file = 0; file < 1024; ++file)
    if (file != pipe) close(file);
  std::set<pid_t> groups;
  pid_t message = 0;
  while (true) {
    const ssize_t n = read(pipe, &message, sizeof message);
    if (n < 0 && errno == EINTR) continue;
    if (n != static_cast<ssize_t>(sizeof message)) break;
    if (message > 0)
      groups.insert(message);
    else
      groups.erase(-message);
  }
  for (const pid_t group : groups) kill(-group, SIGKILL);
  _exit(0);
}

[[noreturn]] void child_main(const Command& command, int output, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // it was gone before the line above
  for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) std::signal(s, SIG_DFL);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  close(nothing);
  const auto give_up = [](const std::string& what) {
    dprintf(STDERR_FILENO, "%s: %s\n", what.c_str(), std::strerror(errno));
    _exit(127);
  };
  if (!command.folder.empty() && chdir(command.folder.c_str()) != 0) give_up(command.folder);
  for (const auto& [name, value] : command.environment) setenv(name.c_str(), value.c_str(), 1);
  if (command.inside) {
    int code = 1;
    try {
      code = command.inside();
    } catch (const std::exception& e) {
      dprintf(STDERR_FILENO, "%s\n", e.what());
    }
    fflush(nullptr);
    _exit(code);
  }
  std::vector<char*> arguments;
  for (const std::string& a : command.arguments) arguments.push_back(const_cast<char*>(a.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  give_up(command.arguments[0]);
  _exit(127);
}

}  // namespace

Guard::Guard() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw std::runtime_error(fmt::format("cannot open a pipe: {}", std::strerror(errno)));
  pid_ = fork();
  if (pid_ < 0) {
    close(ends[0]);
    close(ends[1]);
    throw std::runtime_error(fmt::format("cannot start a process: {}", std::strerror(errno)));
  }
  if (pid_ == 0) {
    setpgid(0, 0);  // a signal to the terminal's group is not for it
    guard_main(ends[0]);
  }
  close(ends[0]);
  pipe_ = ends[1];
}

Guard::~Guard() {
  close(pipe_);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
}

void Guard::tell(pid_t message) const {
  while (write(pipe_, &message, sizeof message) < 0 && errno == EINTR) {
  }
}

Process::Process(const Guard& guard, const Command& command, Line line)
    : guard_(guard), line_(std::move(line)) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw std::runtime_error(fmt::format("cannot open a pipe: {}", std::strerror(errno)));
  std::fflush(nullptr);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) {
    close(ends[0]);
    close(ends[1]);
    throw std::runtime_error(fmt::format("cannot start a process: {}", std::strerror(errno)));
  }
  if (pid_ == 0) child_main(command, ends[1], parent);
  setpgid(pid_, pid_);  // here too: whoever comes first
  guard_.add(pid_);
  close(ends[1]);
  output_ = ends[0];
  fcntl(output_, F_SETFL, O_NONBLOCK);
}

Process::~Process() {
  if (pid_ >= 0) {
    kill(-pid_, SIGKILL);
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    finish(status);
  }
  if (output_ >= 0) close(output_);
}

void Process::read_output() {
  char block[1 << 14];
  while (output_ >= 0) {
    const ssize_t n = read(output_, block, sizeof block);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return;  // nothing more for now
    if (n == 0) {
      close(output_);
      output_ = -1;
      break;
    }
    std::string_view text(block, static_cast<std::size_t>(n));
    while (!text.empty()) {
      const std::size_t end = text.find('\n');
      part_.append(text.substr(0, end));
      if (end == std::string_view::npos && part_.size() < Bounds::log_line) break;
      if (line_) line_(part_);
      part_.clear();
      if (end == std::string_view::npos) break;
      text.remove_prefix(end + 1);
    }
  }
}

void Process::finish(int status) {
  read_output();
  if (!part_.empty() && line_) line_(part_);
  part_.clear();
  // What it left behind in its group.
  kill(-pid_, SIGKILL);
  guard_.remove(pid_);
  pid_ = -1;
  end_ = Clock::now();
  if (WIFSIGNALED(status))
    signal_ = WTERMSIG(status);
  else
    code_ = WEXITSTATUS(status);
}

void Process::attend() {
  if (pid_ < 0) return;
  if (kill_at_ && Clock::now() >= *kill_at_) kill(-pid_, SIGKILL);
  int status = 0;
  const pid_t who = waitpid(pid_, &status, WNOHANG);
  if (who == pid_)
    finish(status);
  else
    read_output();
}

double Process::seconds() const { return seconds_between(start_, pid_ < 0 ? end_ : Clock::now()); }

void Process::stop(double grace) {
  if (pid_ < 0 || stop_at_) return;
  stop_at_ = Clock::now();
  kill_at_ = in_seconds(grace);
  kill(-pid_, SIGTERM);
}

void wait_for(const std::vector<Process*>& processes, double seconds) {
  // A process whose output is closed still has to end, and one that must be killed has to be looked at.
  constexpr double kOften = 0.05;
  std::vector<pollfd> waits;
  for (const Process* p : processes)
    if (p->output() >= 0) waits.push_back({p->output(), POLLIN, 0});
  const double most = std::clamp(seconds, 0.0, kOften);
  poll(waits.data(), waits.size(), static_cast<int>(most * 1000));
}

int caught_signal() { return g_signal; }

void watch_signals() {
  g_signal = 0;
  struct sigaction action {};
  action.sa_handler = remember;
  for (const int s : {SIGINT, SIGTERM, SIGHUP}) sigaction(s, &action, nullptr);
}

std::optional<int> run_within(const Guard& guard, const Command& command, double seconds,
                              const Process::Line& line) {
  if (seconds <= 0) return std::nullopt;
  Process process(guard, command, line);
  const auto deadline = in_seconds(seconds);
  while (!process.ended()) {
    wait_for({&process}, seconds_between(Clock::now(), deadline));
    process.attend();
    if (Clock::now() >= deadline || caught_signal() != 0) process.stop(0.5);
  }
  if (process.stopped()) return std::nullopt;
  return process.code();
}

}  // namespace sinktrap::nightly
