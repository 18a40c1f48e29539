// Worker processes: every case is judged in a child, and its line is on disk before the judgement starts. A
// crash or a hang costs that case and a new child, never the run.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "judge/status.hpp"

namespace sinktrap {

struct Task {
  std::uint32_t implementation = 0;  // index into the run's list
  std::uint32_t law = 0;             // index into the registry
  std::string line;                  // the case
};

struct WorkerOptions {
  int workers = 1;
  double timeout_seconds = 60;  // for one case; time that its process waited for a core is not counted
  std::string folder;           // where running-K.case is written; made if missing; empty: nothing is written
};

class Workers {
 public:
  // `judge` runs in the children.
  using Judge = std::function<Judgement(const Task&)>;
  // Throws std::runtime_error when the folder cannot be written or no process can be started.
  Workers(Judge judge, WorkerOptions options);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Takes tasks from `next` until it is empty and hands each result to `done` as it arrives.
  using Next = std::function<std::optional<Task>()>;
  using Done = std::function<void(const Task&, const Judgement&)>;
  void run(const Next& next, const Done& done);
  Judgement run_one(const Task& task);

 private:
  struct Child;
  void start(Child& child);
  void end(Child& child);
  void send(Child& child, const Task& task);
  std::chrono::milliseconds limit() const;
  // Past its deadline, which moves by what the process has waited for a core.
  bool late(Child& child) const;
  // " in PHASE", where the process has said what it does.
  static std::string where(const Child& child);
  // Ends the process: it is too late.
  Judgement give_up(Child& child);
  // The result, or what became of the process.
  Judgement receive(Child& child);

  Judge judge_;
  WorkerOptions options_;
  std::vector<std::unique_ptr<Child>> children_;
};

}  // namespace sinktrap
