// From layout cases to the descriptors that validate takes, and back to a case.
#pragma once
#include <span>
#include <vector>

#include "cases/case.hpp"
#include "contract/verdict.hpp"
#include "judge/implementation.hpp"

namespace sinktrap {

// Holds what the descriptors of a batch point to. The cases must outlive it.
class LayoutBatch {
 public:
  explicit LayoutBatch(std::span<const LayoutCase> cases);
  std::span<const sinktrap_layout> layouts() const { return layouts_; }

 private:
  std::vector<sinktrap_layout> layouts_;
};

// Verdicts of an implementation on a batch in one profile. Throws Stop when the call itself fails.
std::vector<Verdict> validate(const Implementation& implementation, std::span<const LayoutCase> cases,
                              std::int32_t profile);
// The reference's verdict.
Verdict reference_verdict(const LayoutCase& c, std::int32_t profile);
// Membership of the shapes in the image of (S, outer, n, R, H, F), for the type of gate_up_lora_a.
bool in_image(const LayoutCase& c);

// The valid layout of these dimensions, shapes only, in bf16.
LayoutCase valid_layout(const Dimensions& d, ExpertLayout layout);

}  // namespace sinktrap
