// fuzz_layout, fuzz_forward, fuzz_state, fuzz_pack: the laws of the registry on case lines. One program for
// each, from this source with SINKTRAP_FUZZ_TARGET.
#include "fuzz/protocol.hpp"
#include "fuzz/targets.hpp"

namespace sinktrap::fuzz {
const char* const kTarget = SINKTRAP_FUZZ_TARGET;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sinktrap::fuzz;
  static const CaseTarget& target = *find_case_target(kTarget);
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  executing(line);
  execute_case(target, line);
  return 0;
}
