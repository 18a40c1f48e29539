// Sums of products in f32, in the ways that CONTRACT.md section 1 allows ("accumulation is f32 or wider"),
// and one that it forbids.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "cases/random.hpp"
#include "contract/element.hpp"

namespace sinktrap::zoo {

struct Summation {
  enum class Kind : std::uint8_t {
    rounded,      // product rounded, then added
    fused,        // one fma a term
    pairwise,     // halves of the range, recursively
    blocked,      // blocks of `width` terms summed by themselves, then the blocks
    lanes,        // `width` interleaved partial sums, combined as a tree (fma)
    split,        // `width` contiguous parts of the range, combined last (fma)
    truncating,   // product rounded, every addition toward zero
    tensor_core,  // blocks of `width` exact products and the accumulator, see below
    wide,         // f64
    storage       // wrong: the accumulator is rounded to the storage type after every term
  };
  enum class Order : std::uint8_t { ascending, descending, shuffled };
  Kind kind = Kind::fused;
  Order order = Order::ascending;
  int width = 1;
  int bits = 24;  // of an aligned addend in a tensor core: 24 or more
  bool operator==(const Summation&) const = default;
};

// The sums that the contract allows, in ascending order; `order` is free.
std::span<const Summation> legal_summations();

// Terms of one sum: weights and values side by side.
struct Terms {
  std::vector<float> w, v;
  bool skip_zeros =
      false;  // terms with a zero factor are left out, so that NaN or infinity beside it is lost
  void clear() {
    w.clear();
    v.clear();
  }
  void add(const float* weights, const float* values, std::int64_t count);
};

// start + sum of w[k] * v[k]. A tensor core aligns every exact product and its accumulator to the largest
// exponent among them, cuts each to `bits` bits, adds them exactly and cuts the sum to 24 bits (as measured
// by Fasi, Higham, Mikaitis, Pranesh 2021, "Numerical behavior of NVIDIA tensor cores"). `flush`: results
// below the f32 normal range become 0. `random` shuffles; `storage` is for Kind::storage.
float sum(const Summation& how, float start, const Terms& terms, bool flush, Random& random, Element storage);

// Rounded once to the storage type.
float stored(Element type, float value);

}  // namespace sinktrap::zoo
