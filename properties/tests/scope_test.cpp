// Every layout of a small scope, judged by the validation kernel and by the reference: all fields, both
// profiles.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "judge/layouts.hpp"

namespace sinktrap {
namespace {

// Values of each axis: slots and hidden size {1,2}, experts {0..3} on all four buffers, ranks {1,2} with 2R
// in {2,3,4}, 2F in {2,3,4}, F in {1,2}.
struct Scope {
  const std::vector<std::int64_t> slots = {1, 2}, hidden = {1, 2}, experts = {0, 1, 2, 3}, ranks = {1, 2},
                                  twice = {2, 3, 4}, features = {1, 2};
  // 2 slots of down B (the other three have 1), H of two buffers, 4 expert axes, 2R, three ranks, 2F, F.
  static constexpr std::int64_t tuples = 2LL * 2 * 2 * 4 * 4 * 4 * 4 * 3 * 2 * 2 * 2 * 3 * 2;
};

TEST(Scope, KernelAndReferenceAgreeOnEveryFieldOfEveryLayout) {
  const auto opened = Implementation::open("simt");
  const auto& simt = *std::get<std::shared_ptr<const Implementation>>(opened);
  const Scope scope;
  std::int64_t judged = 0, valid = 0;
  std::vector<LayoutCase> batch;
  const auto flush = [&] {
    for (const std::int32_t profile : {SINKTRAP_PROFILE_SGLANG, SINKTRAP_PROFILE_STRICT}) {
      const auto verdicts = validate(simt, batch, profile);
      for (std::size_t i = 0; i < batch.size(); ++i) {
        ASSERT_EQ(verdicts[i], reference_verdict(batch[i], profile))
            << print_case(batch[i]) << " " << verdict_to_text(verdicts[i]);
        if (profile == SINKTRAP_PROFILE_STRICT) {
          ASSERT_EQ(verdicts[i].code == SINKTRAP_OK, in_image(batch[i])) << print_case(batch[i]);
          valid += verdicts[i].code == SINKTRAP_OK;
        }
      }
    }
    judged += static_cast<std::int64_t>(batch.size());
    batch.clear();
  };
  LayoutCase c;
  for (c.n = 1; c.n <= 3; ++c.n)
    for (const auto s : scope.slots)
      for (const auto h : scope.hidden)
        for (const auto h2 : scope.hidden)
          for (std::size_t e = 0; e < 256; ++e)
            for (const auto r2 : scope.twice)
              for (std::size_t r = 0; r < 8; ++r)
                for (const auto f2 : scope.twice)
                  for (const auto f : scope.features) {
                    const auto& E = scope.experts;
                    const auto& R = scope.ranks;
                    c.buffers[0].shape = {1, E[e & 3], r2, h};
                    c.buffers[1].shape = {1, E[e >> 2 & 3], f2, R[r & 1]};
                    c.buffers[2].shape = {1, E[e >> 4 & 3], R[r >> 1 & 1], f};
                    c.buffers[3].shape = {s, E[e >> 6 & 3], h2, R[r >> 2 & 1]};
                    batch.push_back(c);
                    if (batch.size() == 8192) flush();
                  }
  flush();
  EXPECT_EQ(judged, 3 * Scope::tuples);
  // Valid: H in {1,2}, R in {1,2}, F in {1,2}, one slot; outer 1 for n = 1, and {1, n} for n = 2 and 3.
  EXPECT_EQ(valid, 8 * (1 + 2 + 2));
}

}  // namespace
}  // namespace sinktrap
