// Wrong implementations that the suite has to reject: plain_c with one difference at a time, selected while
// the program runs (mutants/plain_c/plain_faults.def).
#pragma once
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "judge/implementation.hpp"
#include "judge/stage.hpp"

namespace sinktrap {

struct Mutant {
  std::string_view name, kind;    // "up_half_at_r", "layout"
  std::string_view what, report;  // what is wrong; the public report it stands for
  // Where it sits; none for what is refused before any case, for what is legal, and for faults of threads.
  std::optional<Stage> stage = std::nullopt;
  // No legal test can see the difference (proof in plain_fault.h): it has to survive.
  bool equivalent() const { return kind == "equivalent"; }
  // It has to survive.
  bool honest() const { return equivalent() || kind == "unmutated"; }
  // Only a pool past 2^31 elements shows the difference: judged on corpus/large.cases, where asked for by
  // name.
  bool large() const { return kind == "large"; }
};

// All but the honest one, in the order of the list.
const std::vector<Mutant>& mutants();

// plain_c with fault `index` of mutants(), or without one; `also` is a second fault beside it. The selection
// is of the whole process and lasts until the next call: there is only ever one mutant, so whoever judges one
// does it in a worker process.
constexpr int kUnmutated = -1;
std::shared_ptr<const Implementation> select_mutant(int index, int also = kUnmutated);

}  // namespace sinktrap
