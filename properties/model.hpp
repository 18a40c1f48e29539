// The reference behind the same table, as the model that a sequence of calls is compared with.
#pragma once
#include "judge/session.hpp"

namespace sinktrap {

const Implementation& model_implementation();

// Derived operands that the contract names for a layout, with their shapes.
struct OperandName {
  const char* name;
  std::vector<std::int64_t> shape;
};
std::vector<OperandName> derived_operands(const ForwardInputs& in);

// Compares what both pools hold, bit for bit, and (with the capability) every derived operand of the slots
// that `judged` marks. Throws Stop at the first difference; `after` names the step. `addresses` remembers
// where each operand was first seen: it must stay there. Operands of a slot that is not judged must hold what
// they held after the step before, unless the step may have written them (`loads`).
struct OperandAddresses {
  std::vector<const void*> seen;
  std::vector<Tensor> last;  // what the operands held after the step before
};
void compare_pools(const Session& found, const Session& model, std::string_view after);
void compare_derived(Session& found, Session& model, const ForwardInputs& in, const std::vector<bool>& judged,
                     OperandAddresses& addresses, std::string_view after, bool loads = true);

}  // namespace sinktrap
