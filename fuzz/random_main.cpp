// fuzz_random TARGET SEED SECONDS: what plain random generation finds, beside the fuzzers (tools/fuzz-power).
// The laws of the target take turns, one generated case each (properties/generators.hpp), as in `sinktrap
// mutants`; no size limit of the target applies. Prints one line: found or not, executions, seconds, law.
// Exit code 0 either way.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "fuzz/protocol.hpp"
#include "fuzz/targets.hpp"
#include "properties/generators.hpp"

extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace sinktrap::fuzz {
const char* const kTarget = "fuzz_random";

namespace {

// The case that is being judged.
struct Progress {
  std::chrono::steady_clock::time_point start;
  std::uint64_t cases = 0;
  std::string_view law;
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
};
Progress& progress() {
  static Progress p;
  return p;
}

void say_found() {
  fmt::print("found 1 executions {} seconds {:.3f} law {}\n", progress().cases, progress().seconds(),
             progress().law);
  std::fflush(stdout);
}

}  // namespace
}  // namespace sinktrap::fuzz

int main(int argc, char** argv) {
  using namespace sinktrap;
  using namespace sinktrap::fuzz;
  const CaseTarget* target = argc == 4 ? find_case_target(argv[1]) : nullptr;
  if (target == nullptr) {
    fmt::print(stderr,
               "fuzz_random: expected TARGET SEED SECONDS, with fuzz_layout, fuzz_forward, fuzz_state or "
               "fuzz_pack\n");
    return 2;
  }
  const std::uint64_t seed = std::strtoull(argv[2], nullptr, 10);
  const double limit = std::strtod(argv[3], nullptr);
  std::vector<const Law*> list;
  for (const auto* ids : {&target->always, &target->in_turn})
    for (const std::string_view id : *ids) list.push_back(find_law(id));
  const auto& all = under_test(target->implementations);
  Progress& at = progress();
  at.start = std::chrono::steady_clock::now();
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(say_found);
  for (std::uint64_t k = 0; at.seconds() < limit; ++k) {
    const Law& law = *list[k % list.size()];
    at.cases = k + 1;
    at.law = law.id;
    // Sizes run through 0..100 in strides of a prime.
    const Case c =
        generate_case(law.generator, (seed << 32) + k, static_cast<int>((k / list.size() + 1) * 37 % 101));
    const Judgement j = judge_case(law, c, *all[k % all.size()].implementation);
    if (!is_bad(j.status)) continue;
    say_found();
    return 0;
  }
  fmt::print("found 0 executions - seconds {:.3f} law -\n", at.seconds());
  return 0;
}
