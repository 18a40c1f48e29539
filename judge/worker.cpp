#include "judge/worker.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "judge/child.hpp"
#include "judge/phase.hpp"

namespace sinktrap {
namespace {

using Clock = std::chrono::steady_clock;

bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = send(file, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

enum class Read { whole, ended, late, foreign };

Read read_all(int file, char* bytes, std::size_t count) {
  while (count > 0) {
    const ssize_t n = read(file, bytes, count);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Read::late;
    if (n <= 0) return Read::ended;
    bytes += n;
    count -= static_cast<std::size_t>(n);
  }
  return Read::whole;
}

// A message is a mark, its length and its bytes. The implementation lives in the process that answers and may
// write to any of its files: what does not begin with the mark is not an answer, nor is what is longer than
// 64 of the longest case lines.
struct Frame {
  std::uint32_t mark = 0x736e6b74, size = 0;
};
constexpr std::uint32_t kLongest = 1u << 26;

bool write_message(int file, std::string_view message) {
  Frame frame;
  frame.size = static_cast<std::uint32_t>(message.size());
  std::string framed(reinterpret_cast<const char*>(&frame), sizeof frame);
  framed += message;
  return message.size() <= kLongest && write_all(file, framed);
}
Read read_message(int file, std::string& message) {
  Frame frame;
  const Read begin = read_all(file, reinterpret_cast<char*>(&frame), sizeof frame);
  if (begin != Read::whole) return begin;
  if (frame.mark != Frame().mark || frame.size > kLongest) return Read::foreign;
  message.resize(frame.size);
  return read_all(file, message.data(), frame.size);
}

// The file that tells after a crash what was running.
class Journal {
 public:
  Journal(const std::string& folder, int index) {
    if (folder.empty()) return;
    path_ = fmt::format("{}/running-{}.case", folder, index);
    file_ = ::open(path_.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
  }
  ~Journal() {
    if (file_ < 0) return;
    ::close(file_);
    ::unlink(path_.c_str());
  }
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;
  void record(std::string_view line) const {
    if (file_ < 0) return;
    const std::string text = std::string(line) + "\n";
    if (pwrite(file_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()))
      (void)!ftruncate(file_, static_cast<off_t>(text.size()));
  }

 private:
  std::string path_;
  int file_ = -1;
};

[[noreturn]] void child_main(int socket, const Workers::Judge& judge, const std::string& folder, int index) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  // What an implementation prints must not mix with a report on stdout.
  dup2(STDERR_FILENO, STDOUT_FILENO);
  {
    const Journal journal(folder, index);
    std::string message;
    while (read_message(socket, message) == Read::whole) {
      Task task;
      std::memcpy(&task.implementation, message.data(), 4);
      std::memcpy(&task.law, message.data() + 4, 4);
      task.line = message.substr(8);
      journal.record(task.line);
      if (!write_message(socket, judge(task).to_bytes())) break;
    }
  }
  _exit(0);
}

// False when `until` came first.
template <class Until>
bool ended_before(pid_t process, Until&& until, int& status) {
  while (waitpid(process, &status, WNOHANG) == 0) {
    if (until()) return false;
    usleep(200);
  }
  return true;
}

// How long the process has been ready to run and had no core, its most patient thread: milliseconds since it
// began, 0 where the kernel does not count it. Linux, Documentation/scheduler/sched-stats: the second number.
std::int64_t waited_for_a_core(pid_t process) {
  std::int64_t most = 0;
  std::error_code gone;  // the process may end at any moment: then the iterator does
  for (std::filesystem::directory_iterator thread(fmt::format("/proc/{}/task", process), gone), end;
       !gone && thread != end; thread.increment(gone)) {
    std::ifstream counts(thread->path() / "schedstat");
    std::int64_t running = 0, waiting = 0;
    if (counts >> running >> waiting) most = std::max(most, waiting / 1'000'000);
  }
  return most;
}

// A limit is meant for the implementation, not for what else the machine does: time that the worker waited
// for a core is given back. A hang is still one: with its own threads in each other's way it is given this
// many times the limit, no more.
constexpr std::int64_t kMostLimits = 20;

// For an idle worker to see that its input has ended and to take its journal away; then it is killed.
constexpr std::chrono::seconds kGoodbye{5};

// Between two looks at the workers. When a look comes later than that by as much again, this process was
// stopped (from a terminal, or with the whole machine), and the workers with it: that time is not theirs
// either.
constexpr std::chrono::milliseconds kOften{1000};

}  // namespace

struct Workers::Child {
  int index = 0;
  pid_t pid = -1;
  int socket = -1;
  char* phase = nullptr;
  std::optional<Task> task;
  Clock::time_point sent, deadline;
  std::int64_t waited = 0;  // for a core, when the task was sent
};

Workers::Workers(Judge judge, WorkerOptions options)
    : judge_(std::move(judge)), options_(std::move(options)) {
  if (!options_.folder.empty()) {
    std::error_code error;
    std::filesystem::create_directories(options_.folder, error);
    if (error) throw std::runtime_error(fmt::format("cannot make {}: {}", options_.folder, error.message()));
  }
  for (int i = 0; i < options_.workers; ++i) {
    auto child = std::make_unique<Child>();
    child->index = i;
    void* page = mmap(nullptr, kPhaseBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) throw std::runtime_error("cannot map a shared page");
    child->phase = static_cast<char*>(page);
    children_.push_back(std::move(child));
  }
}

Workers::~Workers() {
  for (auto& child : children_) {
    end(*child);
    munmap(child->phase, kPhaseBytes);
  }
}

void Workers::start(Child& child) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw std::runtime_error(fmt::format("cannot open a socket pair: {}", std::strerror(errno)));
  child.phase[0] = 0;
  std::fflush(nullptr);  // an implementation that calls exit would write it again
  child.pid = fork();
  if (child.pid < 0)
    throw std::runtime_error(fmt::format("cannot start a process: {}", std::strerror(errno)));
  if (child.pid == 0) {
    for (auto& other : children_)
      if (other->socket >= 0) close(other->socket);
    close(ends[0]);
    phase_memory() = child.phase;
    child_main(ends[1], judge_, options_.folder, child.index);
  }
  close(ends[1]);
  child.socket = ends[0];
  // Of an answer that has begun the rest comes at once, or something else was written.
  const auto most = std::chrono::microseconds(kMostLimits * limit()).count();
  const timeval patience{static_cast<time_t>(most / 1'000'000), static_cast<suseconds_t>(most % 1'000'000)};
  setsockopt(child.socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
}

void Workers::end(Child& child) {
  if (child.pid < 0) return;
  close(child.socket);  // an idle child sees the end of its input
  const auto deadline = Clock::now() + kGoodbye;
  int status = 0;
  if (child.task || !ended_before(
                        child.pid, [&] { return Clock::now() >= deadline; }, status)) {
    kill(child.pid, SIGKILL);
    waitpid(child.pid, &status, 0);
  }
  child.pid = -1;
  child.socket = -1;
}

void Workers::send(Child& child, const Task& task) {
  if (child.pid < 0) start(child);
  std::string message(reinterpret_cast<const char*>(&task.implementation), 4);
  message.append(reinterpret_cast<const char*>(&task.law), 4);
  message += task.line;
  child.task = task;
  child.sent = Clock::now();
  child.deadline = child.sent + limit();
  child.waited = waited_for_a_core(child.pid);
  // A child that died while it was idle is found by receive.
  (void)write_message(child.socket, message);
}

std::chrono::milliseconds Workers::limit() const {
  return std::chrono::milliseconds(static_cast<std::int64_t>(options_.timeout_seconds * 1000));
}

bool Workers::late(Child& child) const {
  if (Clock::now() < child.deadline) return false;
  // Negative when the most patient thread has ended.
  const std::chrono::milliseconds waited(
      std::max<std::int64_t>(waited_for_a_core(child.pid) - child.waited, 0));
  child.deadline = child.sent + std::min(limit() + waited, kMostLimits * limit());
  return Clock::now() >= child.deadline;
}

std::string Workers::where(const Child& child) {
  return child.phase[0] ? fmt::format(" in {}", child.phase) : "";
}

Judgement Workers::give_up(Child& child) {
  Judgement j;
  j.status = Status::timed_out;
  j.reason = fmt::format("no result within {} s{}", options_.timeout_seconds, where(child));
  end(child);
  child.task.reset();
  return j;
}

Judgement Workers::receive(Child& child) {
  std::string message;
  const Read read = read_message(child.socket, message);
  if (read == Read::late) return give_up(child);
  if (read == Read::whole) {
    if (auto j = Judgement::from_bytes(message)) {
      child.task.reset();
      return *j;
    }
  }
  Judgement j;
  j.status = Status::crashed;
  if (read != Read::ended) {
    j.reason = fmt::format("wrote into a file of the process that is not its own{}", where(child));
    end(child);
    child.task.reset();
    return j;
  }
  int status = 0;  // a process may close its files and go on
  if (!ended_before(
          child.pid, [&] { return late(child); }, status))
    return give_up(child);
  close(child.socket);
  child.pid = -1;
  child.socket = -1;
  child.task.reset();
  j.reason = end_text(status) + where(child);
  return j;
}

void Workers::run(const Next& next, const Done& done) {
  bool more = true;
  while (true) {
    std::vector<pollfd> waits;
    std::vector<Child*> busy;
    for (auto& child : children_) {
      if (!child->task && more) {
        if (auto task = next())
          send(*child, *task);
        else
          more = false;
      }
      if (child->task) {
        waits.push_back({child->socket, POLLIN, 0});
        busy.push_back(child.get());
      }
    }
    if (busy.empty()) return;
    auto first = busy[0]->deadline;
    for (const Child* child : busy) first = std::min(first, child->deadline);
    const auto begin = Clock::now();
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(first - begin);
    const auto patience =
        std::clamp(left + std::chrono::milliseconds(1), std::chrono::milliseconds(0), kOften);
    poll(waits.data(), waits.size(), static_cast<int>(patience.count()));
    if (const auto stood_still = Clock::now() - begin - patience; stood_still > kOften)
      for (Child* child : busy) child->sent += stood_still, child->deadline += stood_still;
    for (std::size_t i = 0; i < busy.size(); ++i) {
      // An answer that has come counts. Whether there is none in time is asked once: asked again, a process
      // that waits for a core may have got more time, and reading would wait for it without an end.
      const bool answered = waits[i].revents != 0;
      if (!answered && !late(*busy[i])) continue;
      const Task task = *busy[i]->task;
      done(task, answered ? receive(*busy[i]) : give_up(*busy[i]));
    }
  }
}

Judgement Workers::run_one(const Task& task) {
  Judgement result;
  bool given = false;
  run(
      [&]() -> std::optional<Task> {
        return given ? std::nullopt : (given = true, std::optional<Task>(task));
      },
      [&](const Task&, const Judgement& j) { result = j; });
  return result;
}

}  // namespace sinktrap
