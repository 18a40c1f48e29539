// A table of a plug-in with hostile values: it is refused in one line, or it is judged without harm. The
// functions behind it answer what the line says and touch nothing; what a plug-in's own code does to the
// process is the matter of worker processes (judge/worker.hpp).
#include <fmt/format.h>

#include <algorithm>

#include "fuzz/protocol.hpp"
#include "fuzz/table_line.hpp"
#include "properties/law.hpp"

namespace sinktrap::fuzz {
const char* const kTarget = "fuzz_plugin";

namespace {

constexpr const char* kLaw = "tables-are-refused-or-judged";

// What no table may have, said again and more simply than table_fault says it.
bool must_be_refused(const TableLine& t) {
  constexpr std::uint32_t kRequired = 0b11111;  // validate, create, destroy, bind, forward
  if (t.abi != SINKTRAP_ABI_VERSION || t.size < sizeof(sinktrap_implementation_table) || !t.name || t.open)
    return true;
  const std::size_t length = std::min(t.name->find('\0'), t.name->size());  // the name ends at its first 0
  return length == 0 || length > 63 || (t.null & kRequired) != 0;
}

// A small case of every kind, in the order of the variant.
const std::vector<Case>& cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> list;
    for (const char* line :
         {"layout n=2 gate_up_lora_a=1x1x4x2 gate_up_lora_b=1x2x2x2 down_lora_a=1x2x2x1 down_lora_b=1x1x2x2",
          "forward T=2 n=2 H=2 F=2 R=1 S=2 slots=0,-1 tp=2 seed=1",
          "forward T=2 n=2 H=2 F=1 R=1 S=2 slots=0,-1 fill=dense seed=1",
          "forward T=2 n=2 H=2 F=1 R=1 S=1 slots=0,-1 fill=sweep seed=1",
          "forward T=2 n=1 H=2 F=1 R=1 S=1 slots=0,-1 type=f32 fill=huge put=nan@x:0:1 seed=1",
          "state n=1 H=2 F=1 R=1 S=1 fill=dense "
          "steps=bind:1;load:0:1:2;update:all;rebind_invalid:3;forward:0,-1:4",
          "pack n=2 H=2 F=1 R=2 S=1 r=1 fill=dense seed=1",
          "shard n=2 H=2 F=2 R=1 S=1 tp=2 fill=dense seed=1"})
      list.push_back(std::get<Case>(parse_case(line)));
    return list;
  }();
  return all;
}

void execute(std::string_view input) {
  const auto parsed = parse_table(input);
  if (const auto* error = std::get_if<CaseError>(&parsed)) return check_refusal(kLaw, error->what, input);
  const auto& line = std::get<TableLine>(parsed);
  const auto broken = [&](const std::string& what) {
    report({kLaw, "-", what, std::string(input), "fuzz_plugin FILE"});
  };
  const Table table(line);
  const std::string fault = table_fault(table.get());
  if (fault.empty() && must_be_refused(line)) broken("a table that cannot be used is accepted");
  if (!fault.empty()) return check_refusal(kLaw, fault, input);
  const auto implementation = Implementation::from_table(table.get(), "table", "");
  const Law& law = laws()[line.law % laws().size()];
  for (const Case& c : cases()) {
    if (!law.applies(c)) continue;
    const Judgement j = judge_case(law, c, *implementation);
    if (!j.reason.empty()) check_refusal(law.id, j.reason, input);
    if (is_bad(j.status) && j.reason.empty()) broken(fmt::format("{}: failed without a reason", law.id));
    // Nothing was computed: no law about outputs can hold for a reason of its own.
    if (j.status == Status::passed && law.id == "lattice-is-exact")
      broken("outputs that were never written have passed");
  }
}

}  // namespace
}  // namespace sinktrap::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  sinktrap::fuzz::executing(input);
  sinktrap::fuzz::execute(input);
  return 0;
}
