#include "cases/fill.hpp"

#include <cmath>
#include <limits>
#include <stdexcept>

#include "cases/fill_store.hpp"

namespace sinktrap {
namespace {

// Standard deviations that keep every intermediate of a layer of any size at O(1): a dot product over K
// coordinates of unit variance has deviation sqrt(K) times that of its weights. x and all first-stage sums
// have deviation 1 to 1.2, so gates lie within about +-4; the LoRA share of a gate is half of the base's.
double deviation(Role role, const Dimensions& d) {
  const double inner = static_cast<double>(d.n) * static_cast<double>(d.F);
  switch (role) {
    case Role::gate_up_lora_a:
    case Role::w13:
      return 1.0 / std::sqrt(static_cast<double>(d.H));
    case Role::gate_up_lora_b:
      return 0.5 / std::sqrt(static_cast<double>(d.R));
    case Role::down_lora_a:
    case Role::w2:
      return 1.0 / std::sqrt(inner);
    case Role::down_lora_b:
      return 1.0 / std::sqrt(static_cast<double>(d.R));
    case Role::x:
    case Role::gammas:
      break;
  }
  return 1.0;
}

template <class Draw>
void draw_run(Tensor& t, std::int64_t first, std::int64_t count, Draw draw) {
  const FastStore store(t);
  for (std::int64_t i = first; i < first + count; ++i) store.set(i, static_cast<float>(draw()));
}

}  // namespace

Tensor& tensor_of(ForwardInputs& in, Role role) {
  switch (role) {
    case Role::w13:
      return in.w13;
    case Role::w2:
      return in.w2;
    case Role::x:
      return in.x;
    case Role::gammas:
      return in.gammas;
    default:
      return in.pool[static_cast<std::size_t>(role)];
  }
}

double largest_finite(Element type) {
  const FloatFormat f = float_format(type);
  return std::ldexp(2.0 - std::ldexp(1.0, 1 - f.significant_bits), f.max_exponent);
}

void fill_run(Tensor& t, std::int64_t first, std::int64_t count, Role role, const Dimensions& d, Fill fill,
              Random& random) {
  switch (fill) {
    case Fill::zero:
      return;
    case Fill::dense:
      if (role == Role::gammas) return draw_run(t, first, count, [&] { return 0.5 + random.unit(); });
      return draw_run(t, first, count, [&, s = deviation(role, d)] { return random.normal() * s; });
    case Fill::subnormal: {
      // A deviation of the smallest normal number: about two thirds of the values are subnormal.
      const double s = std::ldexp(1.0, float_format(t.type()).min_exponent);
      return draw_run(t, first, count, [&] { return random.normal() * s; });
    }
    case Fill::huge: {
      const double largest = largest_finite(t.type());
      // At most the largest finite value itself: 1 - unit / 2 lies in (1/2, 1].
      return draw_run(t, first, count, [&] {
        const double v = largest * (1.0 - random.unit() / 2);
        return random.sign() > 0 ? v : -v;
      });
    }
    case Fill::lattice:
    case Fill::sweep:
      return draw_run(t, first, count, [&] { return random.signed_magnitude(127); });
  }
}

void fill_random(const ForwardCase& c, ForwardInputs& in) {
  const LayerCase& layer = c.layer;
  std::uint32_t special = 0;  // bit i: Role i gets the fill itself, the others are dense
  if (layer.fill == Fill::dense || layer.fill == Fill::zero)
    special = (1u << kRoles) - 1;
  else  // gammas stay ordinary: they scale whole experts
    special = 1 + Random(layer.seed, kRoles).below((1u << (kRoles - 1)) - 1);

  for (int i = 0; i < kRoles; ++i) {
    const auto role = static_cast<Role>(i);
    const Fill fill = (special >> i & 1) != 0 ? layer.fill : Fill::dense;
    Tensor& t = tensor_of(in, role);
    Random random(layer.seed, static_cast<std::uint64_t>(i));
    if (i >= SINKTRAP_BUFFER_COUNT) {
      fill_run(t, 0, t.size(), role, layer.d, fill, random);
      continue;
    }
    for (std::int64_t s = 0; s < layer.d.S; ++s)
      for_rank_runs(t, role, layer.d.R, s, layer.ranks[static_cast<std::size_t>(s)],
                    [&](std::int64_t first, std::int64_t count) {
                      fill_run(t, first, count, role, layer.d, fill, random);
                    });
  }
}

void apply_put(const Put& put, ForwardInputs& in) {
  int role = 0;
  while (role < kRoles && kRoleNames[role] != put.tensor) ++role;
  if (role == kRoles) throw std::invalid_argument("put: no tensor is called '" + put.tensor + "'");
  Tensor& t = tensor_of(in, static_cast<Role>(role));
  if (put.index.size() != t.shape().size())
    throw std::invalid_argument("put: " + put.tensor + " has " + std::to_string(t.shape().size()) +
                                " axes, found " + std::to_string(put.index.size()) + " indices");
  std::int64_t flat = 0;
  for (std::size_t axis = 0; axis < put.index.size(); ++axis) {
    const std::int64_t i = put.index[axis], extent = t.shape()[axis];
    if (i < 0 || i >= extent)
      throw std::invalid_argument("put: index " + std::to_string(i) + " of " + put.tensor + " axis " +
                                  std::to_string(axis) + " is not below " + std::to_string(extent));
    flat = flat * extent + i;
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  switch (put.what) {
    case Put::What::nan:
      return t.set(flat, std::numeric_limits<double>::quiet_NaN());
    case Put::What::inf:
      return t.set(flat, kInfinity);
    case Put::What::minus_inf:
      return t.set(flat, -kInfinity);
    case Put::What::huge:
      return t.set(flat, largest_finite(t.type()));
  }
}

}  // namespace sinktrap
