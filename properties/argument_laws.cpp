// Laws about the arguments of forward (CONTRACT.md section 3): refused with the right verdict before anything
// is written. That a refused call leaves `out` as it was is checked by the session.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "contract/tensor.hpp"
#include "judge/compare.hpp"
#include "properties/batch.hpp"
#include "properties/model.hpp"
#include "properties/transform.hpp"
#include "reference/validate.hpp"

namespace sinktrap {
namespace {

using namespace batch;
using Call = Session::ForwardCall;

bool has_tokens(const Case& c) { return is_finite_fill(c) && is_quick(c) && forward(c).T() > 0; }

// One wrong argument: which tensor of the call, and what is done to it. The extents and strides live here as
// long as the call.
struct Wrong {
  const char* what;
  void (*edit)(Call&, std::array<std::int64_t, 3>& shape, std::array<std::int64_t, 3>& strides);
};

using Three = std::array<std::int64_t, 3>;

void with_shape(DLTensor& t, Three& shape, int axis, std::int64_t more) {
  for (int i = 0; i < t.ndim; ++i) shape[static_cast<std::size_t>(i)] = t.shape[i];
  shape[static_cast<std::size_t>(axis)] += more;
  t.shape = shape.data();
}
void with_axes(DLTensor& t, Three& shape, int axes) {
  shape = {t.shape[0], t.ndim > 1 ? t.shape[1] : 1, 1};
  t.shape = shape.data();
  t.ndim = axes;
}
void with_row_stride(DLTensor& t, Three& strides) {  // a view into rows that are one element longer
  strides = {t.shape[1] + 1, 1, 1};
  t.strides = strides.data();
}
// Row-major strides that are written out, as exporters do; at an axis of extent 1 they write anything.
void with_written_strides(DLTensor& t, Three& strides) {
  std::int64_t stride = 1;
  for (int axis = t.ndim - 1; axis >= 0; --axis) {
    const auto i = static_cast<std::size_t>(axis);
    strides[i] = t.shape[i] == 1 ? stride + 2 : stride;
    stride *= t.shape[i];
  }
  t.strides = strides.data();
}

constexpr Wrong kWrong[] = {
    {"a struct_size that is too small", [](Call& c, Three&, Three&) { c.args.struct_size -= 8; }},
    {"no x", [](Call& c, Three&, Three&) { c.args.x = nullptr; }},
    {"no gammas", [](Call& c, Three&, Three&) { c.args.gammas = nullptr; }},
    {"no token_slot", [](Call& c, Three&, Three&) { c.args.token_slot = nullptr; }},
    {"no out", [](Call& c, Three&, Three&) { c.args.out = nullptr; }},
    {"x of another H", [](Call& c, Three& s, Three&) { with_shape(c.x, s, 1, 1); }},
    {"x of another T", [](Call& c, Three& s, Three&) { with_shape(c.x, s, 0, 1); }},
    {"x of 3 axes", [](Call& c, Three& s, Three&) { with_axes(c.x, s, 3); }},
    {"x of no axes", [](Call& c, Three& s, Three&) { with_axes(c.x, s, 0); }},
    {"x of a negative extent", [](Call& c, Three& s, Three&) { with_shape(c.x, s, 0, -1 - c.x.shape[0]); }},
    {"x of another type", [](Call& c, Three&, Three&) { c.x.dtype = dl_type(Element::f64); }},
    {"x of two lanes", [](Call& c, Three&, Three&) { c.x.dtype.lanes = 2; }},
    {"gammas of another n", [](Call& c, Three& s, Three&) { with_shape(c.gammas, s, 1, 1); }},
    {"gammas of another T", [](Call& c, Three& s, Three&) { with_shape(c.gammas, s, 0, 1); }},
    {"gammas of 1 axis", [](Call& c, Three& s, Three&) { with_axes(c.gammas, s, 1); }},
    {"gammas of another type", [](Call& c, Three&, Three&) { c.gammas.dtype = dl_type(Element::f64); }},
    {"token_slot of another T", [](Call& c, Three& s, Three&) { with_shape(c.token_slot, s, 0, 1); }},
    {"token_slot of 2 axes", [](Call& c, Three& s, Three&) { with_axes(c.token_slot, s, 2); }},
    {"token_slot of int64", [](Call& c, Three&, Three&) { c.token_slot.dtype = dl_type(Element::i64); }},
    {"out of another H", [](Call& c, Three& s, Three&) { with_shape(c.out, s, 1, -1); }},
    {"out of another T", [](Call& c, Three& s, Three&) { with_shape(c.out, s, 0, -1); }},
    {"out of another type", [](Call& c, Three&, Three&) { c.out.dtype = dl_type(Element::f64); }},
    {"a strided x", [](Call& c, Three&, Three& s) { with_row_stride(c.x, s); }},
    {"strided gammas", [](Call& c, Three&, Three& s) { with_row_stride(c.gammas, s); }},
    {"a strided out", [](Call& c, Three&, Three& s) { with_row_stride(c.out, s); }},
};

// A row stride says nothing about a single row (section 2: the stride of an axis of extent 1 is ignored).
bool is_stride(const Wrong& wrong) {
  return std::string_view(wrong.what).find("stride") != std::string_view::npos;
}

Judgement bad_arguments_are_refused(const Case& c, const Implementation& implementation) {
  ForwardInputs in = make_inputs(forward(c));
  Session session(implementation, in, options_of(forward(c), false));
  must_succeed(implementation, session.bind(in.pool), "bind");
  const Tensor plain = run(session, in);
  std::array<Three, 4> written{};
  const auto accepted = session.forward(in.x, in.gammas, in.token_slot, [&](Call& call) {
    DLTensor* const tensors[] = {&call.x, &call.gammas, &call.token_slot, &call.out};
    for (std::size_t i = 0; i < written.size(); ++i) with_written_strides(*tensors[i], written[i]);
  });
  must_succeed(implementation, accepted.verdict, "forward with row-major strides that are written out");
  Judgement j;
  if (session.declaration().deterministic)
    j = compare_bits(plain, accepted.out, "out with row-major strides that are written out");
  if (j.status != Status::passed) return j;
  for (int with_bad_id = 0; with_bad_id < 2; ++with_bad_id) {
    for (const Wrong& wrong : kWrong) {
      if (is_stride(wrong) && in.T() == 1) continue;
      Three shape{}, strides{};
      const auto answer = session.forward(in.x, in.gammas, in.token_slot,
                                          [&](Call& call) { wrong.edit(call, shape, strides); });
      must_equal(answer.verdict, verdict_of(SINKTRAP_ARGUMENT),
                 fmt::format("forward with {}{}", wrong.what, with_bad_id ? " and a slot out of range" : ""));
      ++j.elements;
    }
    in.token_slot.set(in.T() - 1, static_cast<double>(in.d.S));  // `argument` goes before `slot_range`
  }
  return j;
}

// Every place of a batch, every id out of range; before the first bind as well.
Judgement first_bad_slot_is_named(const Case& c, const Implementation& implementation) {
  const ForwardInputs in = make_inputs(forward(c));
  Session session(implementation, in, options_of(forward(c), false));
  const std::int64_t S = in.d.S, T = in.T();
  Judgement j;
  const auto expect_verdict = [&](const Tensor& slots, const Verdict& expected, const char* when) {
    must_equal(session.forward(in.x, in.gammas, slots).verdict, expected, fmt::format("forward {}", when));
    ++j.elements;
  };
  const auto bad_at = [&](std::int64_t t, std::int64_t id) {
    Tensor slots = in.token_slot;
    slots.set(t, static_cast<double>(id));
    return slots;
  };
  const auto range = [](std::int64_t id, std::int64_t expected) {
    return verdict_of(SINKTRAP_SLOT_RANGE, SINKTRAP_NONE, SINKTRAP_NONE, id, expected);
  };
  Tensor slots = bad_at(0, 0);
  expect_verdict(slots, verdict_of(SINKTRAP_UNBOUND), "with slot 0 before a bind");
  slots.set(T - 1, -2);
  expect_verdict(slots, range(-2, 0), "with slot -2 before a bind");
  must_succeed(implementation, session.bind(in.pool), "bind");
  for (const std::int64_t t : {std::int64_t{0}, T / 2, T - 1})
    for (const std::int64_t id : {S, std::int64_t{-2}, std::int64_t{INT32_MAX}, std::int64_t{INT32_MIN}}) {
      Tensor one = bad_at(t, id);
      expect_verdict(one, range(id, S), "with one slot out of range");
      if (t + 1 < T) {
        one.set(T - 1, static_cast<double>(S + 1));
        expect_verdict(one, range(id, S), "with two slots out of range");
      }
    }
  return j;
}

using Numbers = BufferStrides;

// A pool that has to be refused once another is bound. The extents and strides live here as long as the call.
struct WrongPool {
  const char* what;
  void (*edit)(Session::Views&, Numbers& numbers, std::size_t b);
};

void with_extent(Session::Views& v, Numbers& numbers, int axis, std::int64_t extent, bool outer_only) {
  for (std::size_t b = 0; b < v.size(); ++b) {
    if (outer_only && b != SINKTRAP_BUFFER_GATE_UP_LORA_A && b != SINKTRAP_BUFFER_DOWN_LORA_B) continue;
    std::copy_n(v[b].shape, 4, numbers[b].begin());
    numbers[b][static_cast<std::size_t>(axis)] = extent;
    v[b].shape = numbers[b].data();
  }
}

constexpr DLDevice kHost = {kDLCPU, 0}, kAccelerator = {kDLCUDA, 0};
DLDevice elsewhere(DLDevice own) { return own.device_type == kDLCPU ? kAccelerator : kHost; }

// The reference keeps its tensors on the host. What its verdict says of devices is true of an implementation
// that keeps them elsewhere when the two change places.
Verdict seen_by(const Implementation& implementation, Verdict v) {
  if (v.code != SINKTRAP_DEVICE) return v;
  const DLDevice own = implementation.table().device;
  const auto key = [&](std::int64_t k) {
    return reference::device_key(k == reference::device_key(kHost) ? own : elsewhere(own));
  };
  v.found = key(v.found);
  v.expected = key(v.expected);
  return v;
}

constexpr WrongPool kWrongPools[] = {
    {"another device in one buffer",
     [](Session::Views& v, Numbers&, std::size_t b) { v[b].device = elsewhere(v[b].device); }},
    {"another device in all buffers",
     [](Session::Views& v, Numbers&, std::size_t) {
       for (DLTensor& t : v) t.device = elsewhere(t.device);
     }},
    {"a row stride that is one too long",
     [](Session::Views& v, Numbers& n, std::size_t b) { lengthen_rows(v, n, b); }},
    {"another type in one buffer",
     [](Session::Views& v, Numbers&, std::size_t b) { v[b].dtype = dl_type(Element::f64); }},
    {"another storage type in all buffers",
     [](Session::Views& v, Numbers&, std::size_t) {
       const bool is_f16 = v[0].dtype.code == kDLFloat && v[0].dtype.bits == 16;
       for (DLTensor& t : v) t.dtype = dl_type(is_f16 ? Element::bf16 : Element::f16);
     }},
    {"no data", [](Session::Views& v, Numbers&, std::size_t b) { v[b].data = nullptr; }},
    {"misaligned data", [](Session::Views& v, Numbers&, std::size_t b) { v[b].byte_offset = 1; }},
    {"two buffers in the same place",  // the smaller inside the larger, so that it reaches no third one
     [](Session::Views& v, Numbers&, std::size_t b) {
       DLTensor &one = v[b], &next = v[(b + 1) % v.size()];
       if (element_count(one) < element_count(next))
         one.data = next.data;
       else
         next.data = one.data;
     }},
    {"three axes", [](Session::Views& v, Numbers&, std::size_t b) { v[b].ndim = 3; }},
    {"no shape", [](Session::Views& v, Numbers&, std::size_t b) { v[b].shape = nullptr; }},
    {"fewer slots in all buffers",
     [](Session::Views& v, Numbers& n, std::size_t) { with_extent(v, n, 0, v[0].shape[0] - 1, false); }},
    {"one outer factor", [](Session::Views& v, Numbers& n, std::size_t) { with_extent(v, n, 1, 1, true); }},
};

Judgement refused_binds_change_nothing(const Case& c, const Implementation& implementation) {
  const ForwardInputs in = make_inputs(forward(c));
  ForwardCase different = forward(c);
  ++different.layer.seed;
  const Pool other = make_inputs(different).pool;
  Session found(implementation, in, options_of(forward(c), false)), model(model_implementation(), in);
  must_succeed(model_implementation(), model.bind(in.pool), "bind");
  const Tensor before = run(found, in);
  Judgement j;
  const bool repeats = found.declaration().deterministic != 0;
  for (const WrongPool& wrong : kWrongPools)
    for (std::size_t b = 0; b < SINKTRAP_BUFFER_COUNT; ++b) {
      Numbers for_found{}, for_model{};
      const Verdict expected = model.bind(other, [&](Session::Views& v) { wrong.edit(v, for_model, b); });
      if (expected.code == SINKTRAP_OK) {  // this edit changes nothing here; both go on with the first pool
        must_succeed(model_implementation(), model.bind(in.pool), "bind");
        continue;
      }
      const std::string what = fmt::format("bind of a pool with {} (buffer {})", wrong.what, b);
      must_equal(found.bind(other, [&](Session::Views& v) { wrong.edit(v, for_found, b); }),
                 seen_by(implementation, expected), what);
      const auto after = found.forward(in.x, in.gammas, in.token_slot);
      must_succeed(implementation, after.verdict, "forward after a refused bind");
      if (!repeats) continue;
      Judgement same = compare_bits(before, after.out, "out after a refused " + what);
      if (same.status != Status::passed) return same;
      j.elements += same.elements;
    }
  return j;
}

}  // namespace

std::vector<Law> argument_laws() {
  return {
      {"bad-arguments-are-refused",
       "forward refuses wrong shapes, types, strides and null with argument, before it looks at the slots; "
       "row-major strides may be written out",
       Generator::forward_rows, 0, has_tokens, bad_arguments_are_refused, 1},
      {"first-bad-slot-is-named",
       "forward names the first slot out of range, wherever it stands, also before a bind",
       Generator::forward_rows, 0, has_tokens, first_bad_slot_is_named, 1},
      {"refused-binds-change-nothing",
       "a bind that is refused has the reference's verdict and leaves the pool before it serving bit for bit",
       Generator::forward_rows, 0, has_tokens, refused_binds_change_nothing, 1},
  };
}

}  // namespace sinktrap
