#include "mutants/kernel_mutants.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

namespace sinktrap {
namespace {

enum : unsigned { ON_ORDERED = 1, ON_TILED = 2, ON_MMA = 4, ON_DECODE = 8 };
constexpr int kKernels = 4;

// The faults in the order of the list; 0 is none.
enum : int {
  kNone,
#define X(name, kernels, what, report) kFault_##name,
#include "cuda_impl/kernel_faults.def"
#undef X
  kSumsAndFinish
};

struct Row {
  int kernel, fault;
  Mutant mutant;
};

std::vector<Row> make_rows() {
  std::vector<Row> rows;
  const Mutant unmutated[kKernels] = {{"(unmutated ordered)", "unmutated", "the kernel as it is", "none"},
                                      {"(unmutated tiled)", "unmutated", "the kernel as it is", "none"},
                                      {"(unmutated mma)", "unmutated", "the kernel as it is", "none"},
                                      {"(unmutated decode)", "unmutated", "the kernel as it is", "none"}};
  rows.reserve(kKernels);
  for (int k = 0; k < kKernels; ++k) rows.push_back({k, kNone, unmutated[k]});
#define X(name, kernels, what, report)                                                                      \
  {                                                                                                         \
    const char* names[kKernels] = {"ordered:" #name, "tiled:" #name, "mma:" #name, "decode:" #name};        \
    for (int k = 0; k < kKernels; ++k)                                                                      \
      if ((kernels) >> k & 1u) rows.push_back({k, kFault_##name, {names[k], "concurrency", what, report}}); \
  }
#include "cuda_impl/kernel_faults.def"
#undef X
  rows.push_back({3,
                  kSumsAndFinish,
                  {"decode:sums_and_finish", "equivalent",
                   "the last block of the down pass adds all parts, told by a counter with its fences",
                   "the twin of decode:flag_without_fence"}});
  return rows;
}

const std::vector<Row>& rows() {
  static const std::vector<Row> all = make_rows();
  return all;
}

using Select = const sinktrap_implementation_table* (*)(int kernel, int fault);

struct Library {
  Select select = nullptr;
  std::string missing;
};
const Library& library() {
  static const Library opened = [] {
    Library l;
#if defined(SINKTRAP_KERNEL_MUTANTS_FILE)
    void* handle = dlopen(SINKTRAP_KERNEL_MUTANTS_FILE, RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) l.select = reinterpret_cast<Select>(dlsym(handle, "sinktrap_kernel_mutant"));
    if (l.select == nullptr) {
      const char* why = dlerror();
      l.missing = why != nullptr ? why : "no sinktrap_kernel_mutant in " SINKTRAP_KERNEL_MUTANTS_FILE;
    }
#else
    l.missing = "built without the race runtime (sanitizers, fuzzing)";
#endif
    return l;
  }();
  return opened;
}

}  // namespace

const std::vector<Mutant>& kernel_mutants() {
  static const std::vector<Mutant> all = [] {
    std::vector<Mutant> list;
    if (library().select == nullptr) return list;
    for (const Row& row : rows()) list.push_back(row.mutant);
    return list;
  }();
  return all;
}

const std::string& kernel_mutants_missing() { return library().missing; }

std::shared_ptr<const Implementation> select_kernel_mutant(int index) {
  const Row& row = rows()[static_cast<std::size_t>(index)];
  return Implementation::from_table(library().select(row.kernel, row.fault),
                                    fmt::format("mutant {}", row.mutant.name), "");
}

}  // namespace sinktrap
