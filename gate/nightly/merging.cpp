// -merge=1 of every corpus, into a fresh folder that takes the place of the old one.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "gate/nightly/bounds.hpp"
#include "gate/nightly/files.hpp"
#include "gate/nightly/fuzzing.hpp"

namespace sinktrap::nightly {
namespace fs = std::filesystem;
namespace {

struct Merge {
  std::size_t target;
  std::unique_ptr<Process> process;
  fs::path fresh, scratch;
  RunLog log;
};

std::unique_ptr<Merge> start_merge(const Context& c, std::size_t target) {
  const Target& t = c.targets[target];
  auto merge = std::make_unique<Merge>();
  merge->target = target;
  merge->scratch = c.folders.work() / "merge" / t.name;
  merge->fresh = merge->scratch / "fresh";
  std::error_code error;
  fs::remove_all(merge->scratch, error);
  make_folder(merge->fresh);
  make_folder(merge->scratch / "artifacts");
  make_folder(merge->scratch / "findings");
  Command command;
  command.arguments = {t.program.string()};
  command.arguments.insert(command.arguments.end(), t.flags.begin(), t.flags.end());
  // An input that ends the process costs that input: libFuzzer starts again behind it. What it writes about
  // it is known already, or the next night finds it: only the corpus counts here.
  for (const std::string& a :
       {std::string("-merge=1"), "-artifact_prefix=" + (merge->scratch / "artifacts").string() + "/",
        "-merge_control_file=" + (merge->scratch / "control").string(), merge->fresh.string(),
        c.folders.corpus(t.name).string()})
    command.arguments.push_back(a);
  command.environment = target_environment(c.implementations);
  command.environment.emplace_back("SINKTRAP_FUZZ_FINDINGS", (merge->scratch / "findings").string());
  Merge* self = merge.get();
  merge->process =
      std::make_unique<Process>(c.guard, command, [self](std::string_view line) { self->log.add(line); });
  return merge;
}

void finish_merge(Context& c, Merge& merge) {
  const Target& t = c.targets[merge.target];
  TargetResult& r = c.results[merge.target];
  const fs::path corpus = c.folders.corpus(t.name);
  const FolderSize fresh = folder_size(merge.fresh);
  write_whole(c.folders.logs() / (t.name + ".merge.log"), merge.log.text());
  if (merge.process->stopped())
    r.merge = "not merged: budget";
  else if (merge.process->code() != 0)
    r.merge = fmt::format("not merged: the target ended with code {}", merge.process->code());
  else if (fresh.files == 0 && r.corpus_before > 0)
    r.merge = "not merged: the merged corpus is empty";
  else
    replace_folder(corpus, merge.fresh);
  trim_folder(corpus, Bounds::corpus_bytes, Bounds::corpus_files);
  r.corpus_after = folder_size(corpus).files;
  std::error_code error;
  fs::remove_all(merge.scratch, error);
}

}  // namespace

void run_merging(Context& c, double seconds, int jobs) {
  const auto start = Clock::now();
  const auto left = [&] { return seconds - std::chrono::duration<double>(Clock::now() - start).count(); };
  std::vector<std::size_t> waiting;
  for (std::size_t t = 0; t < c.targets.size(); ++t) {
    TargetResult& r = c.results[t];
    r.corpus_before = r.corpus_after = folder_size(c.folders.corpus(c.targets[t].name)).files;
    if (r.corpus_before > 0) waiting.push_back(t);
  }
  // Small ones first: more of them fit.
  std::sort(waiting.begin(), waiting.end(), [&](std::size_t a, std::size_t b) {
    return c.results[a].corpus_before > c.results[b].corpus_before;
  });
  std::vector<std::unique_ptr<Merge>> running;
  while (!waiting.empty() || !running.empty()) {
    const bool over = left() <= 0 || caught_signal() != 0;
    while (!over && !waiting.empty() && static_cast<int>(running.size()) < jobs) {
      running.push_back(start_merge(c, waiting.back()));
      waiting.pop_back();
    }
    if (over) {
      for (const std::size_t t : waiting) c.results[t].merge = "not merged: budget";
      waiting.clear();
    }
    std::vector<Process*> waits;
    for (auto& merge : running) {
      merge->process->attend();
      if (over) merge->process->stop(0.5);
      waits.push_back(merge->process.get());
      if (merge->process->ended()) finish_merge(c, *merge);
    }
    running.erase(
        std::remove_if(running.begin(), running.end(), [](const auto& m) { return m->process->ended(); }),
        running.end());
    c.tick();
    wait_for(waits, left());
  }
}

}  // namespace sinktrap::nightly
