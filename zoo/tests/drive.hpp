// Generated cases through random legal choices, judged as any implementation is.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>

#include "judge/expectation.hpp"
#include "judge/hostile.hpp"
#include "properties/generators.hpp"
#include "zoo/zoo.hpp"

namespace sinktrap::zoo::test {

struct Driven {
  std::int64_t cases = 0, evaluations = 0, elements = 0, unjudged = 0;
  double bound_use = 0;
};

// `evaluations` random choices on each of `count` cases of a family; seeds from `first`. Sizes run through
// 0..top.
inline Driven drive(Generator family, std::uint64_t first, int count, int evaluations, int top = 40) {
  Driven d;
  for (int k = 0; k < count && !testing::Test::HasFatalFailure(); ++k) {
    const Case c = generate_case(family, first + static_cast<std::uint64_t>(k), k * 7 % (top + 1));
    const ForwardInputs in = make_inputs(std::get<ForwardCase>(c));
    const bool hostile = family == Generator::forward_hostile;
    const Expectation expected = hostile ? Expectation{} : expect(in);
    const Layer layer = layer_of(in);
    Random random(first + static_cast<std::uint64_t>(k), 900);
    ++d.cases;
    for (int i = 0; i < evaluations; ++i) {
      const bool absolute = random.chance(1, 4);
      const Choice choice = random_choice(random, absolute);
      const std::vector<double> out = forward(layer, choice);
      Tensor found(in.type, {in.T(), in.d.H});
      for (std::size_t o = 0; o < out.size(); ++o) found.set(static_cast<std::int64_t>(o), out[o]);
      // Half declare their seams; the others are judged for any choice.
      const sinktrap_declaration declared = {random.chance(1, 2), choice.seams,
                                             absolute ? SINKTRAP_SILU_ABSOLUTE : SINKTRAP_SILU_RELATIVE, 1};
      const Judgement j =
          hostile ? judge_hostile(in, found, declared) : judge_output(in, expected, found, declared);
      EXPECT_FALSE(is_bad(j.status)) << print_case(c) << "\n"
                                     << choice_text(choice) << (declared.seams_declared ? " declared" : "")
                                     << "\n"
                                     << j.reason << "\n"
                                     << (j.details.empty() ? "" : j.details[0]);
      if (is_bad(j.status)) return d;
      ++d.evaluations;
      d.elements += j.elements;
      d.unjudged += j.unjudged;
      d.bound_use = std::max(d.bound_use, j.bound_use);
    }
  }
  return d;
}

inline void report(const Driven& d) {
  const auto record = [](const char* name, auto value) {
    testing::Test::RecordProperty(name, std::to_string(value));
  };
  record("cases", d.cases), record("evaluations", d.evaluations), record("elements", d.elements);
  record("unjudged", d.unjudged), record("largest_share", d.bound_use);
  std::printf("%lld cases, %lld evaluations, %lld outputs (%lld unjudged), largest share of a bound %.3f\n",
              static_cast<long long>(d.cases), static_cast<long long>(d.evaluations),
              static_cast<long long>(d.elements), static_cast<long long>(d.unjudged), d.bound_use);
}

}  // namespace sinktrap::zoo::test
