// Localising faults that no mutant has: the reference's table with a forward that goes wrong in a known
// place.
#include "judge/localise.hpp"

#include <gtest/gtest.h>

#include "contract/tensor.hpp"
#include "reference/table.hpp"

namespace sinktrap {
namespace {

using Table = sinktrap_implementation_table;

ForwardCase five_tokens() {
  return std::get<ForwardCase>(std::get<Case>(
      parse_case("forward T=5 n=2 H=9 F=4 R=3 S=2 layout=shared w13=interleaved type=bf16 ranks=3,3 "
                 "slots=0,-1,1,1,-1 fill=lattice seed=3")));
}

// Adds 1 to column 2 and 3 of every row whose slot is `wanted`.
std::int32_t off_by_one(sinktrap_instance* i, const sinktrap_forward_args* a, sinktrap_verdict* v,
                        int wanted) {
  const auto code = reference::f64_table()->forward(i, a, v);
  const std::int64_t H = a->out->shape[1];
  for (std::int64_t t = 0; t < a->out->shape[0]; ++t)
    if (load_element(Element::i32, first_byte(*a->token_slot), t) == wanted)
      for (const std::int64_t h : {2, 3}) {
        void* out = first_byte(*a->out);
        // Twice the value and some, so that bf16 cannot round it away.
        store_element(Element::bf16, out, t * H + h, 2 * load_element(Element::bf16, out, t * H + h) + 1);
      }
  return code;
}

std::vector<std::string> lines_of(decltype(Table::forward) forward) {
  static Table table;
  table = *reference::f64_table();
  table.forward = forward;
  const auto found = localise(five_tokens(), *Implementation::from_table(&table, "wrong", ""));
  return found ? found->lines : std::vector<std::string>{};
}

bool contains(const std::vector<std::string>& lines, const std::string& text) {
  for (const std::string& line : lines)
    if (line.find(text) != std::string::npos) return true;
  return false;
}

TEST(Localise, NamesRowsColumnsAndStageOfAWrongStore) {
  const auto lines = lines_of([](sinktrap_instance* i, const sinktrap_forward_args* a, sinktrap_verdict* v) {
    return off_by_one(i, a, v, -1);
  });
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines[0].find("stage    store"), 0u) << lines[0];
  EXPECT_TRUE(contains(lines, "tokens   1, 4 of 5 (slots -1)")) << lines[1];
  EXPECT_TRUE(contains(lines, "columns  2..3 of 9")) << lines[2];
  EXPECT_TRUE(contains(lines, "..##....."));
}

TEST(Localise, AFaultThatNeedsASlotIsNoFaultOfTheBase) {
  const auto lines = lines_of([](sinktrap_instance* i, const sinktrap_forward_args* a, sinktrap_verdict* v) {
    return off_by_one(i, a, v, 1);
  });
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines[0].find("stage    routing"), 0u) << lines[0];
  EXPECT_TRUE(contains(lines, "tokens   2..3 of 5 (slots 1)")) << lines[1];
}

TEST(Localise, IsSilentAboutARightImplementation) {
  EXPECT_TRUE(lines_of(reference::f64_table()->forward).empty());
}

// Exchanges the slots of the first two tokens.
TEST(Localise, SaysWhoseOutputATokenHas) {
  const auto lines = lines_of([](sinktrap_instance* i, const sinktrap_forward_args* a, sinktrap_verdict* v) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(a->token_slot->shape[0]));
    for (std::size_t t = 0; t < ids.size(); ++t)
      ids[t] = static_cast<std::int32_t>(
          load_element(Element::i32, first_byte(*a->token_slot), static_cast<std::int64_t>(t)));
    if (ids.size() > 1) std::swap(ids[0], ids[1]);
    DLTensor slots = *a->token_slot;
    slots.data = ids.data();
    slots.byte_offset = 0;
    sinktrap_forward_args other = *a;
    other.token_slot = &slots;
    return reference::f64_table()->forward(i, &other, v);
  });
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines[0].find("stage    routing"), 0u) << lines[0];
  EXPECT_TRUE(contains(lines, "tokens   0..1 of 5")) << lines[1];
}

TEST(Localise, CallsWhatChangesFromCallToCallNotRepeatable) {
  const auto lines = lines_of([](sinktrap_instance* i, const sinktrap_forward_args* a, sinktrap_verdict* v) {
    static int calls = 0;
    return off_by_one(i, a, v, calls++ % 2 == 0 ? 0 : -2);
  });
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines[0].find("stage    repeatability"), 0u) << lines[0];
}

TEST(Localise, CallsWhatDependsOnTheOldOutAFaultOfMemory) {
  const auto lines = lines_of([](sinktrap_instance* i, const sinktrap_forward_args* a, sinktrap_verdict* v) {
    const double before = load_element(Element::bf16, first_byte(*a->out), 0);
    const auto code = reference::f64_table()->forward(i, a, v);
    store_element(Element::bf16, first_byte(*a->out), 0, before);
    return code;
  });
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines[0].find("stage    memory"), 0u) << lines[0];
}

TEST(Localise, WritesRangesAsAPersonDoes) {
  EXPECT_EQ(ranges_text({0, 1, 2, 3, 7, 9, 10}), "0..3, 7, 9..10");
  EXPECT_EQ(ranges_text({}), "");
}

}  // namespace
}  // namespace sinktrap
