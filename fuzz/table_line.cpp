#include "fuzz/table_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "cases/fields.hpp"
#include "contract/element.hpp"

namespace sinktrap::fuzz {
namespace {

TableLine current;  // what the functions below answer

template <class T>
void read(Fields& f, std::string_view key, T& value) {
  value = static_cast<T>(f.unsigned_or(key, static_cast<std::uint64_t>(value)));
}

std::int32_t answer(sinktrap_verdict* v) {
  if (v != nullptr)
    *v = {current.says,
          static_cast<std::int32_t>(current.found),
          static_cast<std::int32_t>(current.found >> 8),
          static_cast<std::int32_t>(current.found >> 16),
          current.found,
          -(current.found / 2)};
  return current.code;
}

std::int32_t validate(const sinktrap_layout*, std::int64_t count, std::int32_t, sinktrap_verdict* verdicts) {
  for (std::int64_t i = 0; i < count; ++i) answer(&verdicts[i]);
  return current.code;
}
std::int32_t create(const sinktrap_layer*, const char*, sinktrap_instance** instance, sinktrap_verdict* v) {
  static char nothing;
  *instance = current.instance == 0 ? nullptr : reinterpret_cast<sinktrap_instance*>(&nothing);
  return answer(v);
}
void destroy(sinktrap_instance*) {}
std::int32_t bind(sinktrap_instance*, const DLTensor*, sinktrap_verdict* v) { return answer(v); }
std::int32_t forward(sinktrap_instance*, const sinktrap_forward_args*, sinktrap_verdict* v) {
  return answer(v);
}
std::int32_t update(sinktrap_instance*, const sinktrap_slot_set*, sinktrap_verdict* v) { return answer(v); }
std::int32_t load(sinktrap_instance*, std::int64_t, const sinktrap_adapter*, sinktrap_verdict* v) {
  return answer(v);
}
std::int32_t unload(sinktrap_instance*, std::int64_t, sinktrap_verdict* v) { return answer(v); }
std::int32_t shard(const DLTensor*, std::int64_t, std::int64_t, const DLTensor*, sinktrap_verdict* v) {
  return answer(v);
}
std::int32_t factor(const DLTensor*, std::int32_t, const DLTensor*, sinktrap_verdict* v) { return answer(v); }

std::int32_t derived(sinktrap_instance*, const char*, DLTensor* view, sinktrap_verdict* v) {
  // The shape is that of w1_delta with all extents 1, so that one of the views is right.
  static std::array<std::int64_t, 3> shape = {1, 2, 2}, strides = {-1, 0, INT64_MAX};
  static double data[3] = {};
  *view = {};
  view->dtype = dl_type(current.view & 8 ? Element::i64 : Element::bf16);
  view->device = {kDLCPU, 0};
  if (current.view & 1) view->data = data;
  if (current.view & 2) view->shape = shape.data();
  if (current.view & 4) view->strides = strides.data();
  view->ndim = static_cast<std::int32_t>(current.view >> 4);  // may name axes that are not there
  return answer(v);
}
std::int32_t declare(sinktrap_instance*, sinktrap_declaration* d) {
  *d = current.declaration;
  return current.code;
}
const char* last_error() {
  static const std::string longest(1 << 16, 'e');
  const char* const texts[] = {nullptr, "broken", "two\nlines \x1b[31m", longest.c_str()};
  return texts[current.error % 4];
}

void* allocate(std::uint64_t bytes) {
  return current.memory & 16 ? nullptr : std::aligned_alloc(256, (bytes + 255) / 256 * 256);
}
void release(void* p) { std::free(p); }
std::int32_t write_memory(void* to, const void* from, std::uint64_t bytes) {
  std::memcpy(to, from, bytes);
  return SINKTRAP_OK;
}
std::int32_t read_memory(void* to, const void* from, std::uint64_t bytes) {
  if (current.memory & 32) return SINKTRAP_INTERNAL;
  std::memcpy(to, from, bytes);
  return SINKTRAP_OK;
}

// %NN is any byte.
std::string name_of(std::string_view text) {
  std::string name;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    const char* digits = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(digits, digits + 2, value, 16).ptr == digits + 2) {
      name += static_cast<char>(value);
      i += 2;
    } else {
      name += text[i];
    }
  }
  return name;
}

}  // namespace

std::variant<TableLine, CaseError> parse_table(std::string_view line) {
  Fields f(line);
  TableLine t;
  if (f.ok() && f.kind() != kTableKind)
    f.fail(f.kind_column(), fmt::format("expected {} at the start", kTableKind));
  if (!f.ok()) return f.error();
  read(f, "abi", t.abi);
  read(f, "size", t.size);
  if (const auto text = f.text("name")) t.name = name_of(text->value);
  t.open = f.unsigned_or("open", 0) != 0;
  read(f, "caps", t.caps);
  read(f, "seams", t.declaration.seams);
  read(f, "declared", t.declaration.seams_declared);
  read(f, "silu", t.declaration.silu_class);
  read(f, "deterministic", t.declaration.deterministic);
  read(f, "device", t.device);
  read(f, "memory", t.memory);
  read(f, "null", t.null);
  read(f, "code", t.code);
  t.says = t.code;
  read(f, "says", t.says);
  read(f, "found", t.found);
  read(f, "instance", t.instance);
  read(f, "view", t.view);
  read(f, "error", t.error);
  read(f, "law", t.law);
  f.finish(kTableFields);
  if (!f.ok()) return f.error();
  return t;
}

Table::Table(const TableLine& line) {
  current = line;
  sinktrap_implementation_table t{};
  t.abi_version = line.abi;
  t.struct_size = line.size;
  if (line.name) {
    const std::size_t length = line.open ? 64 : line.name->size();
    name_ = std::make_unique<char[]>(length + 1);
    std::memset(name_.get(), 'x', length + (line.open ? 1 : 0));
    std::memcpy(name_.get(), line.name->data(), std::min(length, line.name->size()));
    if (line.open) std::replace(name_.get(), name_.get() + length, '\0', 'x');
    t.name = name_.get();
  }
  t.capabilities = line.caps;
  t.declaration = line.declaration;
  t.device = {static_cast<DLDeviceType>(line.device), 0};
  if (line.memory & 1) t.memory.allocate = allocate;
  if (line.memory & 2) t.memory.release = release;
  if (line.memory & 4) t.memory.write = write_memory;
  if (line.memory & 8) t.memory.read = read_memory;
  std::uint32_t bit = 0;
  const auto give = [&](auto& place, auto function) {
    if (!(line.null >> bit++ & 1)) place = function;
  };
  give(t.validate, validate);
  give(t.create, create);
  give(t.destroy, destroy);
  give(t.bind, bind);
  give(t.forward, forward);
  give(t.update, update);
  give(t.load, load);
  give(t.unload, unload);
  give(t.shard, shard);
  give(t.expand, factor);
  give(t.collapse, factor);
  give(t.derived, derived);
  give(t.declare, declare);
  give(t.last_error, last_error);
  const std::size_t bytes =
      std::clamp<std::size_t>(line.size, offsetof(sinktrap_implementation_table, name), sizeof t);
  bytes_ = std::make_unique<char[]>(bytes);
  std::memcpy(bytes_.get(), &t, bytes);
}

}  // namespace sinktrap::fuzz
