#include "mutants/mutants.hpp"

#include <fmt/format.h>

#include "mutants/plain_c/plain_fault.h"

namespace sinktrap {
namespace {

struct Row {
  int fault;
  Mutant mutant;
};
const Row kRows[] = {
#define X(NAME, kind, stage, what, report) \
  {PLAIN_FAULT_##NAME, {#NAME, #kind, what, report, find_stage(#stage)}},
#include "mutants/plain_c/plain_faults.def"
#undef X
};

}  // namespace

const std::vector<Mutant>& mutants() {
  static const std::vector<Mutant> all = [] {
    std::vector<Mutant> list;
    for (const Row& row : kRows)
      if (row.fault != PLAIN_FAULT_none) list.push_back(row.mutant);
    return list;
  }();
  return all;
}

std::shared_ptr<const Implementation> select_mutant(int index, int also) {
  // The honest library is the first row.
  const Row& row = kRows[index + 1];
  plain_selected = row.fault;
  plain_also = kRows[also + 1].fault;
  return Implementation::from_table(sinktrap_implementation(SINKTRAP_ABI_VERSION),
                                    fmt::format("mutant {}", row.mutant.name), "");
}

}  // namespace sinktrap
