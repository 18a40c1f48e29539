// An implementation under test: a built-in one by name, or a shared library by path. Both are the same C
// table.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "contract/sinktrap.h"

namespace sinktrap {

class Implementation {
 public:
  // "reference", "simt", "cuda", ..., or "FILE.so", either with "?OPTIONS" behind it. The error is one line:
  // what was wrong and what to do. A shared library is first loaded in a child process: one that crashes
  // while it is loaded is an error, not the end of the program.
  static std::variant<std::shared_ptr<const Implementation>, std::string> open(const std::string& text);

  const sinktrap_implementation_table& table() const { return *table_; }
  const std::string& options() const { return options_; }
  // As given: what a repeat command needs.
  const std::string& argument() const { return argument_; }
  std::string name() const { return table_->name; }
  bool can(std::uint64_t capabilities) const { return (table_->capabilities & capabilities) == capabilities; }
  bool own_memory() const { return table_->memory.allocate != nullptr; }
  std::string last_error() const;

  // Of the built-in tables; also used by tests that judge a table of their own.
  static std::shared_ptr<const Implementation> from_table(const sinktrap_implementation_table* table,
                                                          std::string argument, std::string options);

 private:
  const sinktrap_implementation_table* table_ = nullptr;
  std::string argument_, options_;
};

// Whether a library of a user has become part of this process. What it does when the process ends must not
// change the exit code.
bool library_loaded();

// Why a table cannot be used; empty when it can.
std::string table_fault(const sinktrap_implementation_table* table);

// Names of capability bits, for reports: "update", "load", ...
std::string capability_names(std::uint64_t bits);

struct BuiltIn {
  std::string name, summary, missing;  // missing: why it cannot run here, empty when it can
};
std::vector<BuiltIn> built_in_implementations();
// "cuda" where a device is, else "simt".
std::string default_implementation();

}  // namespace sinktrap
