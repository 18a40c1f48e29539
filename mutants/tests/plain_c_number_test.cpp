// The conversions of plain_c against those of contract/element.hpp: every value of a half type, and every
// place where the rounding turns.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>

#include "contract/element.hpp"

extern "C" {
#include "mutants/plain_c/plain.h"
}

namespace sinktrap::test {
namespace {

float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }

// Reads bits as both do; NaN equals NaN.
void expect_same_reading(plain_type type, Element element, std::uint16_t half) {
  const auto* data = reinterpret_cast<const char*>(&half);
  const float found = plain_read(type, data, 0);
  const double expected = load_element(element, data, 0);
  if (std::isnan(expected))
    EXPECT_TRUE(std::isnan(found)) << half;
  else
    EXPECT_TRUE(found == expected && std::signbit(found) == std::signbit(expected)) << half;
}

void expect_same_writing(plain_type type, Element element, float value) {
  std::uint16_t found = 0, expected = 0;
  plain_write(type, reinterpret_cast<char*>(&found), 0, value);
  store_element(element, &expected, 0, value);
  if (std::isnan(value)) {
    EXPECT_TRUE(std::isnan(plain_read(type, reinterpret_cast<const char*>(&found), 0)));
    return;
  }
  EXPECT_EQ(found, expected) << element_name(element) << " of " << value;
}

struct Both {
  plain_type first;
  Element second;
};
void PrintTo(const Both& both, std::ostream* out) { *out << element_name(both.second); }

class PlainNumber : public testing::TestWithParam<Both> {};

TEST_P(PlainNumber, every_half_is_read_as_the_contract_reads_it) {
  for (std::uint32_t half = 0; half < 0x10000; ++half)
    expect_same_reading(GetParam().first, GetParam().second, static_cast<std::uint16_t>(half));
}

TEST_P(PlainNumber, every_turn_of_the_rounding_is_where_the_contract_has_it) {
  const auto type = GetParam().first;
  const auto element = GetParam().second;
  for (std::uint32_t half = 0; half < 0x10000; ++half) {
    const auto bits = static_cast<std::uint16_t>(half), above = static_cast<std::uint16_t>(half + 1);
    const float value = plain_read(type, reinterpret_cast<const char*>(&bits), 0);
    const float next = plain_read(type, reinterpret_cast<const char*>(&above), 0);
    expect_same_writing(type, element, value);
    if (!std::isfinite(value) || !std::isfinite(next)) continue;
    // The middle of two neighbours is a float, and so are the floats around it.
    const auto middle = std::bit_cast<std::uint32_t>(static_cast<float>((double{value} + double{next}) / 2));
    for (const std::uint32_t turn : {middle - 1, middle, middle + 1})
      expect_same_writing(type, element, float_of(turn));
  }
}

TEST_P(PlainNumber, overflow_is_infinity_and_nan_stays_nan) {
  const auto type = GetParam().first;
  const auto element = GetParam().second;
  // 65520 is the middle between the largest f16 and 2^16; 0x7f7f8000 the same for bf16 and 2^128.
  for (const float value :
       {65519.996f, 65520.0f, 65536.0f, 3e38f, float_of(0x7f7f7fff), float_of(0x7f7f8000),
        float_of(0x7f7fffff), float_of(0x7f800000), float_of(0x7f800001), float_of(0x7fc00000),
        float_of(0xff800001), 1e-45f, 0x1p-25f, 0x1.000002p-25f, 0x1p-26f, 0.0f}) {
    expect_same_writing(type, element, value);
    expect_same_writing(type, element, -value);
  }
}

INSTANTIATE_TEST_SUITE_P(PlainC, PlainNumber,
                         testing::Values(Both{PLAIN_BF16, Element::bf16}, Both{PLAIN_F16, Element::f16}),
                         [](const auto& info) { return std::string(element_name(info.param.second)); });

}  // namespace
}  // namespace sinktrap::test
