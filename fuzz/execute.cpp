// One execution of a target whose inputs are case lines.
#include <fmt/format.h>

#include <algorithm>

#include "fuzz/protocol.hpp"
#include "fuzz/targets.hpp"
#include "judge/expectation.hpp"
#include "properties/shared_run.hpp"

namespace sinktrap::fuzz {
namespace {

constexpr std::string_view kTextLaw = "case-text-is-stable";

struct Chosen {
  std::vector<const Law*> always, in_turn;
};

std::vector<const Law*> found(const std::vector<std::string_view>& ids) {
  std::vector<const Law*> list;
  for (const std::string_view id : ids)
    if (const Law* law = find_law(id))
      list.push_back(law);
    else
      throw std::logic_error(fmt::format("no law {}", id));
  return list;
}

const Chosen& laws_of(const CaseTarget& target) {
  static const Chosen chosen = [&] {
    judgement_details() = false;
    return Chosen{found(target.always), found(target.in_turn)};
  }();
  return chosen;
}

// Which implementation judges a case. An execution of the first costs an eighth of the others' where a target
// has several (its kernels have no barriers), so among the target's own it gets 253 cases of 256; the others
// then take a tenth of the time.
std::size_t picked(const CaseTarget& target, std::size_t count, std::uint64_t hash) {
  if (count != target.implementations.size()) return (hash >> 8) % count;
  const std::size_t turn = (hash >> 8) % 256;
  return turn < 253 ? 0 : (turn - 252) % count;
}

void judge(const Law& law, const Case& c, std::string_view line, const UnderTest& under) {
  if (!law.applies(c)) return;
  const Judgement j = judge_case(law, c, *under.implementation);
  if (!is_bad(j.status)) return;
  report({std::string(law.id), under.argument, j.reason, std::string(line),
          fmt::format("{} --law {} '{}'", under.repeat, law.id, line)});
}

}  // namespace

std::optional<Case> execute_text(std::string_view line) {
  const auto broken = [&](const std::string& what) {
    report({std::string(kTextLaw), "-", what, std::string(line), fmt::format("{} FILE", kTarget)});
  };
  auto parsed = parse_case(line);
  if (const auto* error = std::get_if<CaseError>(&parsed)) {
    check_refusal(kTextLaw, error->what, line);
    if (error->column < 1 || error->column > line.size() + 1)
      broken(fmt::format("a refusal names column {} of a line of {}: {}", error->column, line.size(),
                         error->what));
    return std::nullopt;
  }
  Case c = std::get<Case>(std::move(parsed));
  const std::string printed = print_case(c);
  if (printed == line) return c;  // the line itself is canonical: it has just been read
  const auto again = parse_case(printed);
  if (const auto* error = std::get_if<CaseError>(&again))
    broken(fmt::format("the canonical line is refused ({}): {}", error->what, printed));
  if (!(std::get<Case>(again) == c)) broken("the canonical line is another case: " + printed);
  if (print_case(std::get<Case>(again)) != printed) broken("printing is not stable: " + printed);
  return c;
}

void execute_case(const CaseTarget& target, std::string_view line) {
  const std::uint64_t line_hash = hash_of(line);
  // What the mutator printed is parsed again in one execution of sixteen; fuzz_case_text does nothing else.
  const Case* c = line_hash % 16 == 0 ? nullptr : remembered(line);
  std::optional<Case> parsed;
  if (c == nullptr) {
    parsed = execute_text(line);
    if (!parsed) return;
    c = &*parsed;
  }
  if (std::find(target.kinds.begin(), target.kinds.end(), case_kind(*c)) == target.kinds.end()) return;
  if (!within(*c, target.sizes)) return;
  const std::string canonical = parsed ? print_case(*c) : std::string();
  const std::string_view printed = parsed ? std::string_view(canonical) : line;
  const std::uint64_t hash = parsed ? hash_of(printed) : line_hash;
  const Chosen& chosen = laws_of(target);
  const auto& all = under_test(target.implementations);
  const std::size_t pick = picked(target, all.size(), hash);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (target.one_each && i != pick) continue;
    const SharedRun shared(*c, *all[i].implementation);
    for (const Law* law : chosen.always) judge(*law, *c, printed, all[i]);
    if (!chosen.in_turn.empty() && hash % target.turns == 0)
      judge(*chosen.in_turn[(hash >> 20) % chosen.in_turn.size()], *c, printed, all[i]);
  }
}

}  // namespace sinktrap::fuzz
