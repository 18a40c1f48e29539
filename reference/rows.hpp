// Stored tensors as numbers: decoding, the products of CONTRACT.md section 5 as sums over rows, rounding to
// storage.
#pragma once
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

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

  // Rows are taken in blocks, side by side: each row has a sum of its own, so the order within it stays as
  // promised while the processor works on all of them.
  static constexpr std::int64_t kBlock = 8;

  template <class StoredRow>
  void multiply(const void* matrix, std::int64_t width, std::int64_t rows, StoredRow stored_row,
                std::span<const std::int64_t> tokens, const Real* in, std::int64_t in_stride, Real* out,
                std::int64_t out_stride) const {
    if (tokens.empty()) return;
    row_.resize(static_cast<std::size_t>(width));
    block_.resize(static_cast<std::size_t>(width * kBlock));
    for (std::int64_t first = 0; first < rows; first += kBlock) {
      const std::int64_t used = rows - first < kBlock ? rows - first : kBlock;
      for (std::int64_t i = 0; i < used; ++i) {
        decode(p_.type, matrix, stored_row(first + i) * width, width, row_.data());
        for (std::int64_t k = 0; k < width; ++k) block_[k * kBlock + i] = taken(row_[k]);
      }
      for (std::int64_t t : tokens) {
        Real sum[kBlock] = {};
        for (std::int64_t i = 0; i < used; ++i) sum[i] = out[t * out_stride + first + i];
        add_products(block_.data(), in + t * in_stride, width, sum);
        for (std::int64_t i = 0; i < used; ++i) out[t * out_stride + first + i] = sum[i];
      }
    }
  }

  static void add_products(const Real* block, const Real* in, std::int64_t width, Real (&sum)[kBlock]) {
    Real acc[kBlock];
    for (int i = 0; i < kBlock; ++i) acc[i] = sum[i];
    for (std::int64_t k = 0; k < width; ++k)
      for (int i = 0; i < kBlock; ++i) acc[i] = std::fma(block[k * kBlock + i], in[k], acc[i]);
    for (int i = 0; i < kBlock; ++i) sum[i] = acc[i];
  }

  Real taken(float w) const {
    if (weights_ == Weights::exact) return w;
    if (weights_ == Weights::square) return static_cast<Real>(w) * w;
    const float magnitude = std::fabs(w);
    return weights_ == Weights::magnitude || magnitude < 0x1p-126f ? magnitude : 0.0f;
  }

  const Problem& p_;
  Weights weights_;
  // Rows of the product being computed. Kept between the products, which are many and small.
  mutable std::vector<float> row_;
  mutable std::vector<Real> block_;
};

}  // namespace sinktrap::reference
