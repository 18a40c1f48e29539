// Stored tensors as numbers: decoding, the products of CONTRACT.md section 5 as sums over rows, rounding to
// storage.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "reference/parallel.hpp"
#include "reference/problem.hpp"

namespace sinktrap::reference {

// Stored values first .. first + count - 1, exactly (float holds every storage type).
void decode(Element type, const void* data, std::int64_t first, std::int64_t count, float* out);
std::vector<float> decode(Element type, const void* data, std::int64_t count);

// The float rounded once to the storage type, as float: round_to of the contract, fast enough for a seam.
float round_storage(Element type, float value);

// The tokens that use one slot, ascending.
struct Group {
  std::int64_t slot;  // -1: base model only
  std::vector<std::int64_t> tokens;
};
// Groups in order of slot; a slot that no token uses has none, so its contents are never looked at.
std::vector<Group> groups_by_slot(const Problem& problem);

// Which value of a weight takes part in a product.
enum class Weights : std::uint8_t {
  exact,      // the stored value
  magnitude,  // its magnitude
  square,     // its square
  subnormal   // its magnitude where it is below the f32 normal range, else 0
};

// The matrix products of section 5. Each adds, for every token given, row . vector to each element of an
// output that is laid out as in Stages (reference/forward.hpp); a sum is one chain of fma in ascending k that
// starts from what the output holds. Vectors and outputs are [T, ...] arrays over all tokens.
template <class Real>
class Products {
 public:
  explicit Products(const Problem& problem, Weights weights = Weights::exact)
      : p_(problem), weights_(weights) {}

  // x [T,H] to base_y [T,n,2,F]
  void base_y(std::span<const std::int64_t> tokens, const Real* x, Real* out) const {
    const auto stored_row = [this](std::int64_t r) {
      const std::int64_t e = r / (2 * p_.F), half = r / p_.F % 2, j = r % p_.F;
      return e * 2 * p_.F + p_.w13_row(static_cast<int>(half), j);
    };
    multiply(p_.w13, p_.H, p_.n * 2 * p_.F, stored_row, tokens, x, p_.H, out, p_.n * 2 * p_.F);
  }
  // x [T,H] to bridge [T,outer,2,R]: all R rows of each half
  void bridge(const Group& g, const Real* x, Real* out) const {
    const std::int64_t rows = p_.outer * 2 * p_.R;
    multiply(p_.pool[SINKTRAP_BUFFER_GATE_UP_LORA_A], p_.H, rows, from(g.slot * rows), g.tokens, x, p_.H, out,
             rows);
  }
  // bridge [T,outer,2,R] to delta [T,n,2,F]
  void delta(const Group& g, const Real* bridge, Real* out) const {
    for (std::int64_t e = 0; e < p_.n; ++e)
      for (std::int64_t half = 0; half < 2; ++half) {
        const std::int64_t at = (e * 2 + half) * p_.F;
        multiply(p_.pool[SINKTRAP_BUFFER_GATE_UP_LORA_B], p_.R, p_.F, from(g.slot * p_.n * 2 * p_.F + at),
                 g.tokens, bridge + (outer_of(e) * 2 + half) * p_.R, p_.outer * 2 * p_.R, out + at,
                 p_.n * 2 * p_.F);
      }
  }
  // act [T,n,F] to expert_out [T,n,H]
  void expert_out(std::span<const std::int64_t> tokens, const Real* act, Real* out) const {
    if (tokens.empty()) return;  // no token, no array to point into
    for (std::int64_t e = 0; e < p_.n; ++e)
      multiply(p_.w2, p_.F, p_.H, from(e * p_.H), tokens, act + e * p_.F, p_.n * p_.F, out + e * p_.H,
               p_.n * p_.H);
  }
  // act [T,n,F] to down_bridge [T,outer,R]; shared-outer: the experts add to one sum, in ascending order
  void down_bridge(const Group& g, const Real* act, Real* out) const {
    for (std::int64_t e = 0; e < p_.n; ++e)
      multiply(p_.pool[SINKTRAP_BUFFER_DOWN_LORA_A], p_.F, p_.R, from((g.slot * p_.n + e) * p_.R), g.tokens,
               act + e * p_.F, p_.n * p_.F, out + outer_of(e) * p_.R, p_.outer * p_.R);
  }
  // down_bridge [T,outer,R] to down_delta [T,outer,H]
  void down_delta(const Group& g, const Real* bridge, Real* out) const {
    for (std::int64_t o = 0; o < p_.outer; ++o)
      multiply(p_.pool[SINKTRAP_BUFFER_DOWN_LORA_B], p_.R, p_.H, from((g.slot * p_.outer + o) * p_.H),
               g.tokens, bridge + o * p_.R, p_.outer * p_.R, out + o * p_.H, p_.outer * p_.H);
  }

 private:
  // Outer factor that serves expert e.
  std::int64_t outer_of(std::int64_t e) const { return p_.outer == 1 ? 0 : e; }
  static auto from(std::int64_t first) {
    return [first](std::int64_t r) { return first + r; };
  }

  // Rows are taken in blocks, side by side, and so are tokens: each pair has a sum of its own, so the order
  // within it stays as promised while the processor works on all of them.
  static constexpr std::int64_t kBlock = 8;

  // Rows of the product being computed, as numbers.
  struct Scratch {
    std::vector<float> row;
    std::vector<Real> block;
  };

  // Where each row's and token's numbers are.
  struct Operands {
    std::span<const std::int64_t> tokens;
    const Real* in;
    std::int64_t in_stride;
    Real* out;
    std::int64_t out_stride;
  };

  template <class StoredRow>
  void multiply(const void* matrix, std::int64_t width, std::int64_t rows, StoredRow stored_row,
                std::span<const std::int64_t> tokens, const Real* in, std::int64_t in_stride, Real* out,
                std::int64_t out_stride) const {
    if (tokens.empty()) return;
    const Operands o = {tokens, in, in_stride, out, out_stride};
    const std::int64_t blocks = (rows + kBlock - 1) / kBlock;
    const auto part = [&](Scratch& scratch, std::int64_t first, std::int64_t last) {
      multiply_rows(matrix, width, first * kBlock, std::min(last * kBlock, rows), stored_row, o, scratch);
    };
    const std::int64_t work = width * rows * static_cast<std::int64_t>(tokens.size());
    if (work < kParallelFrom) return part(scratch_, 0, blocks);
    in_parallel(blocks, [&](std::int64_t first, std::int64_t last) {
      Scratch own;
      part(own, first, last);
    });
  }

  template <class StoredRow>
  void multiply_rows(const void* matrix, std::int64_t width, std::int64_t first, std::int64_t last,
                     const StoredRow& stored_row, const Operands& o, Scratch& s) const {
    s.row.resize(static_cast<std::size_t>(width));
    s.block.resize(static_cast<std::size_t>(width * kBlock));
    for (; first < last; first += kBlock) {
      const std::int64_t used = std::min(last - first, kBlock);
      for (std::int64_t i = 0; i < used; ++i) {
        decode(p_.type, matrix, stored_row(first + i) * width, width, s.row.data());
        for (std::int64_t k = 0; k < width; ++k) s.block[k * kBlock + i] = taken(s.row[k]);
      }
      std::size_t t = 0;
      for (; t + 4 <= o.tokens.size(); t += 4)
        add_to_four(s.block.data(), width, o, &o.tokens[t], first, used);
      for (; t < o.tokens.size(); ++t) add_to_one(s.block.data(), width, o, o.tokens[t], first, used);
    }
  }

  struct Sums {
    Real v[kBlock] = {};
    void add(const Real* weights, Real x) {
      for (std::int64_t i = 0; i < kBlock; ++i) v[i] = std::fma(weights[i], x, v[i]);
    }
  };

  static void add_to_one(const Real* block, std::int64_t width, const Operands& o, std::int64_t token,
                         std::int64_t first, std::int64_t used) {
    const Real* in = o.in + token * o.in_stride;
    Real* out = o.out + token * o.out_stride + first;
    Sums a;
    std::copy_n(out, used, a.v);
    for (std::int64_t k = 0; k < width; ++k) a.add(block + k * kBlock, in[k]);
    std::copy_n(a.v, used, out);
  }

  // One multiplication waits for the one before it in its chain; four tokens' chains fill the time. (Written
  // out: in an array of sums the compiler does not keep them in registers.)
  static void add_to_four(const Real* block, std::int64_t width, const Operands& o,
                          const std::int64_t* tokens, std::int64_t first, std::int64_t used) {
    const Real *in0 = o.in + tokens[0] * o.in_stride, *in1 = o.in + tokens[1] * o.in_stride,
               *in2 = o.in + tokens[2] * o.in_stride, *in3 = o.in + tokens[3] * o.in_stride;
    Sums a0, a1, a2, a3;
    Sums* const all[] = {&a0, &a1, &a2, &a3};
    for (int c = 0; c < 4; ++c) std::copy_n(o.out + tokens[c] * o.out_stride + first, used, all[c]->v);
    for (std::int64_t k = 0; k < width; ++k) {
      const Real* weights = block + k * kBlock;
      a0.add(weights, in0[k]);
      a1.add(weights, in1[k]);
      a2.add(weights, in2[k]);
      a3.add(weights, in3[k]);
    }
    for (int c = 0; c < 4; ++c) std::copy_n(all[c]->v, used, o.out + tokens[c] * o.out_stride + first);
  }

  Real taken(float w) const {
    if (weights_ == Weights::exact) return w;
    if (weights_ == Weights::square) return static_cast<Real>(w) * w;
    const float magnitude = std::fabs(w);
    return weights_ == Weights::magnitude || magnitude < 0x1p-126f ? magnitude : 0.0f;
  }

  const Problem& p_;
  Weights weights_;
  mutable Scratch scratch_;  // kept between the products, which are many and small
};

}  // namespace sinktrap::reference
