// Crossings: two cases of a kind into one.
#include <algorithm>

#include "properties/neighbours.hpp"

namespace sinktrap {
namespace {

void cross(LayoutCase& a, const LayoutCase& b, Random& random) {
  for (std::size_t i = 0; i < a.buffers.size(); ++i)
    if (random.chance(1, 2)) a.buffers[i] = b.buffers[i];
  if (random.chance(1, 3)) a.n = b.n;
  if (random.chance(1, 3)) {
    a.H = b.H;
    a.F = b.F;
  }
  const auto placed = std::count_if(a.buffers.begin(), a.buffers.end(),
                                    [](const BufferCase& x) { return x.address.has_value(); });
  if (placed != 0 && placed != SINKTRAP_BUFFER_COUNT)
    for (BufferCase& x : a.buffers) x.address.reset();
}

// The extents of one, the contents of the other.
void cross_layers(LayerCase& a, const LayerCase& b, Random& random) {
  if (random.chance(1, 2)) {
    a.d = b.d;
    a.layout = b.layout;
    a.ranks = b.ranks;
    a.put = b.put;
  }
  if (random.chance(1, 2)) {
    a.w13 = b.w13;
    a.type = b.type;
    a.gammas = b.gammas;
  }
  if (random.chance(1, 2)) a.fill = b.fill;
  if (random.chance(1, 2)) a.schedule = b.schedule;
  if (random.chance(1, 2)) a.seed = b.seed;
  repair(a);
}

void cross(ForwardCase& a, const ForwardCase& b, Random& random) {
  cross_layers(a.layer, b.layer, random);
  if (random.chance(1, 2)) a.slots = b.slots;
  if (random.chance(1, 2)) a.tp = b.tp;
  repair(a);
}

void cross(StateCase& a, const StateCase& b, Random& random) {
  cross_layers(a.layer, b.layer, random);
  // The beginning of one sequence, the end of the other.
  const std::size_t keep = random.below(static_cast<std::uint32_t>(a.steps.size() + 1));
  const std::size_t from = random.below(static_cast<std::uint32_t>(b.steps.size()));
  a.steps.resize(keep);
  a.steps.insert(a.steps.end(), b.steps.begin() + static_cast<std::ptrdiff_t>(from), b.steps.end());
  repair(a);
}

void cross(PackCase& a, const PackCase& b, Random& random) {
  cross_layers(a.layer, b.layer, random);
  if (random.chance(1, 2)) a.r = b.r;
  if (random.chance(1, 2)) a.scaling = b.scaling;
  if (random.chance(1, 2)) a.factors = b.factors;
  if (random.chance(1, 2)) {
    a.tp = b.tp;
    a.tp_rank = b.tp_rank;
  }
  repair(a);
}

void cross(ShardCase& a, const ShardCase& b, Random& random) {
  cross_layers(a.layer, b.layer, random);
  if (random.chance(1, 2)) a.tp = b.tp;
}

}  // namespace

std::optional<Case> crossed_case(const Case& a, const Case& b, Random& random, const CaseSizes& top) {
  if (a.index() != b.index()) return std::nullopt;
  Case result = a;
  std::visit([&](auto& typed) { cross(typed, std::get<std::decay_t<decltype(typed)>>(b), random); }, result);
  if (!within(result, top)) return std::nullopt;
  return result;
}

}  // namespace sinktrap
