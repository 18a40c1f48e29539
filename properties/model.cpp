#include "properties/model.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "judge/compare.hpp"
#include "judge/transcript.hpp"
#include "reference/table.hpp"

namespace sinktrap {
namespace {

void require_equal(const Judgement& j, std::string_view after, std::string_view note) {
  if (j.status == Status::passed) return;
  Transcript::note(note);
  stop(j.status, fmt::format("after {}: {}", after, j.reason), j.details);
}

}  // namespace

const Implementation& model_implementation() {
  static const auto model = Implementation::from_table(reference::f64_table(), "reference", "");
  return *model;
}

std::vector<OperandName> derived_operands(const ForwardInputs& in) {
  const auto& d = in.d;
  std::vector<OperandName> list = {{"w1_delta", {d.S, d.n * 2 * d.F, 2 * d.R}}};
  if (in.layout == ExpertLayout::shared)
    list.push_back({"a_cat", {d.S, d.R, d.n * d.F}});
  else
    list.push_back({"b_cat", {d.S, d.H, d.n * d.R}});
  return list;
}

void compare_pools(const Session& found, const Session& model, std::string_view after) {
  const Pool a = found.read_pool(), b = model.read_pool();
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Judgement j = compare_bits(b[i], a[i], buffer_name(static_cast<std::int32_t>(i)));
    require_equal(j, after, kNotePool);
  }
}

void compare_derived(Session& found, Session& model, const ForwardInputs& in, const std::vector<bool>& judged,
                     OperandAddresses& addresses, std::string_view after, bool loads) {
  if (!found.implementation().can(SINKTRAP_CAN_DERIVED)) return;
  const auto names = derived_operands(in);
  addresses.seen.resize(names.size(), nullptr);
  addresses.last.resize(names.size());
  for (std::size_t k = 0; k < names.size(); ++k) {
    const auto a = found.derived(names[k].name, names[k].shape);
    if (a.verdict.code == SINKTRAP_UNSUPPORTED)
      continue;  // operands are offered as an implementation has them
    must_succeed(found.implementation(), a.verdict, names[k].name);
    if (addresses.seen[k] != nullptr && addresses.seen[k] != a.address) {
      Transcript::note(kNoteMoved);
      stop(Status::failed,
           fmt::format("after {}: the derived operand {} moved; a captured graph would keep reading the "
                       "old place",
                       after, names[k].name));
    }
    addresses.seen[k] = a.address;
    const Tensor expected = model.derived(names[k].name, names[k].shape).operand;
    // Slots that were written but not yet updated are not judged: take the implementation's own bits for
    // them. Only their update may change them.
    Tensor merged = expected;
    const auto slot_bytes = merged.bytes().size() / judged.size();
    for (std::size_t s = 0; s < judged.size(); ++s)
      if (!judged[s])
        std::copy_n((loads || addresses.last[k].size() == 0 ? a.operand : addresses.last[k]).bytes().data() +
                        s * slot_bytes,
                    slot_bytes, merged.bytes().data() + s * slot_bytes);
    const Judgement j = compare_bits(merged, a.operand, names[k].name);
    require_equal(j, after, kNoteOperand);
    addresses.last[k] = a.operand;
  }
}

}  // namespace sinktrap
