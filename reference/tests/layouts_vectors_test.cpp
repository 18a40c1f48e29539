// The verdicts of an independent NumPy implementation on 240 layouts (corpus/vectors/layouts.jsonl).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "layouts.hpp"
#include "reference/image.hpp"
#include "reference/validate.hpp"

namespace sinktrap::reference {
namespace {

TEST(LayoutVectors, AllAgree) {
  std::ifstream file(SINKTRAP_SOURCE_DIR "/corpus/vectors/layouts.jsonl");
  ASSERT_TRUE(file.is_open());
  int lines = 0;
  for (std::string line; std::getline(file, line); ++lines) {
    const auto json = nlohmann::json::parse(line);
    test::Layout l;
    l.n = json.at("n");
    Shapes shapes{};
    bool all_4d = true;
    for (int b = 0; b < SINKTRAP_BUFFER_COUNT; ++b) {
      auto& shape = l.buffers[static_cast<std::size_t>(b)].shape;
      shape = json.at("shapes").at(std::string(buffer_name(b))).get<std::vector<std::int64_t>>();
      all_4d = all_4d && shape.size() == 4;
      if (all_4d) std::copy_n(shape.begin(), 4, shapes[static_cast<std::size_t>(b)].begin());
    }
    const Verdict strict = validate(l.view(), SINKTRAP_PROFILE_STRICT);
    EXPECT_EQ(code_name(strict.code), json.at("strict").get<std::string>()) << line;
    EXPECT_EQ(code_name(validate(l.view(), SINKTRAP_PROFILE_SGLANG).code),
              json.at("sglang").get<std::string>())
        << line;
    const ImageOf given{l.n, SINKTRAP_ANY, SINKTRAP_ANY, 2};
    EXPECT_EQ(all_4d && in_image(shapes, given), strict.code == SINKTRAP_OK) << line;
  }
  EXPECT_EQ(lines, 240);
}

}  // namespace
}  // namespace sinktrap::reference
