// Comparing an implementation's output with what the reference expects (CONTRACT.md section 6).
#pragma once
#include <vector>

#include "cases/tensor.hpp"
#include "judge/status.hpp"

namespace sinktrap {

// How many differing elements a report lists.
constexpr std::size_t kShownDifferences = 8;

// Where 0 is expected on a lattice case, anything below this magnitude counts as 0: a clamped exp or a wider
// type leaves silu(z <= -128) below 2^-64 instead of at 0 (CONTRACT.md section 6).
constexpr double kZeroOnLattice = 0x1p-64;

// Element for element equal, +0 equal to -0; a NaN never equals.
// `row_of` (of compare_bounded too): row t of `found` [T, H] is compared with row row_of[t] of the expected
// values; absent: with its own.
Judgement compare_exact(const std::vector<double>& expected, const Tensor& found, std::string_view what,
                        const std::vector<std::int32_t>* row_of = nullptr);

// Equal bit for bit, except that any NaN equals any NaN.
Judgement compare_bits(const Tensor& expected, const Tensor& found, std::string_view what);

// |found - exact| <= error, element for element; error = infinity: not judged, and counted. bound_at is the
// place in `exact` whose share of its error is largest.
Judgement compare_bounded(const std::vector<double>& exact, const std::vector<double>& error,
                          const Tensor& found, std::string_view what,
                          const std::vector<std::int32_t>* row_of = nullptr);

}  // namespace sinktrap
