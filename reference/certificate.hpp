// Decides whether a forward pass is exact for every legal implementation (CONTRACT.md section 6, "Exact").
//
// From magnitudes and significant bits alone: inputs fit the storage type; every accumulation (base plus
// LoRA, and all experts chained, included) has sum |w||x| <= 2^23 granules, a granule being min lsb(w) * min
// lsb(x) >= 2^-126; every seam value, per expert and summed, and out, fits the storage type in significant
// bits and normal range; bits(silu) + bits(up) + bits(gamma) <= 24; every gate is >= 40 or <= -128.
#pragma once
#include <string>

#include "reference/forward.hpp"

namespace sinktrap::reference {

struct Certificate {
  bool exact = false;
  std::string why;  // the first condition that failed, with where; empty when exact
};

// `stages` are those of forward_f64 on the same problem.
Certificate certify(const Problem& problem, const Stages& stages);
// The conditions on inputs, bridges and gate_up alone: y is the same number in every legal implementation.
Certificate certify_up_to_y(const Problem& problem, const Stages& stages);

}  // namespace sinktrap::reference
