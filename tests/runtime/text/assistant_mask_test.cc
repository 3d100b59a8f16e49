#include "runtime/text/assistant_mask.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

using ::testing::ElementsAre;

Encoding encoding_of(std::vector<TextSpan> offsets) {
  return {.ids = std::vector<int32_t>(offsets.size()), .offsets = std::move(offsets)};
}

std::vector<bool> mask(const Encoding& encoding, const std::vector<TextSpan>& generated) {
  return assistant_mask(encoding, generated);
}

TEST(AssistantMaskTest, MarksTokensThatStandForSomeOfASpan) {
  const Encoding encoding = encoding_of({{0, 2}, {2, 5}, {5, 6}, {6, 9}});
  EXPECT_THAT(mask(encoding, {{2, 6}}), ElementsAre(false, true, true, false));
  EXPECT_THAT(mask(encoding, {{4, 7}}), ElementsAre(false, true, true, true));
  EXPECT_THAT(mask(encoding, {{0, 1}, {6, 9}}), ElementsAre(true, false, false, true));
}

TEST(AssistantMaskTest, ASpanWithoutTextOrTokensMarksNothing) {
  const Encoding encoding = encoding_of({{0, 2}, {3, 5}});
  EXPECT_THAT(mask(encoding, {{1, 1}}), ElementsAre(false, false));
  EXPECT_THAT(mask(encoding, {{2, 3}, {3, 4}}), ElementsAre(false, true));
  EXPECT_THAT(mask(encoding, {}), ElementsAre(false, false));
}

TEST(AssistantMaskTest, TokensWithoutTextBelongToTheSpanAroundThem) {
  const Encoding encoding = encoding_of({{0, 0}, {0, 2}, {2, 2}, {2, 4}, {4, 4}});
  EXPECT_THAT(mask(encoding, {{0, 4}}), ElementsAre(false, true, true, true, false));
}

}  // namespace
}  // namespace lockstep::runtime
