#include <fmt/format.h>

#include <new>

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
