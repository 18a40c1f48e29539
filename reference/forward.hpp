// The forward pass of CONTRACT.md section 5, twice: in f64, stage by stage, and in the ordered f32 arithmetic
// of section 7.
#pragma once
#include <vector>

#include "reference/problem.hpp"

namespace sinktrap::reference {

// Every intermediate of one pass in f64, row-major. Slot -1 leaves LoRA stages zero.
struct Stages {
  std::vector<double> base_y;       // [T, n, 2, F]; half 0 gate, 1 up
  std::vector<double> bridge;       // [T, outer, 2, R]   g_br, u_br
  std::vector<double> delta;        // [T, n, 2, F]
  std::vector<double> y;            // [T, n, 2, F]
  std::vector<double> silu;         // [T, n, F]
  std::vector<double> product;      // [T, n, F]
  std::vector<double> act;          // [T, n, F]
  std::vector<double> expert_out;   // [T, n, H]
  std::vector<double> base_out;     // [T, H]
  std::vector<double> down_bridge;  // [T, outer, R]
  std::vector<double> down_delta;   // [T, outer, H]
  std::vector<double> out;          // [T, H], before the final rounding
};

// f64 throughout; silu below 2^-150 in magnitude becomes zero, as in f32 (CONTRACT.md section 6).
// With keep_stages = false only `out` is filled.
Stages forward_f64(const Problem& problem, bool keep_stages = true);

// The ordered arithmetic, with the seams of the mask rounded to the storage type. Returns the stored outputs:
// [T, H] elements of the storage type, as bytes.
std::vector<std::byte> forward_ordered(const Problem& problem, std::uint32_t seams);

// exp and silu of the ordered arithmetic, for tests.
float ordered_exp(float x);
float ordered_silu(float z);
// silu in f64 with the underflow rule above.
double silu_f64(double z);

}  // namespace sinktrap::reference
