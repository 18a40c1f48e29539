#include "contract/element.hpp"

#include <bit>
#include <cmath>
#include <cstring>

namespace sinktrap {
namespace {

constexpr std::string_view kNames[] = {"bf16", "f16", "f32", "f64", "i32", "i64"};

// Rounds to p significant bits with smallest normal exponent e_min, ties to even, in double arithmetic that
// is exact: x is scaled so that one unit of the target's last place becomes 1, and nearbyint does the
// rounding.
double round_to_format(double x, const FloatFormat& f) {
  if (!std::isfinite(x) || x == 0.0) return x;
  const int e = std::ilogb(x);
  const int unit = (e < f.min_exponent ? f.min_exponent : e) - (f.significant_bits - 1);
  const double r = std::ldexp(std::nearbyint(std::ldexp(x, -unit)), unit);
  const double limit = std::ldexp(1.0, f.max_exponent + 1);
  return std::fabs(r) >= limit ? std::copysign(HUGE_VAL, x) : r;
}

double decode_f16(std::uint16_t h) {
  const int exponent = h >> 10 & 31, fraction = h & 1023;
  double v;
  if (exponent == 31)
    v = fraction ? NAN : HUGE_VAL;
  else if (exponent == 0)
    v = std::ldexp(fraction, -24);
  else
    v = std::ldexp(1024 + fraction, exponent - 25);
  return h & 0x8000 ? -v : v;
}

std::uint16_t encode_f16(double rounded) {
  const std::uint16_t sign = std::signbit(rounded) ? 0x8000 : 0;
  const double a = std::fabs(rounded);
  if (std::isnan(rounded)) return sign | 0x7e00;
  if (std::isinf(rounded)) return sign | 0x7c00;
  if (a < std::ldexp(1.0, -14)) return sign | static_cast<std::uint16_t>(std::ldexp(a, 24));
  const int e = std::ilogb(a);
  return static_cast<std::uint16_t>(sign | (e + 15) << 10 | (static_cast<int>(std::ldexp(a, 10 - e)) & 1023));
}

}  // namespace

DLDataType dl_type(Element e) {
  switch (e) {
    case Element::bf16:
      return {kDLBfloat, 16, 1};
    case Element::f16:
      return {kDLFloat, 16, 1};
    case Element::f32:
      return {kDLFloat, 32, 1};
    case Element::f64:
      return {kDLFloat, 64, 1};
    case Element::i32:
      return {kDLInt, 32, 1};
    case Element::i64:
      return {kDLInt, 64, 1};
  }
  return {kDLOpaqueHandle, 0, 0};
}

std::optional<Element> element_from_dl(DLDataType type) {
  for (int i = 0; i < 6; ++i) {
    const DLDataType t = dl_type(static_cast<Element>(i));
    if (t.code == type.code && t.bits == type.bits && t.lanes == type.lanes) return static_cast<Element>(i);
  }
  return std::nullopt;
}

std::string_view element_name(Element e) { return kNames[static_cast<int>(e)]; }

std::optional<Element> element_from_name(std::string_view name) {
  for (int i = 0; i < 6; ++i)
    if (kNames[i] == name) return static_cast<Element>(i);
  return std::nullopt;
}

double load_element(Element e, const void* data, std::int64_t i) {
  const char* p = static_cast<const char*>(data) + i * element_bytes(e);
  const auto read = [p]<class T>(T value) {
    std::memcpy(&value, p, sizeof value);
    return value;
  };
  switch (e) {
    case Element::bf16:
      return std::bit_cast<float>(static_cast<std::uint32_t>(read(std::uint16_t{})) << 16);
    case Element::f16:
      return decode_f16(read(std::uint16_t{}));
    case Element::f32:
      return read(0.0f);
    case Element::f64:
      return read(0.0);
    case Element::i32:
      return read(std::int32_t{});
    case Element::i64:
      return static_cast<double>(read(std::int64_t{}));
  }
  return NAN;
}

void store_element(Element e, void* data, std::int64_t i, double value) {
  char* p = static_cast<char*>(data) + i * element_bytes(e);
  const auto write = [p](auto v) { std::memcpy(p, &v, sizeof v); };
  switch (e) {
    case Element::bf16: {
      // A bf16 value is a float value; the quiet bit keeps a NaN whose payload lies in the dropped half a
      // NaN.
      const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(round_to(e, value)));
      write(static_cast<std::uint16_t>(std::isnan(value) ? (bits >> 16 | 0x40) : bits >> 16));
      break;
    }
    case Element::f16:
      write(encode_f16(round_to(e, value)));
      break;
    case Element::f32:
      write(static_cast<float>(value));
      break;
    case Element::f64:
      write(value);
      break;
    case Element::i32:
      write(static_cast<std::int32_t>(value));
      break;
    case Element::i64:
      write(static_cast<std::int64_t>(value));
      break;
  }
}

double round_to(Element e, double value) {
  if (!is_storage(e)) return value;
  if (e == Element::f32) return static_cast<float>(value);
  return round_to_format(value, float_format(e));
}

}  // namespace sinktrap
