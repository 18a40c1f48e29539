// Children that judge findings: the queue of raw ones, and the known ones at the start of a night.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "gate/nightly/files.hpp"
#include "gate/nightly/fuzzing.hpp"

namespace sinktrap::nightly {
namespace fs = std::filesystem;
namespace {

// A child has its own limits; this one is for a child that does not keep them.
constexpr double kTriageSeconds = 150;

// The child's answer comes through a file: whole or not there.
Command in_child(const Guard& guard, const fs::path& answer, const Finding& finding, const fs::path& input,
                 const TriageOptions& options,
                 Finding (*work)(const Guard&, Finding, const fs::path&, const TriageOptions&)) {
  Command command;
  command.inside = [&guard, answer, finding, input, options, work] {
    make_folder(options.folder);
    Finding f = work(guard, finding, input, options);
    // parse_finding reads only what is triaged as settled.
    const std::string standing(standing_name(f.standing));
    write_whole(answer, standing + "\n" + finding_text(f));
    return 0;
  };
  return command;
}

std::optional<Finding> read_answer(const fs::path& answer) {
  const auto text = read_whole(answer);
  std::error_code error;
  fs::remove(answer, error);
  if (!text) return std::nullopt;
  const std::size_t line = text->find('\n');
  if (line == std::string::npos) return std::nullopt;
  auto f = parse_finding(std::string_view(*text).substr(line + 1));
  if (!f) return std::nullopt;
  for (const Standing s : {Standing::fresh, Standing::open, Standing::unchecked, Standing::fixed})
    if (text->substr(0, line) == standing_name(s)) f->standing = s;
  return f;
}

TriageOptions options_of(const std::string& target, const std::vector<Target>& targets,
                         const std::vector<std::string>& implementations, const fs::path& folder) {
  TriageOptions options;
  options.implementations = implementations;
  options.folder = folder;
  for (const Target& t : targets)
    if (t.name == target) {
      options.program = t.program;
      options.flags = t.flags;
    }
  return options;
}

}  // namespace

TriageQueue::TriageQueue(const Guard& guard, FindingStore& store, const std::vector<Target>& targets,
                         std::vector<std::string> implementations, Folders folders)
    : guard_(guard),
      store_(store),
      targets_(targets),
      implementations_(std::move(implementations)),
      folders_(std::move(folders)) {
  make_folder(folders_.work());
}

TriageOptions TriageQueue::options_for(const std::string& target) const {
  return options_of(target, targets_, implementations_, folders_.work() / "triage");
}

const Finding* TriageQueue::next() const {
  for (const Finding& f : store_.raw())
    if (std::find(failed_.begin(), failed_.end(), f.id) == failed_.end()) return &f;
  return nullptr;
}

std::int64_t TriageQueue::left() const { return static_cast<std::int64_t>(store_.raw().size()); }

void TriageQueue::attend() {
  if (running_) {
    running_->attend();
    if (running_->seconds() > kTriageSeconds) running_->stop(1);
    if (!running_->ended()) return;
    take();
  }
  const Finding* f = next();
  if (f == nullptr) return;
  current_ = *f;
  const fs::path input = current_.input.empty() ? fs::path() : store_.input_path(current_);
  running_ = std::make_unique<Process>(
      guard_,
      in_child(guard_, folders_.work() / "triaged", current_, input, options_for(current_.target), triage),
      Process::Line());
}

void TriageQueue::take() {
  const auto answer = read_answer(folders_.work() / "triaged");
  running_.reset();
  if (!answer) {
    failed_.push_back(current_.id);
    return;
  }
  if (store_.settle(current_.id, *answer) && on_new) on_new(store_.all().at(answer->key()));
}

void TriageQueue::stop() { running_.reset(); }

void run_recheck(Context& c, double seconds) {
  const auto start = Clock::now();
  const fs::path answer = c.folders.work() / "rechecked";
  std::vector<Finding> known;
  for (const auto& [key, f] : c.store.all())
    if (f.reported) known.push_back(f);
  for (Finding& f : known) {
    const double left = seconds - std::chrono::duration<double>(Clock::now() - start).count();
    const fs::path input = f.input.empty() ? fs::path() : c.store.input_path(f);
    const Command command =
        in_child(c.guard, answer, f, input,
                 options_of(f.target, c.targets, c.implementations, c.folders.work() / "triage"), recheck);
    c.tick();
    run_within(c.guard, command, left, Process::Line());
    if (const auto now = read_answer(answer)) {
      f.standing = now->standing;
      f.note = now->note;
    } else {
      f.note = "not run: budget";
    }
    c.store.update(f);
  }
}

}  // namespace sinktrap::nightly
