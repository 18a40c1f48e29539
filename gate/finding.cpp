#include "gate/finding.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "gate/run.hpp"
#include "judge/transcript.hpp"
#include "properties/model.hpp"

namespace sinktrap {
namespace {

// The stage behind an operation's verdict.
Stage verdict_stage(std::string_view operation) {
  if (operation == "validate") return Stage::validation;
  if (operation == "update") return Stage::update;
  if (operation == "load" || operation == "unload") return Stage::loading;
  if (operation == "shard" || operation == "expand" || operation == "collapse") return Stage::sharding;
  if (operation == "forward" || operation == "create") return Stage::arguments;
  return Stage::binding;  // bind, derived
}

// The last operation that changes what a forward pass computes with.
std::string_view last_change(const std::vector<Transcript::Entry>& entries) {
  const auto e = std::find_if(entries.rbegin(), entries.rend(), [](const Transcript::Entry& entry) {
    return entry.kind == Transcript::Kind::verdict &&
           (entry.what == "bind" || entry.what == "update" || entry.what == "load" || entry.what == "unload");
  });
  return e == entries.rend() ? std::string_view("bind") : std::string_view(e->what);
}
std::string_view last_operation(const std::vector<Transcript::Entry>& entries) {
  const auto e = std::find_if(entries.rbegin(), entries.rend(), [](const Transcript::Entry& entry) {
    return entry.kind == Transcript::Kind::verdict;
  });
  return e == entries.rend() ? std::string_view("create") : std::string_view(e->what);
}

Finding at(Stage stage, const std::string& why, bool weak = false) {
  return {{stage, {stage_line(stage, why)}}, weak};
}

// What the last note of the transcript says, if there is one.
std::optional<Finding> noted(const std::vector<Transcript::Entry>& entries, const std::string& reason) {
  const auto note = std::find_if(entries.rbegin(), entries.rend(),
                                 [](const auto& e) { return e.kind == Transcript::Kind::note; });
  if (note == entries.rend()) return std::nullopt;
  if (note->what == kNoteWrote) return at(Stage::memory, reason);
  if (note->what == kNoteVerdict || note->what == kNoteRefusedWrote)
    return at(verdict_stage(last_operation(entries)), reason);
  return at(verdict_stage(last_change(entries)), reason);
}

// Operands derived by one bind.
std::optional<Finding> wrong_operands(const ForwardCase& c, const Implementation& implementation) {
  try {
    const ForwardInputs in = make_inputs(c);
    Session found(implementation, in), model(model_implementation(), in);
    if (found.bind(in.pool).code != SINKTRAP_OK || model.bind(in.pool).code != SINKTRAP_OK)
      return std::nullopt;
    OperandAddresses addresses;
    compare_derived(found, model, in, std::vector<bool>(static_cast<std::size_t>(in.d.S), true), addresses,
                    "bind");
    return std::nullopt;
  } catch (const Stop& s) {
    if (!is_bad(s.judgement.status)) return std::nullopt;
    Finding f = at(Stage::binding, s.judgement.reason);
    f.where.lines.insert(f.where.lines.end(), s.judgement.details.begin(), s.judgement.details.end());
    return f;
  }
}

// What a law is about that fails on a batch whose plain pass is right.
struct Subject {
  std::string_view law;
  Stage stage;
  bool weak;
};
constexpr Subject kSubjects[] = {
    {"refused-binds-change-nothing", Stage::binding, false},
    {"base-tokens-ignore-the-pool", Stage::routing, true},
    {"unused-slots-reach-nothing", Stage::routing, true},
    {"rows-do-not-leak", Stage::routing, true},
    {"hostile-values-stay-on-their-paths", Stage::routing, true},
};

}  // namespace

Judgement Finding::to_judgement() const {
  Judgement j;
  j.reason = fmt::format("{} {}", weak ? "weak" : "certain", row_of(where.stage).id);
  j.details = where.lines;
  return j;
}

std::optional<Finding> Finding::from_judgement(const Judgement& j) {
  if (j.status == Status::crashed || j.status == Status::timed_out) return at(Stage::crash, j.reason);
  const std::size_t space = j.reason.find(' ');
  if (space == std::string::npos || j.details.empty()) return std::nullopt;
  Finding f;
  f.weak = j.reason.compare(0, space, "weak") == 0;
  f.where.stage = find_stage(j.reason.substr(space + 1)).value_or(Stage::nowhere);
  f.where.lines = j.details;
  return f;
}

std::optional<Finding> find_fault(const Law& law, const std::string& line,
                                  const Implementation& implementation) {
  const Transcript transcript;
  const Judgement j = judge_line(law, line, implementation);
  if (!is_bad(j.status)) return std::nullopt;
  const Case c = std::get<Case>(parse_case(line));
  if (auto found = noted(transcript.entries(), j.reason)) {
    // After a sequence of steps a stray write may come from a pool that should have been let go.
    found->weak = found->where.stage == Stage::memory && std::holds_alternative<StateCase>(c);
    return found;
  }
  if (std::holds_alternative<LayoutCase>(c)) return at(Stage::validation, j.reason);
  if (std::holds_alternative<ShardCase>(c)) return at(Stage::sharding, j.reason);
  if (std::holds_alternative<PackCase>(c))
    return at(verdict_stage(last_change(transcript.entries())), j.reason);
  if (std::holds_alternative<StateCase>(c))
    return at(verdict_stage(last_change(transcript.entries())), j.reason, true);
  const ForwardCase& f = std::get<ForwardCase>(c);
  if (auto found = wrong_operands(f, implementation)) return found;
  try {
    if (auto where = localise(f, implementation)) {
      const bool weak = where->stage == Stage::nowhere;
      return Finding{std::move(*where), weak};
    }
  } catch (const Stop& s) {
    return at(Stage::nowhere, "not known: " + s.judgement.reason, true);
  }
  for (const Subject& s : kSubjects)
    if (s.law == law.id) return at(s.stage, j.reason, s.weak);
  return std::nullopt;
}

std::optional<std::size_t> explaining(const std::vector<Finding>& findings) {
  const bool certain =
      std::any_of(findings.begin(), findings.end(), [](const Finding& f) { return !f.weak; });
  std::array<int, kStages> votes{};
  for (const Finding& f : findings)
    if (!(certain && f.weak)) ++votes[static_cast<std::size_t>(f.where.stage)];
  std::size_t best = kStages;
  for (std::size_t s = 0; s < kStages; ++s) {
    if (votes[s] == 0) continue;
    const bool of_the_pass = s > static_cast<std::size_t>(Stage::routing);
    if (best == kStages ||
        (of_the_pass && best > static_cast<std::size_t>(Stage::routing) && votes[s] > votes[best]))
      best = s;
  }
  for (std::size_t i = 0; i < findings.size(); ++i)
    if (static_cast<std::size_t>(findings[i].where.stage) == best && !(certain && findings[i].weak)) return i;
  return std::nullopt;
}

}  // namespace sinktrap
