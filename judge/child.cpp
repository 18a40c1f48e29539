#include "judge/child.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>

namespace sinktrap {
namespace {

using Clock = std::chrono::steady_clock;

void write_all(int fd, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t now = write(fd, text.data() + done, text.size() - done);
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0) _exit(2);
    done += static_cast<std::size_t>(now);
  }
}

// Behind what the child says: an implementation may end the process with status 0 before.
constexpr char kEnd = '\n';

// Adds what can be read now; false at the end of everything.
bool read_some(int file, std::string& text) {
  std::array<char, 4096> chunk{};
  pollfd wait{file, POLLIN, 0};
  while (poll(&wait, 1, 0) > 0) {
    const ssize_t got = read(file, chunk.data(), chunk.size());
    if (got == 0 || (got < 0 && errno != EINTR)) return false;
    if (got > 0) text.append(chunk.data(), static_cast<std::size_t>(got));
  }
  return true;
}

// What the child says until it ends. The end of the pipe says nothing about that: a process that the child
// has started may hold it open, and the child may close it and go on. False when it had to be killed.
bool attend(pid_t child, int file, Clock::time_point deadline, std::string& text, int& status) {
  constexpr int kOften = 5;  // milliseconds between two looks at a child that says nothing
  for (bool open = true; Clock::now() < deadline;) {
    pollfd wait{file, POLLIN, 0};
    poll(&wait, open ? 1 : 0, kOften);
    const bool ended = waitpid(child, &status, WNOHANG) != 0;  // first: all that it wrote is there then
    open = open && read_some(file, text);
    if (ended) return true;
  }
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return false;
}

}  // namespace

std::string end_text(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("was killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return fmt::format("ended the process with status {}", WEXITSTATUS(status));
}

std::string said_by_child(const std::string& who, const std::string& doing,
                          const std::function<std::string()>& work, std::chrono::milliseconds limit) {
  int ends[2];
  if (pipe(ends) != 0) return fmt::format("cannot open a pipe: {}", std::strerror(errno));
  std::fflush(nullptr);  // code that calls exit would write it again
  const pid_t child = fork();
  if (child < 0) {
    close(ends[0]);
    close(ends[1]);
    return fmt::format("cannot start a process: {}", std::strerror(errno));
  }
  if (child == 0) {
    close(ends[0]);
    write_all(ends[1], work() + kEnd);
    _exit(0);
  }
  close(ends[1]);
  std::string said;
  int status = 0;
  const bool in_time = attend(child, ends[0], Clock::now() + limit, said, status);
  close(ends[0]);
  if (!in_time)
    return fmt::format("{} did not end within {} s {}", who, std::chrono::duration<double>(limit).count(),
                       doing);
  if (WIFSIGNALED(status) || said.empty() || said.back() != kEnd)
    return fmt::format("{} {} {}", who, end_text(status), doing);
  said.pop_back();
  return said;
}

}  // namespace sinktrap
