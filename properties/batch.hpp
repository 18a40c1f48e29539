// What laws about forward share: which cases they speak about, and running one batch.
#pragma once
#include "judge/session.hpp"
#include "properties/law.hpp"

namespace sinktrap::batch {

inline const ForwardCase& forward(const Case& c) { return std::get<ForwardCase>(c); }
inline bool is_forward(const Case& c) { return std::holds_alternative<ForwardCase>(c); }
inline bool is_lattice(const Case& c) {
  return is_forward(c) && forward(c).layer.fill == Fill::lattice && forward(c).layer.put.empty();
}
inline bool is_dense(const Case& c) {
  return is_forward(c) && forward(c).layer.fill == Fill::dense && forward(c).layer.put.empty();
}
inline bool is_finite_fill(const Case& c) { return is_lattice(c) || is_dense(c); }
inline bool is_shared(const Case& c) {
  return is_finite_fill(c) && forward(c).layer.layout == ExpertLayout::shared && forward(c).layer.d.n > 1;
}
inline bool is_sharded(const Case& c) { return is_lattice(c) && forward(c).tp > 1; }

// Laws that run a batch many times leave the largest ones to the laws that run it once: 2^22 products of w13
// take the simulated kernels about a second, and the size of a layer is nothing that these laws speak about.
inline bool is_quick(const Case& c) {
  const auto& d = forward(c).layer.d;
  return forward(c).T() * d.n * d.F * d.H <= (1 << 21);
}

// A seam set that follows from the case, so that a line repeats: none, all, or any.
inline std::uint32_t seams_of(const ForwardCase& c) {
  std::uint64_t h = (c.layer.seed + 1) * 0x9e3779b97f4a7c15ull;
  h ^= h >> 29;
  return h % 4 == 0   ? 0u
         : h % 4 == 1 ? SINKTRAP_ALL_SEAMS
                      : static_cast<std::uint32_t>(h >> 8) & SINKTRAP_ALL_SEAMS;
}

inline SessionOptions options_of(const ForwardCase& c, bool choose_seams) {
  SessionOptions o;
  o.schedule = c.layer.schedule;
  if (choose_seams) o.seams = seams_of(c);
  return o;
}

// Binds the pool and runs one batch; every call must succeed.
inline Tensor run(Session& session, const ForwardInputs& in) {
  must_succeed(session.implementation(), session.bind(in.pool), "bind");
  const auto output = session.forward(in.x, in.gammas, in.token_slot);
  must_succeed(session.implementation(), output.verdict, "forward");
  return output.out;
}

}  // namespace sinktrap::batch
