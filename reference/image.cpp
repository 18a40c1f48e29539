#include "reference/image.hpp"

namespace sinktrap::reference {
namespace {

// Wide enough for the double of any int64, and for the product of two.
__extension__ using Wide = __int128;

struct Parameters {
  Wide S, outer, R, H, F;
};

using WideShapes = std::array<std::array<Wide, 4>, SINKTRAP_BUFFER_COUNT>;

// The table of section 1.
WideShapes shapes_of(const Parameters& p, Wide n) {
  return {{
      {p.S, p.outer, 2 * p.R, p.H},  // gate_up_lora_a
      {p.S, n, 2 * p.F, p.R},        // gate_up_lora_b
      {p.S, n, p.R, p.F},            // down_lora_a
      {p.S, p.outer, p.H, p.R},      // down_lora_b
  }};
}

bool fits_int64(const std::array<Wide, 4>& shape, Wide element_bytes) {
  Wide bytes = element_bytes;
  for (Wide extent : shape) {
    bytes *= extent;
    if (bytes > INT64_MAX) return false;
  }
  return true;
}

}  // namespace

bool in_image(const Shapes& shapes, const ImageOf& given) {
  // Every parameter stands unchanged on some axis. If the tuple has a preimage at all, it is this one.
  const Parameters p = {.S = shapes[SINKTRAP_BUFFER_DOWN_LORA_B][0],
                        .outer = shapes[SINKTRAP_BUFFER_DOWN_LORA_B][1],
                        .R = shapes[SINKTRAP_BUFFER_DOWN_LORA_B][3],
                        .H = shapes[SINKTRAP_BUFFER_DOWN_LORA_B][2],
                        .F = shapes[SINKTRAP_BUFFER_DOWN_LORA_A][3]};
  const bool in_domain =
      given.n >= 1 && p.S >= 1 && p.R >= 1 && p.H >= 1 && p.F >= 1 && (p.outer == 1 || p.outer == given.n) &&
      (given.H == SINKTRAP_ANY || given.H == p.H) && (given.F == SINKTRAP_ANY || given.F == p.F);
  if (!in_domain) return false;

  const WideShapes image = shapes_of(p, given.n);
  for (std::size_t b = 0; b < image.size(); ++b) {
    for (std::size_t axis = 0; axis < image[b].size(); ++axis)
      if (image[b][axis] != shapes[b][axis]) return false;
    if (!fits_int64(image[b], given.element_bytes)) return false;
  }
  return true;
}

}  // namespace sinktrap::reference
