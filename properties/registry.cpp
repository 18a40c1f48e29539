#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <type_traits>

#include "judge/memory.hpp"
#include "properties/law.hpp"

namespace sinktrap {

const std::vector<Law>& laws() {
  static const std::vector<Law> all = [] {
    std::vector<Law> list;
    for (const auto& group : {layout_laws(), forward_laws(), hostile_laws(), argument_laws(),
                              metamorphic_laws(), state_laws(), pack_laws()})
      list.insert(list.end(), group.begin(), group.end());
    return list;
  }();
  return all;
}

const Law* find_law(std::string_view id) {
  for (const Law& law : laws())
    if (law.id == id) return &law;
  return nullptr;
}

namespace {

// A case below this many bytes is judged without a look at the machine's memory.
constexpr double kAskedFrom = double{1 << 30};
// Copies of a case's tensors that a law may hold: its inputs, a variant of them, the host's copy of what was
// uploaded, and the memory that the implementation reads.
constexpr double kCopies = 4;

// All tensors of a case, and those parts of them that are not slots without an adapter.
struct Size {
  double all = 0, used = 0;
};
Size size_of(const LayerCase& layer, std::int64_t tokens) {
  const auto features = static_cast<double>(layer.d.F);
  LayerCase used = layer;
  used.d.S = std::count_if(layer.ranks.begin(), layer.ranks.end(), [](std::int64_t r) { return r > 0; });
  const auto T = static_cast<double>(tokens);
  return {tensor_bytes(layer, T, features), tensor_bytes(used, T, features)};
}

}  // namespace

std::string memory_fault(const Law& law, const Case& c, const Implementation& implementation,
                         std::optional<std::int64_t> available) {
  const Size size = std::visit(
      [](const auto& typed) {
        using C = std::decay_t<decltype(typed)>;
        if constexpr (std::is_same_v<C, LayoutCase>)
          return Size{};
        else if constexpr (std::is_same_v<C, ForwardCase>)
          return size_of(typed.layer, typed.T());
        else
          return size_of(typed.layer, 0);
      },
      c);
  if (size.all < kAskedFrom) return "";
  double needed = kCopies * (law.sparse ? size.used : size.all);
  if (law.sparse && implementation.own_memory()) needed += size.all;
  const auto there = static_cast<double>(available ? *available : available_memory());
  if (needed <= there) return "";
  constexpr double kGib = double{1 << 30};
  return fmt::format("the case needs {:.1f} GiB of memory under this law, {:.1f} GiB are free", needed / kGib,
                     there / kGib);
}

Judgement judge_case(const Law& law, const Case& c, const Implementation& implementation) {
  Judgement j;
  if (!law.applies(c)) {
    j.status = Status::skipped;
    j.reason = "the law does not speak about this case";
    return j;
  }
  if (!implementation.can(law.needs)) {
    j.status = Status::skipped;
    j.reason = fmt::format("{} has no capability {}", implementation.name(),
                           capability_names(law.needs & ~implementation.table().capabilities));
    return j;
  }
  if (const std::string fault = memory_fault(law, c, implementation); !fault.empty()) {
    j.status = Status::skipped;
    j.reason = fault;
    return j;
  }
  try {
    return law.judge(c, implementation);
  } catch (const Stop& s) {
    return s.judgement;
  } catch (const std::bad_alloc&) {
    j.status = Status::skipped;
    j.reason = "out of memory while the case was prepared";
    return j;
  }
}

}  // namespace sinktrap
