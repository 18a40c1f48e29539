// Text to typed case. Every field is checked where it stands; the first failure is reported with its column.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "cases/fields.hpp"
#include "cases/lists.hpp"
#include "cases/names.hpp"
#include "cases/parse_steps.hpp"
#include "contract/tensor.hpp"
#include "contract/verdict.hpp"

namespace sinktrap {
namespace {

constexpr std::int64_t kMaxRank = 1 << 16;

std::size_t index_of(const std::vector<std::string_view>& list, std::string_view word) {
  return static_cast<std::size_t>(std::find(list.begin(), list.end(), word) - list.begin());
}

void check_size(Fields& f, const LayerCase& c, double tokens, double features) {
  const double bytes = tensor_bytes(c, tokens, features);
  if (bytes > static_cast<double>(CaseLimits::max_bytes))
    f.fail(f.kind_column(),
           fmt::format("the tensors of this case take {:.1f} GiB, at most {} GiB are allowed",
                       bytes / std::pow(2.0, 30), CaseLimits::max_bytes >> 30));
}

std::int64_t put_extent(const LayerCase& c, std::int64_t T, std::size_t tensor, std::size_t axis) {
  return axis < 4 ? put_extents(c, T, tensor)[axis] : -1;
}

// put=nan@x:2:3,inf@w2:0:1:2
void parse_puts(Fields& f, LayerCase& c, std::int64_t T) {
  const auto text = f.text("put");
  if (!text) return;
  std::size_t at = 0;
  while (true) {
    const std::size_t end = std::min(text->value.find(',', at), text->value.size());
    const std::string_view item = text->value.substr(at, end - at);
    const std::size_t column = text->column + at;
    const std::size_t sign = item.find('@'), first = std::min(item.find(':'), item.size());
    if (sign == std::string_view::npos || first < sign)
      return f.fail(column, "put expects VALUE@TENSOR:INDEX:INDEX, for example nan@x:2:3");
    Put put;
    const std::size_t what = index_of(words::puts, item.substr(0, sign));
    if (what == words::puts.size()) return f.fail(column, "put expects nan, inf, -inf or huge before '@'");
    put.what = static_cast<Put::What>(what);
    put.tensor = item.substr(sign + 1, first - sign - 1);
    const std::size_t tensor = index_of(words::put_tensors, put.tensor);
    if (tensor == words::put_tensors.size())
      return f.fail(column + sign + 1, fmt::format("put: no tensor of that name; known are {}",
                                                   fmt::join(words::put_tensors, ", ")));
    std::size_t from = first;
    while (from < item.size()) {
      const std::size_t next = std::min(item.find(':', from + 1), item.size());
      const std::int64_t extent = put_extent(c, T, tensor, put.index.size());
      if (extent < 0) return f.fail(column + from, fmt::format("put: too many indices for {}", put.tensor));
      auto parsed = parse_integer(item.substr(from + 1, next - from - 1), 0, extent - 1, "put index");
      if (auto* error = std::get_if<CaseError>(&parsed)) return f.fail(column + from + 1, error->what);
      put.index.push_back(std::get<std::int64_t>(parsed));
      from = next;
    }
    if (put_extent(c, T, tensor, put.index.size()) >= 0)
      return f.fail(column, fmt::format("put: too few indices for {}", put.tensor));
    if (c.put.size() == 1024) return f.fail(column, "more than 1024 places in put");
    c.put.push_back(std::move(put));
    if (end == text->value.size()) return;
    at = end + 1;
  }
}

LayerCase parse_layer(Fields& f, bool with_w13) {
  LayerCase c;
  constexpr std::int64_t top = CaseLimits::max_extent;
  c.d.n = f.integer("n", 1, 1 << 16);
  c.d.H = f.integer("H", 1, top);
  c.d.F = f.integer("F", 1, top);
  c.d.R = f.integer("R", 1, kMaxRank);
  c.d.S = f.integer("S", 1, CaseLimits::max_slots);
  c.layout = static_cast<ExpertLayout>(f.word("layout", words::expert_layouts, 0));
  if (c.d.n == 1) c.layout = ExpertLayout::shared;  // the two layouts coincide (section 1)
  if (with_w13) c.w13 = f.word("w13", words::w13_layouts, 0);
  c.type = static_cast<Element>(f.word("type", words::storage_types, 0));
  c.gammas = static_cast<Element>(f.word("gammas", words::storage_types, static_cast<int>(c.type)));
  if (c.gammas != c.type && c.gammas != Element::f32)
    f.fail(f.text("gammas")->column, "gammas must have the storage type or f32");
  if (f.has("ranks"))
    c.ranks = f.list("ranks", c.d.S, CaseLimits::max_slots, 0, c.d.R);
  else
    c.ranks.assign(static_cast<std::size_t>(c.d.S), c.d.R);
  c.fill = static_cast<Fill>(f.word("fill", words::fills, 0));
  c.schedule = f.unsigned_or("schedule", 0);
  c.seed = f.unsigned_or("seed", 0);
  return c;
}

Case parse_forward(Fields& f) {
  ForwardCase c;
  const std::int64_t T = f.integer("T", 0, CaseLimits::max_tokens);
  c.layer = parse_layer(f, true);
  if (T > 0) {
    const auto slots = f.list("slots", T, CaseLimits::max_tokens, -1, c.layer.d.S - 1);
    c.slots.assign(slots.begin(), slots.end());
  }
  c.tp = f.integer_or("tp", 1, 1 << 16, 1);
  if (f.ok() && c.layer.d.F % c.tp != 0)
    f.fail(f.text("tp")->column, fmt::format("tp must divide F = {}, found {}", c.layer.d.F, c.tp));
  if (f.ok()) parse_puts(f, c.layer, T);
  check_size(f, c.layer, static_cast<double>(T), static_cast<double>(c.layer.d.F));
  f.finish(words::forward_fields, words::layer_fields);
  return c;
}

Case parse_pack(Fields& f) {
  PackCase c;
  c.layer = parse_layer(f, false);
  c.slot = f.integer_or("slot", 0, c.layer.d.S - 1, 0);
  c.r = f.integer("r", 0, kMaxRank);
  c.tp = f.integer_or("tp", 1, 1 << 10, 1);
  c.tp_rank = f.integer_or("tp_rank", 0, c.tp - 1, 0);
  c.factors = static_cast<Factors>(f.word("factors", words::factors, static_cast<int>(Factors::separate)));
  if (const auto text = f.text("scaling")) {
    float v = 0;
    const char* last = text->value.data() + text->value.size();
    const auto [end, status] = std::from_chars(text->value.data(), last, v);
    if (text->value.empty() || end != last || status != std::errc{} || !std::isfinite(v))
      f.fail(text->column, "scaling must be a finite number");
    c.scaling = v;
  }
  if (f.ok()) parse_puts(f, c.layer, 0);
  check_size(f, c.layer, static_cast<double>(c.r),
             static_cast<double>(c.layer.d.F) * static_cast<double>(c.tp));
  f.finish(words::pack_fields, words::layer_fields_without_w13);
  return c;
}

Case parse_shard(Fields& f) {
  ShardCase c;
  c.layer = parse_layer(f, false);
  c.tp = f.integer("tp", 1, 1 << 16);
  if (f.ok()) parse_puts(f, c.layer, 0);
  check_size(f, c.layer, 0, static_cast<double>(c.layer.d.F));
  f.finish(words::shard_fields, words::layer_fields_without_w13);
  return c;
}

Case parse_state(Fields& f) {
  StateCase c;
  c.layer = parse_layer(f, true);
  if (f.ok()) parse_puts(f, c.layer, 0);
  if (const auto text = f.text("steps"))
    parse_steps(f, text->value, text->column, c);
  else
    f.fail(f.kind_column(), "field steps= is missing in a state case");
  check_size(f, c.layer, 0, static_cast<double>(c.layer.d.F));
  f.finish(words::state_fields, words::layer_fields);
  return c;
}

// 3x1x6x8/type=f16/strides=48x48x8x1/device=1.0/at=4096/offset=2
void parse_buffer(Fields& f, std::string_view key, BufferCase& b) {
  const auto text = f.text(key);
  if (!text) return f.fail(f.kind_column(), fmt::format("field {}= is missing in a layout case", key));
  const auto extents = [&](std::string_view value, std::size_t column) {
    std::vector<std::int64_t> list;
    if (value == words::no_extents) return list;
    std::size_t at = 0;
    while (true) {
      const std::size_t end = std::min(value.find('x', at), value.size());
      auto parsed = parse_integer(value.substr(at, end - at), INT64_MIN, INT64_MAX, "extent");
      if (auto* error = std::get_if<CaseError>(&parsed)) {
        f.fail(column + at, error->what);
        return list;
      }
      list.push_back(std::get<std::int64_t>(parsed));
      if (list.size() > 16) f.fail(column + at, "more than 16 axes");
      if (end == value.size() || !f.ok()) return list;
      at = end + 1;
    }
  };
  const auto natural = [&](std::string_view value, std::size_t column, std::uint64_t high,
                           std::string_view what) {
    std::uint64_t v = 0;
    const auto [end, status] = std::from_chars(value.data(), value.data() + value.size(), v);
    if (value.empty() || end != value.data() + value.size() || status != std::errc{} || v > high)
      f.fail(column, fmt::format("{} must be an integer in 0..{}", what, high));
    return v;
  };
  std::size_t at = std::min(text->value.find('/'), text->value.size());
  b.shape = extents(text->value.substr(0, at), text->column);
  while (at < text->value.size() && f.ok()) {
    const std::size_t end = std::min(text->value.find('/', at + 1), text->value.size());
    const std::string_view part = text->value.substr(at + 1, end - at - 1);
    const std::size_t equals = std::min(part.find('='), part.size());
    const std::string_view name = part.substr(0, equals);
    const std::string_view value = equals < part.size() ? part.substr(equals + 1) : std::string_view{};
    // Of the value; without one, where it would stand.
    const std::size_t column = text->column + at + 1 + std::min(equals + 1, part.size());
    const std::size_t dot = std::min(value.find('.'), value.size());
    const std::string_view rest = dot < value.size() ? value.substr(dot + 1) : std::string_view{};
    if (name == "type" && dot == value.size()) {
      if (const auto e = element_from_name(value))
        b.dtype = dl_type(*e);
      else
        f.fail(column, "type must be bf16, f16, f32, f64, i32, i64 or CODE.BITS.LANES");
    } else if (name == "type") {
      const std::size_t dot2 = std::min(rest.find('.'), rest.size());
      b.dtype.code = static_cast<std::uint8_t>(natural(value.substr(0, dot), column, 255, "type code"));
      b.dtype.bits = static_cast<std::uint8_t>(natural(rest.substr(0, dot2), column, 255, "type bits"));
      b.dtype.lanes = static_cast<std::uint16_t>(natural(
          dot2 < rest.size() ? rest.substr(dot2 + 1) : std::string_view{}, column, 65535, "type lanes"));
    } else if (name == "strides") {
      b.strides = extents(value, column);
      if (f.ok() && b.strides->size() != b.shape.size())
        f.fail(column, "strides must have as many axes as the shape");
    } else if (name == "device") {
      // What the bits of DLPack 0.6's enumeration hold (it names 1 to 13); another value is undefined as one.
      b.device.device_type =
          static_cast<DLDeviceType>(natural(value.substr(0, dot), column, kMostDeviceType, "device type"));
      b.device.device_id = static_cast<std::int32_t>(natural(rest, column, 1023, "device id"));
    } else if (name == "at") {
      b.address = natural(value, column, UINT64_MAX, "address");
    } else if (name == "offset") {
      b.byte_offset = natural(value, column, UINT64_MAX, "offset");
    } else {
      f.fail(text->column + at + 1, "expected type=, strides=, device=, at= or offset= after '/'");
    }
    at = end;
  }
}

Case parse_layout(Fields& f) {
  LayoutCase c;
  c.n = f.integer("n", INT64_MIN, INT64_MAX);
  c.H = f.integer_or("H", INT64_MIN, INT64_MAX, SINKTRAP_ANY);
  c.F = f.integer_or("F", INT64_MIN, INT64_MAX, SINKTRAP_ANY);
  c.profile = f.word("profile", words::profiles, SINKTRAP_PROFILE_STRICT);
  int placed = 0;
  for (std::size_t i = 0; i < c.buffers.size(); ++i) {
    parse_buffer(f, buffer_name(static_cast<std::int32_t>(i)), c.buffers[i]);
    placed += c.buffers[i].address.has_value() ? 1 : 0;
  }
  if (f.ok() && placed != 0 && placed != SINKTRAP_BUFFER_COUNT)
    f.fail(f.kind_column(), "at= must stand at all four buffers or at none");
  f.finish(words::layout_fields);
  return c;
}

}  // namespace

std::array<std::int64_t, 4> put_extents(const LayerCase& c, std::int64_t T, std::size_t tensor) {
  const std::int64_t outer = c.layout == ExpertLayout::shared ? 1 : c.d.n;
  const auto& d = c.d;
  const std::array<std::int64_t, 4> all[] = {
      {T, d.H, -1, -1},           {T, d.n, -1, -1},         {d.n, 2 * d.F, d.H, -1}, {d.n, d.H, d.F, -1},
      {d.S, outer, 2 * d.R, d.H}, {d.S, d.n, 2 * d.F, d.R}, {d.S, d.n, d.R, d.F},    {d.S, outer, d.H, d.R}};
  return all[tensor];
}

double tensor_bytes(const LayerCase& c, double tokens, double features) {
  const double n = static_cast<double>(c.d.n), H = static_cast<double>(c.d.H), R = static_cast<double>(c.d.R);
  const double S = static_cast<double>(c.d.S), F = features;
  const double outer = c.layout == ExpertLayout::shared ? 1.0 : n;
  const double base = 3 * n * F * H, pool = S * (outer * 3 * R * H + 3 * n * F * R),
               rows = tokens * (2 * H + n + 2);
  return (base + pool + rows) * element_bytes(c.type);
}

std::variant<Case, CaseError> parse_case(std::string_view line) {
  Fields f(line);
  Case c;
  if (f.ok()) {
    constexpr Case (*parsers[])(Fields&) = {parse_layout, parse_forward, parse_state, parse_pack,
                                            parse_shard};
    const std::size_t kind = index_of(words::kinds, f.kind());
    if (kind == words::kinds.size())
      f.fail(f.kind_column(), "expected layout, forward, state, pack or shard at the start of a case");
    else
      c = parsers[kind](f);
  }
  if (!f.ok()) return f.error();
  return c;
}

}  // namespace sinktrap
