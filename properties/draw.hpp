// Draws that generators share, inside a running RapidCheck generator (rc::gen::exec). Included by generator
// files only: RapidCheck is heavy to compile.
#pragma once
#include <rapidcheck.h>

#include <algorithm>

#include "cases/case.hpp"

namespace sinktrap::draw {

inline std::int64_t pick(std::int64_t low, std::int64_t high) {
  return *rc::gen::inRange<std::int64_t>(low, high + 1);
}
inline bool one_in(int n) { return pick(1, n) == 1; }
inline std::uint64_t any_seed() { return static_cast<std::uint64_t>(pick(0, INT32_MAX)); }

// An extent up to `top`: the smallest ones, any, and the edges of the usual tiles.
inline std::int64_t extent(std::int64_t top) {
  if (top <= 1 || one_in(6)) return 1;
  if (one_in(3)) {
    const std::int64_t edge = std::int64_t{8} << pick(0, 4);
    const std::int64_t v = edge + pick(-1, 1);
    if (v <= top) return v;
  }
  return pick(1, std::max<std::int64_t>(2, one_in(2) ? top / 4 : top));
}

struct Sizes {
  std::int64_t tokens, n, H, F, R, S;
};
// Extents grow with the size; at 100 a case holds all tile edges up to 129 and costs a millisecond or so.
inline Sizes sizes(int size) {
  const std::int64_t s = std::clamp(size, 0, 100);
  return {2 + s / 5, 2 + s / 40, 4 + s * 5 / 4, 3 + s * 3 / 4, 2 + s / 4, 2 + s / 25};
}

// Nine times in ten all extents differ, so that no transpose is legal by accident (S may repeat).
inline Dimensions dimensions(int size, std::int64_t low_n = 1) {
  const Sizes top = sizes(size);
  Dimensions d;
  if (low_n <= 2 &&
      one_in(12)) {  // a real layer scaled down: Inkling (H = 2F, n = 2) at TP 1 to 8, R of 16, 32 or 64
    const std::int64_t scale = std::max<std::int64_t>(48, 6144 / std::max<std::int64_t>(top.H, 1));
    d = {2, 6144 / scale, std::max<std::int64_t>(1, (3072 / scale) >> pick(0, 3)),
         std::max<std::int64_t>(1, (std::int64_t{16} << pick(0, 2)) / 8), pick(1, top.S)};
    return d;
  }
  for (int attempt = 0; attempt < 20; ++attempt) {
    d.n = low_n + (one_in(6) ? pick(0, 3) : pick(0, std::max<std::int64_t>(top.n - low_n, 1)));
    d.H = extent(top.H);
    d.F = extent(top.F);
    d.R = extent(top.R);
    d.S = pick(1, top.S);
    const std::int64_t all[] = {d.n, d.H, d.F, 2 * d.F, d.R, 2 * d.R};
    bool differ = true;
    for (int i = 0; i < 6; ++i)
      for (int j = 0; j < i; ++j) differ = differ && all[i] != all[j];
    if (differ || one_in(10)) break;
  }
  return d;
}

inline Element storage() {
  return *rc::gen::weightedElement<Element>({{6, Element::bf16}, {2, Element::f16}, {2, Element::f32}});
}

// Layout cases (generators_layout.cpp).
LayoutCase valid_layout_case(int size);
LayoutCase any_shapes(int size);
LayoutCase anything(int size);

}  // namespace sinktrap::draw
