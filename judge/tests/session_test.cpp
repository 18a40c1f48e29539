// What a session sees of an implementation that misbehaves: each table below is the reference with one
// function changed.
#include "judge/session.hpp"

#include <gtest/gtest.h>

#include "reference/table.hpp"

namespace sinktrap {
namespace {

using Table = sinktrap_implementation_table;

const Table& honest() { return *reference::f64_table(); }

ForwardCase small_case() {
  auto parsed = parse_case("forward T=3 n=2 H=4 F=3 R=2 S=2 ranks=2,1 slots=0,-1,1 fill=dense seed=1");
  return std::get<ForwardCase>(std::get<Case>(parsed));
}

// Runs bind, update and forward; returns what the session stopped with, or passed.
Judgement use(const Table& table) {
  static Table kept;
  kept = table;
  const auto implementation = Implementation::from_table(&kept, "test", "");
  const ForwardInputs in = make_inputs(small_case());
  try {
    Session session(*implementation, in);
    must_succeed(*implementation, session.bind(in.pool), "bind");
    must_succeed(*implementation, session.update(std::nullopt), "update");
    must_succeed(*implementation, session.forward(in.x, in.gammas, in.token_slot).verdict, "forward");
    session.derived("w1_delta", {2, 12, 4});
  } catch (const Stop& s) {
    return s.judgement;
  }
  return {};
}

void expect_failed(const Table& table, std::string_view must_say) {
  const Judgement j = use(table);
  EXPECT_EQ(j.status, Status::failed) << j.reason;
  EXPECT_NE(j.reason.find(must_say), std::string::npos) << j.reason;
}

TEST(Session, AnHonestTablePasses) { EXPECT_EQ(use(honest()).status, Status::passed); }

TEST(Session, UnsupportedIsNotAFailure) {
  Table t = honest();
  t.forward = [](sinktrap_instance*, const sinktrap_forward_args*, sinktrap_verdict* v) -> std::int32_t {
    *v = verdict_of(SINKTRAP_UNSUPPORTED);
    return SINKTRAP_UNSUPPORTED;
  };
  EXPECT_EQ(use(t).status, Status::unsupported);
}

TEST(Session, ACapabilityThatIsMissingIsNamed) {
  Table t = honest();
  t.capabilities &= ~SINKTRAP_CAN_PER_EXPERT & ~SINKTRAP_CAN_BF16;
  const Judgement j = use(t);
  EXPECT_EQ(j.status, Status::skipped);
  EXPECT_NE(j.reason.find("bf16"), std::string::npos) << j.reason;
}

TEST(Session, ACodeThatIsNotItsVerdictsFails) {
  Table t = honest();
  t.bind = [](sinktrap_instance* i, const DLTensor* b, sinktrap_verdict* v) -> std::int32_t {
    honest().bind(i, b, v);
    return SINKTRAP_DTYPE;
  };
  expect_failed(t, "its verdict says ok");
  t.bind = [](sinktrap_instance*, const DLTensor*, sinktrap_verdict* v) -> std::int32_t {
    return v->code = 999;
  };
  expect_failed(t, "no code of the contract");
}

TEST(Session, WritesOutsideOutAreSeen) {
  if (guards_are_poisoned()) GTEST_SKIP() << "AddressSanitizer ends the process at such a write";
  Table t = honest();
  t.forward = [](sinktrap_instance* i, const sinktrap_forward_args* a, sinktrap_verdict* v) -> std::int32_t {
    const auto code = honest().forward(i, a, v);
    static_cast<char*>(a->out->data)[-1] = 0;
    return code;
  };
  expect_failed(t, "byte 1 before the start of out");
  t.forward = [](sinktrap_instance* i, const sinktrap_forward_args* a, sinktrap_verdict* v) -> std::int32_t {
    const auto code = honest().forward(i, a, v);
    static_cast<char*>(a->out->data)[3 * 4 * 2 + 5] = 0;
    return code;
  };
  expect_failed(t, "byte 6 past the end of out");
  t.update = [](sinktrap_instance*, const sinktrap_slot_set*, sinktrap_verdict* v) -> std::int32_t {
    *v = verdict_of(SINKTRAP_OK);
    return SINKTRAP_OK;
  };
  t.forward = [](sinktrap_instance* i, const sinktrap_forward_args* a, sinktrap_verdict* v) -> std::int32_t {
    const auto code = honest().forward(i, a, v);
    static_cast<std::int32_t*>(a->token_slot->data)[1] = 0;
    return code;
  };
  expect_failed(t, "token_slot[1] changed from -1 to 0");
}

TEST(Session, ARefusedForwardMustNotHaveWritten) {
  Table t = honest();
  t.forward = [](sinktrap_instance* i, const sinktrap_forward_args* a, sinktrap_verdict* v) -> std::int32_t {
    honest().forward(i, a, v);
    *v = verdict_of(SINKTRAP_ARGUMENT);
    return SINKTRAP_ARGUMENT;
  };
  expect_failed(t, "a refused forward wrote into its input: out[0,0] changed");
}

TEST(Session, ADerivedOperandOfAnotherShapeIsNotRead) {
  Table t = honest();
  t.derived = [](sinktrap_instance* i, const char* name, DLTensor* view,
                 sinktrap_verdict* v) -> std::int32_t {
    const auto code = honest().derived(i, name, view, v);
    static std::int64_t shape[3] = {2, 1 << 30, 1 << 30};
    view->shape = shape;
    return code;
  };
  expect_failed(t, "derived operand w1_delta has shape [2,1073741824,1073741824]");
}

TEST(Session, InternalErrorsCarryTheirText) {
  Table t = honest();
  t.last_error = []() -> const char* { return "the card is on fire"; };
  t.update = [](sinktrap_instance*, const sinktrap_slot_set*, sinktrap_verdict* v) -> std::int32_t {
    *v = verdict_of(SINKTRAP_INTERNAL);
    return SINKTRAP_INTERNAL;
  };
  expect_failed(t, "the card is on fire");
}

}  // namespace
}  // namespace sinktrap
