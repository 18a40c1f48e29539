// Element types of the contract (bf16, f16, f32, and what surrounds them) and the rounding to them.
//
// Source of the formats: IEEE 754-2019 binary16 and binary32; bf16 is binary32 with the low 16 significand
// bits dropped (8 significant bits, exponents -126..127). Rounding is to nearest, ties to even; overflow
// gives infinity; NaN stays NaN (payload free).
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "contract/sinktrap.h"

namespace sinktrap {

enum class Element : std::uint8_t { bf16, f16, f32, f64, i32, i64 };

// Storage types: those that CONTRACT.md section 1 allows for the tensors of a layer.
constexpr bool is_storage(Element e) { return e == Element::bf16 || e == Element::f16 || e == Element::f32; }

// Format of a floating type: significant bits (with the hidden one), largest and smallest normal exponent.
struct FloatFormat {
  int significant_bits, max_exponent, min_exponent;
};
constexpr FloatFormat float_format(Element e) {
  switch (e) {
    case Element::bf16:
      return {8, 127, -126};
    case Element::f16:
      return {11, 15, -14};
    case Element::f32:
      return {24, 127, -126};
    default:
      return {53, 1023, -1022};
  }
}

constexpr int element_bytes(Element e) {
  switch (e) {
    case Element::bf16:
    case Element::f16:
      return 2;
    case Element::f32:
    case Element::i32:
      return 4;
    default:
      return 8;
  }
}

DLDataType dl_type(Element e);
// Empty for a type that is not in the list (wrong code, bits or lanes).
std::optional<Element> element_from_dl(DLDataType type);
std::string_view element_name(Element e);  // "bf16"
std::optional<Element> element_from_name(std::string_view name);

// The value of element i of a typed array, exactly (i64 beyond 2^53 excepted). `data` need not be aligned.
double load_element(Element e, const void* data, std::int64_t i);
// Stores the value rounded once to the type (floating types) or converted (integers; the value must fit).
void store_element(Element e, void* data, std::int64_t i, double value);
// The value rounded once to the type, as double. Overflow gives infinity, subnormals are kept.
double round_to(Element e, double value);

}  // namespace sinktrap
