#include "judge/child.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace sinktrap {
namespace {

constexpr unsigned kSeconds = 30;  // a library of kernels loads in less, on a loaded machine too

void write_all(int fd, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t now = write(fd, text.data() + done, text.size() - done);
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0) _exit(2);
    done += static_cast<std::size_t>(now);
  }
}

}  // namespace

std::string said_by_child(const std::string& who, const std::string& doing,
                          const std::function<std::string()>& work) {
  int ends[2];
  if (pipe(ends) != 0) return fmt::format("cannot open a pipe: {}", std::strerror(errno));
  const pid_t child = fork();
  if (child < 0) {
    close(ends[0]);
    close(ends[1]);
    return fmt::format("cannot start a process: {}", std::strerror(errno));
  }
  if (child == 0) {
    alarm(kSeconds);
    write_all(ends[1], work());
    _exit(0);
  }
  close(ends[1]);
  std::string said;
  std::array<char, 4096> chunk{};
  for (ssize_t got; (got = read(ends[0], chunk.data(), chunk.size())) > 0 || (got < 0 && errno == EINTR);)
    if (got > 0) said.append(chunk.data(), static_cast<std::size_t>(got));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status))
    return fmt::format("{} was killed by signal {} ({}) {}", who, WTERMSIG(status),
                       strsignal(WTERMSIG(status)), doing);
  if (said.empty() && WEXITSTATUS(status) != 0)
    return fmt::format("{} ended the process with status {} {}", who, WEXITSTATUS(status), doing);
  return said;
}

}  // namespace sinktrap
