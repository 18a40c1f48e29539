#include "cases/inputs.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>

#include "cases/fill.hpp"
#include "cases/random.hpp"

namespace sinktrap {
namespace {

[[noreturn]] void refuse(const std::string& what) { throw std::invalid_argument(what); }

// Adds up the bytes of tensors before any is allocated, and refuses what is beyond the limit.
class Allowance {
 public:
  void take(std::initializer_list<std::int64_t> extents, Element type) {
    std::int64_t bytes = element_bytes(type);
    for (std::int64_t e : extents)
      if (__builtin_mul_overflow(bytes, e, &bytes)) refuse("tensors of the case are too large");
    if (__builtin_add_overflow(total_, bytes, &total_) || total_ > CaseLimits::max_bytes)
      refuse("tensors of the case are too large");
  }

 private:
  std::int64_t total_ = 0;
};

// What every user of a layer relies on; the parser has said so to people already, this protects against code.
void check(const LayerCase& c) {
  const Dimensions& d = c.d;
  for (std::int64_t extent : {d.n, d.H, d.F, d.R, d.S})
    if (extent < 1 || extent > CaseLimits::max_extent) refuse("an extent is out of range");
  if (!is_storage(c.type)) refuse("the storage type must be bf16, f16 or f32");
  if (c.gammas != c.type && c.gammas != Element::f32) refuse("gammas must be of the storage type or f32");
  if (static_cast<std::int64_t>(c.ranks.size()) != d.S) refuse("there must be one rank for each slot");
  for (std::int64_t r : c.ranks)
    if (r < 0 || r > d.R) refuse("a rank is not in 0..R");
}

void check(const ForwardCase& c) {
  check(c.layer);
  if (c.tp < 1 || c.layer.d.F % c.tp != 0) refuse("tp must divide F");
  for (std::int32_t s : c.slots)
    if (s < -1 || s >= c.layer.d.S) refuse("a token's slot is not in -1..S-1");
}

// The tokens of a large batch that have rows of their own: up to kDistinctRows of them, of each slot in turn.
// `source[t]` is the index, among them, of the row that token t repeats.
struct Repeats {
  std::vector<std::int32_t> slots;   // of the tokens with rows of their own
  std::vector<std::int32_t> source;  // [T]
};
Repeats repeats_of(const ForwardCase& c) {
  Repeats r;
  std::map<std::int32_t, std::vector<std::int32_t>> rows_of;
  for (const std::int32_t s : c.slots) rows_of[s];
  const std::int64_t slots = static_cast<std::int64_t>(rows_of.size());
  const auto each =
      static_cast<std::size_t>(std::max<std::int64_t>(1, kDistinctRows / std::max<std::int64_t>(slots, 1)));
  Random random(c.layer.seed, std::uint64_t{3} * kRoles);
  for (const std::int32_t s : c.slots) {
    std::vector<std::int32_t>& rows = rows_of[s];
    if (rows.size() < each) {
      rows.push_back(static_cast<std::int32_t>(r.slots.size()));
      r.slots.push_back(s);
      r.source.push_back(rows.back());
    } else {
      r.source.push_back(rows[random.below(static_cast<std::uint32_t>(rows.size()))]);
    }
  }
  return r;
}

Tensor repeated(const Tensor& rows, const std::vector<std::int32_t>& source) {
  std::vector<std::int64_t> shape = rows.shape();
  const std::size_t bytes = rows.bytes().size() / static_cast<std::size_t>(shape[0]);
  shape[0] = static_cast<std::int64_t>(source.size());
  Tensor out(rows.type(), std::move(shape));
  for (std::size_t t = 0; t < source.size(); ++t)
    std::copy_n(
        rows.bytes().begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(source[t]) * bytes),
        bytes, out.bytes().begin() + static_cast<std::ptrdiff_t>(t * bytes));
  return out;
}

// The case of the distinct rows alone, then every token's row from there.
ForwardInputs repeat_rows(const ForwardCase& c, const Repeats& repeats) {
  Allowance allowance;
  allowance.take({c.T(), c.layer.d.H}, c.layer.type);
  ForwardCase few = c;
  few.slots = repeats.slots;
  few.layer.put.clear();
  ForwardInputs in = make_inputs(few);
  in.x = repeated(in.x, repeats.source);
  in.gammas = repeated(in.gammas, repeats.source);
  in.token_slot = repeated(in.token_slot, repeats.source);
  for (const Put& put : c.layer.put) apply_put(put, in);
  in.independent = in.independent && c.layer.put.empty();
  in.sweep = in.sweep && c.layer.put.empty();
  return in;
}

}  // namespace

ForwardInputs make_inputs(const ForwardCase& c) {
  check(c);
  if (c.T() > kDistinctRows) {
    const Repeats repeats = repeats_of(c);
    if (repeats.slots.size() < c.slots.size()) return repeat_rows(c, repeats);
  }
  const auto [n, H, F, R, S] = c.layer.d;
  const std::int64_t T = c.T();
  const Element type = c.layer.type;
  ForwardInputs in;
  in.d = c.layer.d;
  in.layout = n == 1 ? ExpertLayout::shared : c.layer.layout;
  in.w13_layout = c.layer.w13;
  in.type = type;
  const std::int64_t outer = in.outer();

  Allowance allowance;
  for (auto extents : {std::initializer_list<std::int64_t>{n, 2, F, H},
                       {n, H, F},
                       {T, H},
                       {S, outer, 2, R, H},
                       {S, n, 2, F, R},
                       {S, n, R, F},
                       {S, outer, H, R}})
    allowance.take(extents, type);
  in.w13 = Tensor(type, {n, 2 * F, H});
  in.w2 = Tensor(type, {n, H, F});
  in.pool[SINKTRAP_BUFFER_GATE_UP_LORA_A] = Tensor(type, {S, outer, 2 * R, H});
  in.pool[SINKTRAP_BUFFER_GATE_UP_LORA_B] = Tensor(type, {S, n, 2 * F, R});
  in.pool[SINKTRAP_BUFFER_DOWN_LORA_A] = Tensor(type, {S, n, R, F});
  in.pool[SINKTRAP_BUFFER_DOWN_LORA_B] = Tensor(type, {S, outer, H, R});
  in.x = Tensor(type, {T, H});
  in.gammas = Tensor(c.layer.gammas, {T, n});
  in.token_slot = Tensor(Element::i32, {T});
  for (std::int64_t t = 0; t < T; ++t) in.token_slot.set(t, c.slots[static_cast<std::size_t>(t)]);

  if (c.layer.fill == Fill::lattice)
    fill_lattice(c, in);
  else if (c.layer.fill == Fill::sweep)
    fill_sweep(c, in);
  else
    fill_random(c, in);
  for (const Put& put : c.layer.put) apply_put(put, in);
  in.independent = c.layer.fill == Fill::dense && c.layer.put.empty();
  in.sweep = c.layer.fill == Fill::sweep && c.layer.put.empty();
  return in;
}

AdapterFactors make_adapter(const PackCase& c) {
  check(c.layer);
  const auto [n, H, F, R, S] = c.layer.d;
  if (c.r < 0 || c.r > CaseLimits::max_extent) refuse("the adapter's rank is out of range");
  if (c.tp < 1) refuse("tp must be at least 1");
  const Element type = c.layer.type;
  const std::int64_t r = c.r;
  AdapterFactors a;
  a.per_expert = c.factors == Factors::per_expert;
  a.stacked = c.factors == Factors::stacked;
  a.rank = r;
  a.tp_rank = c.tp_rank;
  a.tp_size = c.tp;
  a.scaling = static_cast<float>(c.scaling);
  const std::int64_t copies = a.per_expert ? n : 1;  // of the outer factors

  Allowance allowance;
  allowance.take({2, copies, r, H}, type);
  allowance.take({n, 2, F, c.tp, r}, type);
  allowance.take({r, n, F, c.tp}, type);
  allowance.take({copies, H, r}, type);
  a.gate_a = Tensor(type, {copies * r, H});
  if (!a.stacked) a.up_a = Tensor(type, {copies * r, H});
  a.gate_up_b = Tensor(type, {n * 2 * F * c.tp, r});
  a.down_a = Tensor(type, {r, n * F * c.tp});
  a.down_b = Tensor(type, {copies * H, r});

  // Streams beyond those of the layer's own tensors: an adapter never repeats what its slot held before.
  std::uint64_t stream = std::uint64_t{2} * kRoles;
  for (auto [tensor, role] : {std::pair{&a.gate_a, Role::gate_up_lora_a},
                              {&a.up_a, Role::gate_up_lora_a},
                              {&a.gate_up_b, Role::gate_up_lora_b},
                              {&a.down_a, Role::down_lora_a},
                              {&a.down_b, Role::down_lora_b}}) {
    Random random(c.layer.seed, stream++);
    fill_run(*tensor, 0, tensor->size(), role, c.layer.d, c.layer.fill, random);
  }
  return a;
}

}  // namespace sinktrap
