// Generated cases (RapidCheck behind it; no other file includes RapidCheck for cases).
#pragma once
#include <functional>

#include "properties/law.hpp"

namespace sinktrap {

// The case of a family at one size (0..100: how large its extents may be) from a seed; the same everywhere.
Case generate_case(Generator family, std::uint64_t seed, int size);

}  // namespace sinktrap
