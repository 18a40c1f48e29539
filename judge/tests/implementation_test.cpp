// Loading implementations: what is wrong with a table or a file is said in one line.
#include "judge/implementation.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

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

// What people give in place of a library: sources, archives, objects, libraries of other systems.
TEST(Implementation, WhatIsNoElfLibraryIsNamed) {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("sinktrap_elf_{}", getpid());
  std::filesystem::create_directories(folder);
  const auto found = [&](const std::string& contents) {
    const std::string path = (folder / "given.so").string();
    std::ofstream(path, std::ios::binary) << contents;
    const std::string error = error_of(path),
                      start = "--impl " + path + ": expected a shared library (ELF), found ";
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
    EXPECT_NE(error.find("-shared"), std::string::npos) << "what to do: " << error;
    return error.substr(0, start.size()) == start ? error.substr(start.size(), error.find(';') - start.size())
                                                  : "another error: " + error;
  };
  using std::string_literals::operator""s;
  const std::string elf =
      "\x7f"
      "ELF\x02\x01\x01"s +
      std::string(9, '\0');
  EXPECT_EQ(found(""), "an empty file");
  EXPECT_EQ(found("// my kernel\n"), "a text file");
  EXPECT_EQ(found("#!/bin/sh\n"), "a script");
  EXPECT_EQ(found("!<arch>\nkernel.o/"), "a static archive (.a)");
  EXPECT_EQ(found(elf + "\x01\0"s), "an object file (.o)");
  EXPECT_EQ(found("MZ\x90\0"s), "a Windows library");
  EXPECT_EQ(found("\xcf\xfa\xed\xfe\x0c"), "a macOS library");
  EXPECT_EQ(found("\x1f\x8b\x08\0zip"s), "a file that starts with the bytes 1f 8b 08 00");
  // What looks like one goes to the loader, which has the last word.
  std::ofstream(folder / "given.so", std::ios::binary) << elf + "\x03\0"s;
  EXPECT_NE(error_of((folder / "given.so").string()).find("cannot load"), std::string::npos);
  EXPECT_NE(error_of(folder.string() + "/").find("found a folder"), std::string::npos);
  std::filesystem::remove_all(folder);
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
