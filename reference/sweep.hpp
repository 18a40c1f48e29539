// The complement of the lattice: inputs on which everything but silu is exact, and every output carries one
// activation times a power of two. Rounding commutes with powers of two, so whatever seams a legal
// implementation rounds, it stores round(silu(z) (1 + d)) times that power, with d inside its class of silu:
// one value, or two neighbours where silu(z) lies close to a tie.
#pragma once
#include <string>
#include <vector>

#include "reference/forward.hpp"

namespace sinktrap::reference {

struct Sweep {
  std::string why;                // the first condition that failed; empty when the case is of this family
  std::vector<double> low, high;  // [T, H]: smallest and largest legal stored value
};

// Certified like the lattice up to y; then: every up and gamma that an output uses is a power of two, the
// output has at most one term (through w2, or through one rank of the adapter), its weights are powers of
// two, and everything is a normal number of the storage type. `stages` are those of forward_f64.
Sweep sweep_interval(const Problem& problem, const Stages& stages, std::int32_t silu_class);

}  // namespace sinktrap::reference
