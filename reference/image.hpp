// The second definition of a valid tuple of shapes (CONTRACT.md section 2, "Complete"): not a list of things
// that may be wrong, but the image of the map from (S, outer, R, H, F) to the shapes of section 1.
#pragma once
#include <array>
#include <cstdint>

#include "contract/sinktrap.h"

namespace sinktrap::reference {

using Shape = std::array<std::int64_t, 4>;
using Shapes = std::array<Shape, SINKTRAP_BUFFER_COUNT>;  // in the order of sinktrap_buffer

// What is given beside the shapes: the layer's dimensions (H, F: SINKTRAP_ANY where not known) and bytes per
// element.
struct ImageOf {
  std::int64_t n = 1, H = SINKTRAP_ANY, F = SINKTRAP_ANY, element_bytes = 2;
};

// True when some S, R, H, F >= 1 and outer in {1, n} yield exactly these shapes, each buffer below 2^63
// bytes.
bool in_image(const Shapes& shapes, const ImageOf& given);

}  // namespace sinktrap::reference
