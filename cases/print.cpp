// Canonical text of a case. Fields in a fixed order; optional ones only where they differ from their default.
// Appends to one string: a fuzzer prints a case for every execution.
#include <fmt/format.h>

#include <charconv>

#include "cases/case.hpp"
#include "cases/lists.hpp"
#include "cases/names.hpp"
#include "contract/verdict.hpp"

namespace sinktrap {
namespace {

class Printer {
 public:
  Printer() { text_.reserve(512); }  // most lines
  std::string take() { return std::move(text_); }

  void operator()(const LayoutCase& c) {
    put("layout n=", c.n);
    if (c.H != SINKTRAP_ANY) put(" H=", c.H);
    if (c.F != SINKTRAP_ANY) put(" F=", c.F);
    put(" profile=", words::profiles[static_cast<std::size_t>(c.profile)]);
    for (std::size_t i = 0; i < c.buffers.size(); ++i) {
      put(" ", buffer_name(static_cast<std::int32_t>(i)), "=");
      buffer(c.buffers[i]);
    }
  }
  void operator()(const ForwardCase& c) {
    put("forward T=", c.T(), " ");
    dimensions(c.layer);
    types(c.layer, true);
    if (!c.slots.empty()) list(" slots=", c.slots);
    if (c.tp != 1) put(" tp=", c.tp);
    contents(c.layer);
  }
  void operator()(const StateCase& c) {
    put("state ");
    dimensions(c.layer);
    types(c.layer, true);
    contents(c.layer);
    const char* separator = " steps=";
    for (const Step& s : c.steps) {
      put(separator);
      step(s);
      separator = ";";
    }
  }
  void operator()(const PackCase& c) {
    put("pack ");
    dimensions(c.layer);
    types(c.layer, false);
    put(" slot=", c.slot, " r=", c.r);
    if (c.tp != 1) put(" tp=", c.tp, " tp_rank=", c.tp_rank);
    put(" factors=", words::factors[static_cast<std::size_t>(c.factors)]);
    put(" scaling=", fmt::format("{}", static_cast<float>(c.scaling)));
    contents(c.layer);
  }
  void operator()(const ShardCase& c) {
    put("shard ");
    dimensions(c.layer);
    types(c.layer, false);
    put(" tp=", c.tp);
    contents(c.layer);
  }

 private:
  template <class... Parts>
  void put(const Parts&... parts) {
    (append(parts), ...);
  }
  void append(std::string_view s) { text_ += s; }
  template <class I>
  requires std::is_integral_v<I>
  void append(I v) {
    char digits[24];
    text_.append(digits, std::to_chars(digits, digits + sizeof digits, v).ptr);
  }

  template <class T>
  void list(std::string_view key, const std::vector<T>& list) {
    put(key, print_list(std::vector<std::int64_t>(list.begin(), list.end())));
  }
  void joined(const std::vector<std::int64_t>& list, std::string_view separator) {
    for (std::size_t i = 0; i < list.size(); ++i) put(i == 0 ? std::string_view{} : separator, list[i]);
  }

  void dimensions(const LayerCase& c) {
    put("n=", c.d.n, " H=", c.d.H, " F=", c.d.F, " R=", c.d.R, " S=", c.d.S);
    put(" layout=", words::expert_layouts[static_cast<std::size_t>(c.layout)]);
  }
  void types(const LayerCase& c, bool with_w13) {
    if (with_w13) put(" w13=", words::w13_layouts[static_cast<std::size_t>(c.w13)]);
    put(" type=", element_name(c.type));
    if (c.gammas != c.type) put(" gammas=", element_name(c.gammas));
    list(" ranks=", c.ranks);
  }
  // What follows the fields of the kind: fill, put, schedule, seed.
  void contents(const LayerCase& c) {
    put(" fill=", words::fills[static_cast<std::size_t>(c.fill)]);
    for (std::size_t i = 0; i < c.put.size(); ++i) {
      const Put& p = c.put[i];
      put(i == 0 ? " put=" : ",", words::puts[static_cast<std::size_t>(p.what)], "@", p.tensor, ":");
      joined(p.index, ":");
    }
    if (c.schedule != 0) put(" schedule=", c.schedule);
    put(" seed=", c.seed);
  }
  void extents(const std::vector<std::int64_t>& list) {
    if (list.empty()) put(words::no_extents);
    joined(list, "x");
  }
  void buffer(const BufferCase& b) {
    extents(b.shape);
    if (auto e = element_from_dl(b.dtype); !e)
      put("/type=", unsigned{b.dtype.code}, ".", unsigned{b.dtype.bits}, ".", unsigned{b.dtype.lanes});
    else if (*e != Element::bf16)
      put("/type=", element_name(*e));
    if (b.strides) {
      put("/strides=");
      extents(*b.strides);
    }
    if (b.device.device_type != kDLCPU || b.device.device_id != 0)
      put("/device=", static_cast<std::int64_t>(b.device.device_type), ".", b.device.device_id);
    if (b.address) put("/at=", *b.address);
    if (b.byte_offset != 0) put("/offset=", b.byte_offset);
  }
  void step(const Step& s) {
    using Kind = Step::Kind;
    put(words::steps[static_cast<std::size_t>(s.kind)], ":");
    switch (s.kind) {
      case Kind::bind:
      case Kind::rebind_other:
      case Kind::rebind_invalid:
      case Kind::rebind_strided:
      case Kind::rebind_same:
        return put(s.seed);
      case Kind::write:
      case Kind::load:
        return put(s.slot, ":", s.r, ":", s.seed);
      case Kind::unload:
        return put(s.slot);
      case Kind::update:
        if (!s.ids) return put(words::all_slots);
        return s.ids->empty() ? put(words::no_slots) : list("", *s.ids);
      case Kind::forward:
        s.slots.empty() ? put(words::no_slots) : list("", s.slots);
        return put(":", s.seed);
    }
  }

  std::string text_;
};

}  // namespace

bool BufferCase::operator==(const BufferCase& o) const {
  return shape == o.shape && dtype.code == o.dtype.code && dtype.bits == o.dtype.bits &&
         dtype.lanes == o.dtype.lanes && strides == o.strides && device.device_type == o.device.device_type &&
         device.device_id == o.device.device_id && address == o.address && byte_offset == o.byte_offset;
}

std::string_view case_kind(const Case& c) { return words::kinds[c.index()]; }

std::string print_case(const Case& c) {
  Printer printer;
  std::visit(printer, c);
  return printer.take();
}

}  // namespace sinktrap
