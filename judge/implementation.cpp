#include "judge/implementation.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "contract/element.hpp"
#include "contract/tensor.hpp"
#include "cuda_impl/table.hpp"
#include "judge/child.hpp"
#include "reference/table.hpp"

namespace sinktrap {
namespace {

using Table = sinktrap_implementation_table;

struct Row {
  std::string_view name, alias, summary;
  const Table* (*table)();
};
using cuda_impl::Kernel;
template <Kernel kKernel>
const Table* simt() {
  return cuda_impl::simt_table(kKernel);
}
template <Kernel kKernel>
const Table* cuda() {
  return cuda_impl::cuda_table(kKernel);
}
constexpr std::array kBuiltIns = {
    Row{"reference", "", "CPU reference, forward in f64", reference::f64_table},
    Row{"reference:ordered", "", "CPU reference, ordered f32 arithmetic", reference::ordered_table},
    Row{"simt:ordered", "simt", "the CUDA sources on this machine's CPU", simt<Kernel::ordered>},
    Row{"simt:tiled", "", "shared-memory tiles, on this machine's CPU", simt<Kernel::tiled>},
    Row{"simt:mma", "", "tensor-core tiles, on this machine's CPU", simt<Kernel::mma>},
    Row{"simt:decode", "", "split K for few tokens, on this machine's CPU", simt<Kernel::decode>},
    Row{"cuda:ordered", "cuda", "the CUDA sources on a GPU", cuda<Kernel::ordered>},
    Row{"cuda:tiled", "", "shared-memory tiles, on a GPU", cuda<Kernel::tiled>},
    Row{"cuda:mma", "", "tensor-core tiles, on a GPU", cuda<Kernel::mma>},
    Row{"cuda:decode", "", "split K for few tokens, on a GPU", cuda<Kernel::decode>},
};

std::string why_not(const Row& row) {
  if (row.name.substr(0, 5) != "cuda:") return "";
  const char* why = nullptr;
  return cuda_impl::cuda_device_present(&why) ? "" : why;
}

struct Capability {
  std::uint64_t bit;
  std::string_view name;
};
constexpr std::array kCapabilities = {
    Capability{SINKTRAP_CAN_UPDATE, "update"},
    Capability{SINKTRAP_CAN_LOAD, "load"},
    Capability{SINKTRAP_CAN_SHARD, "shard"},
    Capability{SINKTRAP_CAN_EXPAND, "expand"},
    Capability{SINKTRAP_CAN_DERIVED, "derived"},
    Capability{SINKTRAP_CAN_BF16, "bf16"},
    Capability{SINKTRAP_CAN_F16, "f16"},
    Capability{SINKTRAP_CAN_F32, "f32"},
    Capability{SINKTRAP_CAN_GAMMAS_F32, "gammas_f32"},
    Capability{SINKTRAP_CAN_INTERLEAVED, "interleaved"},
    Capability{SINKTRAP_CAN_CONTIGUOUS, "contiguous"},
    Capability{SINKTRAP_CAN_SHARED, "shared"},
    Capability{SINKTRAP_CAN_PER_EXPERT, "per_expert"},
    Capability{SINKTRAP_IS_ORDERED, "ordered"},
    Capability{SINKTRAP_CAN_CHOOSE_SEAMS, "choose_seams"},
    Capability{SINKTRAP_CAN_CHOOSE_SCHEDULE, "choose_schedule"},
};

// What a file is that no loader takes for a shared library, or empty. The loader's own words for these
// ("invalid ELF header", "file too short") say nothing to whoever gave the source file or the archive.
std::string other_than_library(const std::string& path) {
  if (std::filesystem::is_directory(path)) return "a folder";
  std::array<char, 18> head{};  // of ELF: magic, class, byte order, ..., at 16 the type
  std::ifstream file(path, std::ios::binary);
  if (!file) return "a file that cannot be read";
  file.read(head.data(), head.size());
  const std::string_view found(head.data(), static_cast<std::size_t>(file.gcount()));
  const auto starts = [found](std::string_view magic) { return found.substr(0, magic.size()) == magic; };
  if (found.empty()) return "an empty file";
  if (starts("\x7f"
             "ELF")) {
    constexpr char kRelocatable = 1;  // ET_REL; the low byte, wherever the byte order puts it
    return found.size() == head.size() && (found[16] == kRelocatable || found[17] == kRelocatable)
               ? "an object file (.o)"
               : "";
  }
  if (starts("!<arch>")) return "a static archive (.a)";
  if (starts("#!")) return "a script";
  if (starts("MZ")) return "a Windows library";
  if (starts("\xcf\xfa\xed\xfe") || starts("\xca\xfe\xba\xbe")) return "a macOS library";
  const bool text = std::all_of(found.begin(), found.end(),
                                [](char c) { return (c >= ' ' && c <= '~') || (c >= '\t' && c <= '\r'); });
  if (text) return "a text file";
  std::string bytes;
  for (const char c : found.substr(0, 4)) bytes += fmt::format(" {:02x}", static_cast<unsigned char>(c));
  return "a file that starts with the bytes" + bytes;
}

bool g_library_loaded = false;

std::variant<const Table*, std::string> load_library(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return fmt::format("cannot load {}: {}", path, dlerror());
  g_library_loaded = true;
  auto function =
      reinterpret_cast<sinktrap_implementation_function>(dlsym(library, "sinktrap_implementation"));
  if (function == nullptr)
    return fmt::format("{} does not export sinktrap_implementation; build it against contract/sinktrap.h",
                       path);
  const Table* table = function(SINKTRAP_ABI_VERSION);
  if (const std::string fault = table_fault(table); !fault.empty()) return fmt::format("{}: {}", path, fault);
  return table;
}

// Loads the library in a child, so that a crash in its constructors costs only the child.
std::string probe(const std::string& path) {
  return said_by_child(path, "while it was loaded", [&path] {
    const auto loaded = load_library(path);
    const auto* error = std::get_if<std::string>(&loaded);
    return error != nullptr ? *error : std::string{};
  });
}

// What `create` says about a layer of one expert, one column and one feature.
std::int32_t create_code(const Table* t, const std::string& options) {
  const DLDataType type = dl_type(t->capabilities & SINKTRAP_CAN_BF16  ? Element::bf16
                                  : t->capabilities & SINKTRAP_CAN_F16 ? Element::f16
                                                                       : Element::f32);
  std::int64_t w13_shape[] = {1, 2, 1}, w2_shape[] = {1, 1, 1};
  std::uint64_t host[2][32] = {};  // 256 bytes each, zero: what any type reads as zero
  void* elements[2] = {host[0], host[1]};
  if (t->memory.allocate != nullptr)
    for (int i = 0; i < 2; ++i) {
      elements[i] = t->memory.allocate(sizeof host[i]);
      if (elements[i] == nullptr || t->memory.write(elements[i], host[i], sizeof host[i]) != SINKTRAP_OK)
        return SINKTRAP_INTERNAL;
    }
  const DLTensor w13 = {elements[0], t->device, 3, type, w13_shape, nullptr, 0};
  const DLTensor w2 = {elements[1], t->device, 3, type, w2_shape, nullptr, 0};
  const sinktrap_layer layer = {
      sizeof layer,
      t->capabilities & SINKTRAP_CAN_INTERLEAVED ? SINKTRAP_W13_INTERLEAVED : SINKTRAP_W13_CONTIGUOUS,
      1,
      1,
      1,
      type,
      &w13,
      &w2};
  sinktrap_instance* instance = nullptr;
  sinktrap_verdict verdict{};
  const std::int32_t code = t->create(&layer, options.c_str(), &instance, &verdict);
  if (code == SINKTRAP_OK && instance != nullptr) t->destroy(instance);
  return code;
}

// Options that are refused would fail every case: said once, before the first. Only what `create` calls an
// argument, and only if it serves the same layer without them; anything else is for the laws to judge. In a
// child, where nothing is given back.
std::string options_fault(const std::shared_ptr<const Implementation>& implementation) {
  if (implementation->options().empty()) return {};
  return said_by_child(implementation->argument(), "while its options were looked at", [&implementation] {
    const Table* t = &implementation->table();
    if (create_code(t, implementation->options()) != SINKTRAP_ARGUMENT) return std::string{};
    const std::string reason = implementation->last_error();
    if (create_code(t, "") != SINKTRAP_OK) return std::string{};
    return fmt::format("{}: create refuses the options \"{}\": {}", implementation->argument(),
                       implementation->options(), reason.empty() ? "no reason given" : reason);
  });
}

}  // namespace

bool library_loaded() { return g_library_loaded; }

std::string table_fault(const Table* t) {
  if (t == nullptr)
    return fmt::format("sinktrap_implementation returned null for interface version {}",
                       SINKTRAP_ABI_VERSION);
  if (t->abi_version != SINKTRAP_ABI_VERSION)
    return fmt::format("interface version {} found, {} expected; rebuild it against this contract/sinktrap.h",
                       t->abi_version, SINKTRAP_ABI_VERSION);
  if (t->struct_size < sizeof(Table))
    return fmt::format("table of {} bytes found, {} expected; rebuild it against this contract/sinktrap.h",
                       t->struct_size, sizeof(Table));
  if (t->name == nullptr) return "the table has no name";
  const std::size_t length = strnlen(t->name, 64);
  if (length == 0 || length == 64) return "the table's name must have 1 to 63 characters";
  for (std::size_t i = 0; i < length; ++i)
    if (t->name[i] <= ' ' || t->name[i] > '~') return "the table's name must be printable, without blanks";
  const auto missing = [](std::string_view f) { return fmt::format("the table's function {} is null", f); };
  if (t->validate == nullptr) return missing("validate");
  if (t->create == nullptr) return missing("create");
  if (t->destroy == nullptr) return missing("destroy");
  if (t->bind == nullptr) return missing("bind");
  if (t->forward == nullptr) return missing("forward");
  const auto contradiction = [t](std::uint64_t bit, bool there, std::string_view f) {
    return (t->capabilities & bit) && !there
               ? fmt::format("capability {} is declared, but {} is null", capability_names(bit), f)
               : std::string{};
  };
  for (const std::string& fault : {contradiction(SINKTRAP_CAN_UPDATE, t->update, "update"),
                                   contradiction(SINKTRAP_CAN_LOAD, t->load, "load"),
                                   contradiction(SINKTRAP_CAN_LOAD, t->unload, "unload"),
                                   contradiction(SINKTRAP_CAN_SHARD, t->shard, "shard"),
                                   contradiction(SINKTRAP_CAN_EXPAND, t->expand, "expand"),
                                   contradiction(SINKTRAP_CAN_EXPAND, t->collapse, "collapse"),
                                   contradiction(SINKTRAP_CAN_DERIVED, t->derived, "derived")})
    if (!fault.empty()) return fault;
  const auto& m = t->memory;
  const int given =
      (m.allocate != nullptr) + (m.release != nullptr) + (m.write != nullptr) + (m.read != nullptr);
  if (given != 0 && given != 4) return "the table must have all four memory functions, or none";
  // Read as a number: a value outside of the enumeration must not be loaded as one.
  std::int32_t device = 0;
  std::memcpy(&device, &t->device.device_type, sizeof device);
  if (device < 1 || device > kMostDeviceType)
    return fmt::format("the table's device type {} is none of DLPack's 1..{}", device, kMostDeviceType);
  if (given == 0 && device != kDLCPU) return "a device other than the CPU needs the memory functions";
  if (!(t->capabilities & (SINKTRAP_CAN_BF16 | SINKTRAP_CAN_F16 | SINKTRAP_CAN_F32)))
    return "the table declares no storage type (bf16, f16, f32)";
  if (!(t->capabilities & (SINKTRAP_CAN_INTERLEAVED | SINKTRAP_CAN_CONTIGUOUS)))
    return "the table declares no w13 layout (interleaved, contiguous)";
  if (!(t->capabilities & (SINKTRAP_CAN_SHARED | SINKTRAP_CAN_PER_EXPERT)))
    return "the table declares no expert layout (shared, per_expert)";
  if (t->declaration.seams & ~SINKTRAP_ALL_SEAMS) return "the declared seams have bits that are no seam";
  return "";
}

std::string capability_names(std::uint64_t bits) {
  std::string text;
  for (const Capability& c : kCapabilities)
    if (bits & c.bit) text += (text.empty() ? "" : ", ") + std::string(c.name);
  return text;
}

std::string Implementation::last_error() const {
  // It becomes part of a line of a report, whatever the library put in it.
  constexpr std::size_t kLongest = 400;
  const char* text = table_->last_error ? table_->last_error() : nullptr;
  std::string line = text ? std::string(text, strnlen(text, kLongest)) : "";
  for (char& c : line)
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '?';
  return line;
}

std::shared_ptr<const Implementation> Implementation::from_table(const Table* table, std::string argument,
                                                                 std::string options) {
  auto made = std::make_shared<Implementation>();
  made->table_ = table;
  made->argument_ = std::move(argument);
  made->options_ = std::move(options);
  return made;
}

std::variant<std::shared_ptr<const Implementation>, std::string> Implementation::open(
    const std::string& text) {
  const std::size_t question = text.find('?');
  const std::string name = text.substr(0, question);
  const std::string options = question == std::string::npos ? "" : text.substr(question + 1);
  for (const Row& row : kBuiltIns) {
    if (name != row.name && (row.alias.empty() || name != row.alias)) continue;
    if (const std::string why = why_not(row); !why.empty()) return fmt::format("--impl {}: {}", name, why);
    if (const std::string fault = table_fault(row.table()); !fault.empty())
      return fmt::format("--impl {}: {}", name, fault);
    auto built_in = from_table(row.table(), text, options);
    if (const std::string fault = options_fault(built_in); !fault.empty()) return "--impl " + fault;
    return built_in;
  }
  if (name.find('/') == std::string::npos && name.find(".so") == std::string::npos) {
    std::string known;
    for (const Row& row : kBuiltIns) known += std::string(row.name) + ", ";
    return fmt::format("--impl {}: no implementation of that name; known are {}or a FILE.so", name, known);
  }
  // dlopen searches the system's folders for a name without a slash; a file given by a user is meant as a
  // file.
  std::error_code ignored;
  const std::string path = std::filesystem::absolute(name, ignored).string();
  if (!std::filesystem::exists(path, ignored)) return fmt::format("--impl {}: no such file", name);
  if (const std::string found = other_than_library(path); !found.empty())
    return fmt::format(
        "--impl {}: expected a shared library (ELF), found {}; link your kernel with -shared -fPIC and "
        "give the .so file (docs/plug-in.md)",
        name, found);
  if (const std::string error = probe(path); !error.empty()) return "--impl " + error;
  auto loaded = load_library(path);
  if (auto* error = std::get_if<std::string>(&loaded)) return "--impl " + *error;
  auto library = from_table(std::get<const Table*>(loaded), text, options);
  if (const std::string fault = options_fault(library); !fault.empty()) return "--impl " + fault;
  return library;
}

std::vector<BuiltIn> built_in_implementations() {
  std::vector<BuiltIn> list;
  list.reserve(std::size(kBuiltIns));
  for (const Row& row : kBuiltIns)
    list.push_back(
        {std::string(row.name),
         std::string(row.summary) + (row.alias.empty() ? "" : fmt::format(" (short: {})", row.alias)),
         why_not(row)});
  return list;
}

std::string default_implementation() {
  const char* why = nullptr;
  return cuda_impl::cuda_device_present(&why) ? "cuda" : "simt";
}

}  // namespace sinktrap
