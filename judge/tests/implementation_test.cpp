// Loading implementations: what is wrong with a table or a file is said in one line.
#include "judge/implementation.hpp"

#include <gtest/gtest.h>

#include "reference/table.hpp"

namespace sinktrap {
namespace {

std::string error_of(const std::string& text) {
  auto opened = Implementation::open(text);
  const auto* error = std::get_if<std::string>(&opened);
  EXPECT_NE(error, nullptr) << text;
  return error ? *error : "";
}

TEST(Implementation, BuiltInsOpenByNameAndAlias) {
  for (const char* name : {"reference", "reference:ordered", "simt", "simt:ordered", "simt?seams=none"}) {
    auto opened = Implementation::open(name);
    ASSERT_TRUE(std::holds_alternative<std::shared_ptr<const Implementation>>(opened)) << name;
  }
  auto opened =
      std::get<std::shared_ptr<const Implementation>>(Implementation::open("simt?seams=act&schedule=3"));
  EXPECT_EQ(opened->name(), "simt:ordered");
  EXPECT_EQ(opened->options(), "seams=act&schedule=3");
}

TEST(Implementation, MissingAndWrongFilesAreOneLine) {
  for (const std::string text :
       {"nothing", "./nothing.so", "/dev/null", SINKTRAP_SOURCE_DIR "/CMakeLists.txt"}) {
    const std::string error = error_of(text);
    EXPECT_FALSE(error.empty());
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
  EXPECT_NE(error_of("./nothing.so").find("no such file"), std::string::npos);
  EXPECT_NE(error_of("nothing").find("known are"), std::string::npos);
}

// A table with one thing changed.
template <class Edit>
std::string fault_after(Edit&& edit) {
  sinktrap_implementation_table t = *reference::f64_table();
  edit(t);
  return table_fault(&t);
}

TEST(Implementation, TablesAreCheckedFieldByField) {
  EXPECT_EQ(fault_after([](auto&) {}), "");
  EXPECT_NE(table_fault(nullptr), "");
  EXPECT_NE(fault_after([](auto& t) { ++t.abi_version; }).find("version 2"), std::string::npos);
  EXPECT_NE(fault_after([](auto& t) { t.struct_size = 8; }).find("8 bytes"), std::string::npos);
  EXPECT_NE(fault_after([](auto& t) { t.name = nullptr; }), "");
  EXPECT_NE(fault_after([](auto& t) { t.name = ""; }), "");
  EXPECT_NE(fault_after([](auto& t) { t.name = "two words"; }), "");
  EXPECT_NE(fault_after([](auto& t) {
              t.name = "0123456789012345678901234567890123456789012345678901234567890123456789";
            }),
            "");
  EXPECT_NE(fault_after([](auto& t) { t.forward = nullptr; }).find("forward is null"), std::string::npos);
  EXPECT_NE(fault_after([](auto& t) { t.unload = nullptr; }).find("unload is null"), std::string::npos);
  EXPECT_EQ(fault_after([](auto& t) {
              t.update = nullptr;
              t.capabilities &= ~SINKTRAP_CAN_UPDATE;
            }),
            "");
  EXPECT_NE(fault_after([](auto& t) { t.memory.allocate = [](std::uint64_t) -> void* { return nullptr; }; }),
            "");
  EXPECT_NE(fault_after([](auto& t) { t.device.device_type = kDLCUDA; }), "");
  EXPECT_NE(fault_after([](auto& t) { t.declaration.seams = 1u << 31; }), "");
  EXPECT_NE(fault_after([](auto& t) {
              t.capabilities &= ~(SINKTRAP_CAN_BF16 | SINKTRAP_CAN_F16 | SINKTRAP_CAN_F32);
            }),
            "");
}

}  // namespace
}  // namespace sinktrap
