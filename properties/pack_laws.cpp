// Laws about loading, packing and sharding (CONTRACT.md section 4).
#include <fmt/format.h>

#include "judge/compare.hpp"
#include "properties/law.hpp"
#include "properties/model.hpp"
#include "properties/transform.hpp"

namespace sinktrap {
namespace {

bool is_pack(const Case& c) { return std::holds_alternative<PackCase>(c); }
bool is_shard(const Case& c) { return std::holds_alternative<ShardCase>(c); }

// The pool and layer of a case that has no tokens.
ForwardInputs tokenless(const LayerCase& layer) {
  ForwardCase f;
  f.layer = layer;
  return make_inputs(f);
}

// Load into a slot that held another adapter, compare the whole pool and the derived operands with the
// reference's.
Judgement load_leaves_no_trace(const Case& c, const Implementation& implementation) {
  const PackCase& pack = std::get<PackCase>(c);
  const ForwardInputs in = tokenless(pack.layer);
  const AdapterFactors adapter = make_adapter(pack);
  SessionOptions options;
  options.schedule = pack.layer.schedule;
  Session found(implementation, in, options), model(model_implementation(), in);
  must_succeed(model_implementation(), model.bind(in.pool), "bind");
  must_succeed(implementation, found.bind(in.pool), "bind");
  const Pool before = model.read_pool();
  const Verdict expected = model.load(pack.slot, adapter);
  must_equal(found.load(pack.slot, adapter), expected, "load");
  compare_pools(found, model, "load");
  Judgement j;
  for (const Tensor& t : in.pool) j.elements += t.size();
  if (expected.code != SINKTRAP_OK) return j;
  if (implementation.can(SINKTRAP_CAN_UPDATE)) {
    const std::vector<std::int64_t> ids = {pack.slot};
    must_succeed(model_implementation(), model.update(ids), "update");
    must_succeed(implementation, found.update(ids), "update");
    OperandAddresses addresses;
    compare_derived(found, model, in, std::vector<bool>(static_cast<std::size_t>(in.d.S), true), addresses,
                    "load and update");
  }
  const Pool after = model.read_pool();
  bool changed = false;
  for (std::size_t i = 0; i < after.size(); ++i) changed = changed || !after[i].same_bits(before[i]);
  if (!changed) {
    j.status = Status::vacuous;
    j.reason = "the load changed nothing in the pool";
  }
  return j;
}

// Unloading zeroes the slot and nothing else.
Judgement unload_zeroes_the_slot(const Case& c, const Implementation& implementation) {
  const PackCase& pack = std::get<PackCase>(c);
  const ForwardInputs in = tokenless(pack.layer);
  Session found(implementation, in), model(model_implementation(), in);
  must_equal(found.unload(pack.slot), model.unload(pack.slot), "unload before a bind");
  must_succeed(model_implementation(), model.bind(in.pool), "bind");
  must_succeed(implementation, found.bind(in.pool), "bind");
  must_equal(found.unload(in.d.S), model.unload(in.d.S), "unload of slot S");
  must_equal(found.unload(pack.slot), model.unload(pack.slot), "unload");
  compare_pools(found, model, "unload");
  Judgement j;
  for (const Tensor& t : in.pool) j.elements += t.size();
  return j;
}

// Two things wrong at once: the verdict is that of the one that section 4 looks at first.
Judgement load_refuses_in_order(const Case& c, const Implementation& implementation) {
  const PackCase& pack = std::get<PackCase>(c);
  const ForwardInputs in = tokenless(pack.layer);
  const AdapterFactors good = make_adapter(pack);
  Session found(implementation, in), model(model_implementation(), in);
  Judgement j;
  const auto same = [&](std::int64_t slot, const AdapterFactors& adapter, std::string_view what) {
    must_equal(found.load(slot, adapter), model.load(slot, adapter), fmt::format("load with {}", what));
    ++j.elements;
  };
  struct Fault {
    const char* what;
    void (*edit)(AdapterFactors&, const Dimensions&);
  };
  static constexpr auto longer = [](Tensor& t, std::size_t axis) {
    auto shape = t.shape();
    ++shape[axis];
    t = Tensor(t.type(), shape);
  };
  static constexpr Fault faults[] = {
      {"tp_size 0", [](AdapterFactors& a, const Dimensions&) { a.tp_size = 0; }},
      {"tp_rank outside", [](AdapterFactors& a, const Dimensions&) { a.tp_rank = a.tp_size; }},
      {"a negative rank", [](AdapterFactors& a, const Dimensions&) { a.rank = -1; }},
      {"gate A of another type",
       [](AdapterFactors& a, const Dimensions&) { a.gate_a = Tensor(Element::f64, a.gate_a.shape()); }},
      {"a rank above R", [](AdapterFactors& a, const Dimensions& d) { a.rank = d.R + 1; }},
      {"factors named per expert",
       [](AdapterFactors& a, const Dimensions&) { a.per_expert = !a.per_expert; }},
      {"a row too many in gate/up B", [](AdapterFactors& a, const Dimensions&) { longer(a.gate_up_b, 0); }},
      {"a column too many in down A", [](AdapterFactors& a, const Dimensions&) { longer(a.down_a, 1); }},
      {"a tp_size that does not divide",
       [](AdapterFactors& a, const Dimensions&) { a.tp_size = 2 * a.tp_size + 1; }},
      {"a row too many in down B", [](AdapterFactors& a, const Dimensions&) { longer(a.down_b, 0); }},
      {"a column too many in gate A", [](AdapterFactors& a, const Dimensions&) { longer(a.gate_a, 1); }},
  };
  same(pack.slot, good, "no pool bound");
  must_succeed(model_implementation(), model.bind(in.pool), "bind");
  must_succeed(implementation, found.bind(in.pool), "bind");
  for (const std::int64_t slot : {in.d.S, std::int64_t{-1}}) {
    AdapterFactors both = good;
    both.tp_size = 0;
    same(slot, both, "a slot out of range and tp_size 0");
    same(slot, good, "a slot out of range");
  }
  for (const Fault& first : faults)
    for (const Fault& second : faults) {
      AdapterFactors both = good;
      if (both.rank == 0) continue;  // has no factors that could be wrong
      first.edit(both, in.d);
      if (&first != &second) second.edit(both, in.d);
      same(pack.slot, both, fmt::format("{} and {}", first.what, second.what));
    }
  compare_pools(found, model, "refused loads");
  if (good.rank == 0) {
    j.status = Status::vacuous;
    j.reason = "an adapter of rank 0 has no factors";
  }
  return j;
}

Judgement loading_twice_is_loading_once(const Case& c, const Implementation& implementation) {
  const PackCase& pack = std::get<PackCase>(c);
  const ForwardInputs in = tokenless(pack.layer);
  const AdapterFactors adapter = make_adapter(pack);
  Session found(implementation, in);
  must_succeed(implementation, found.bind(in.pool), "bind");
  const Verdict first = found.load(pack.slot, adapter);
  const Pool once = found.read_pool();
  must_equal(found.load(pack.slot, adapter), first, "the second load");
  const Pool twice = found.read_pool();
  Judgement total;
  for (std::size_t i = 0; i < once.size(); ++i) {
    Judgement j = compare_bits(once[i], twice[i], buffer_name(static_cast<std::int32_t>(i)));
    if (j.status != Status::passed) return j;
    total.elements += j.elements;
  }
  return total;
}

Judgement shards_hold_their_features(const Case& c, const Implementation& implementation) {
  const ShardCase& s = std::get<ShardCase>(c);
  const ForwardInputs in = tokenless(s.layer);
  Judgement total;
  const std::pair<std::int64_t, std::int64_t> parts[] = {
      {0, s.tp}, {s.tp / 2, s.tp}, {s.tp - 1, s.tp}, {s.tp, s.tp}, {-1, s.tp}, {0, 0}, {0, -1}, {-1, -1}};
  for (const auto& [p, P] : parts) {
    const auto expected = shard(model_implementation(), in.pool, p, P);
    const auto found = shard(implementation, in.pool, p, P);
    must_equal(found.verdict, expected.verdict, fmt::format("shard {} of {}", p, P));
    if (expected.verdict.code != SINKTRAP_OK) continue;
    for (std::size_t i = 0; i < in.pool.size(); ++i) {
      const Judgement j =
          compare_bits(expected.shard[i], found.shard[i], buffer_name(static_cast<std::int32_t>(i)));
      if (j.status != Status::passed)
        stop(j.status, fmt::format("shard {} of {}: {}", p, P, j.reason), j.details);
      total.elements += j.elements;
    }
  }
  return total;
}

// Expansion repeats; collapse undoes it; copies that differ in one bit are refused, and the expert is named.
Judgement collapse_undoes_expansion(const Case& c, const Implementation& implementation) {
  const LayerCase& layer = std::get<ShardCase>(c).layer;
  const ForwardInputs in = tokenless(layer);
  const std::int64_t n = in.d.n;
  Judgement total;
  for (const sinktrap_buffer b : {SINKTRAP_BUFFER_GATE_UP_LORA_A, SINKTRAP_BUFFER_DOWN_LORA_B}) {
    const std::string name{buffer_name(b)};
    if (in.layout == ExpertLayout::per_expert) {
      must_equal(collapse(implementation, in.pool[b], b).verdict,
                 collapse(model_implementation(), in.pool[b], b).verdict, "collapse of " + name);
      continue;
    }
    const Tensor wide = repeat_outer(in.pool[b], n);
    const auto expanded = expand(implementation, in.pool[b], b, n);
    must_succeed(implementation, expanded.verdict, "expand of " + name);
    Judgement j = compare_bits(wide, expanded.factor, name + " expanded");
    if (j.status != Status::passed) return j;
    const auto collapsed = collapse(implementation, wide, b);
    must_succeed(implementation, collapsed.verdict, "collapse of " + name);
    j = compare_bits(in.pool[b], collapsed.factor, name + " collapsed");
    if (j.status != Status::passed) return j;
    total.elements += wide.size() + j.elements;
    if (n == 1) continue;
    Tensor damaged = wide;  // one bit of the last element, in the last expert of the last slot
    damaged.bytes()[damaged.bytes().size() - static_cast<std::size_t>(element_bytes(damaged.type()))] ^=
        std::byte{1};
    must_equal(collapse(implementation, damaged, b).verdict,
               collapse(model_implementation(), damaged, b).verdict, "collapse of unequal copies of " + name);
  }
  return total;
}

}  // namespace

std::vector<Law> pack_laws() {
  return {
      {"load-leaves-no-trace",
       "after a load the slot holds exactly the adapter, whatever was there before, and no other slot "
       "changed",
       Generator::pack, SINKTRAP_CAN_LOAD, is_pack, load_leaves_no_trace, 4},
      {"load-refuses-in-order",
       "of two things wrong with an adapter the verdict names the one that section 4 looks at first",
       Generator::pack, SINKTRAP_CAN_LOAD, is_pack, load_refuses_in_order, 1},
      {"loading-twice-is-loading-once", "loading an adapter a second time changes no bit of the pool",
       Generator::pack, SINKTRAP_CAN_LOAD, is_pack, loading_twice_is_loading_once, 1},
      {"unload-zeroes-the-slot", "unloading zeroes its slot and changes no other", Generator::pack,
       SINKTRAP_CAN_LOAD, is_pack, unload_zeroes_the_slot, 1},
      {"shards-hold-their-features", "a shard holds its features, gate and up rows cut separately",
       Generator::shard, SINKTRAP_CAN_SHARD, is_shard, shards_hold_their_features, 2},
      {"collapse-undoes-expansion", "collapse undoes expansion and refuses copies that differ in a bit",
       Generator::shard, SINKTRAP_CAN_EXPAND, is_shard, collapse_undoes_expansion, 1},
  };
}

}  // namespace sinktrap
