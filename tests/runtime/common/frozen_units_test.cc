#include "runtime/common/frozen_units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::common {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(FrozenUnitsTest, NamesUnitsAndRangesOfLayers) {
  EXPECT_THAT(*frozen_units({}, 2), ElementsAre(false, false, false, false));
  EXPECT_THAT(*frozen_units({"embedding"}, 2), ElementsAre(true, false, false, false));
  EXPECT_THAT(*frozen_units({"head", "layer.1"}, 2), ElementsAre(false, false, true, true));
  EXPECT_THAT(*frozen_units({"layer.0-2", "layer.2"}, 4),
              ElementsAre(false, true, true, true, false, false));
}

TEST(FrozenUnitsTest, RefusesWhatIsNoUnitOrLeavesNothingToTrain) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> table = {
      {{"norm"}, "\"norm\" names no unit"},
      {{"layer.x"}, "names no unit"},
      {{"layer.0-"}, "names no unit"},
      {{"layer.-1"}, "names no unit"},
      {{"layer.2-1"}, "\"layer.2-1\" ends before it begins"},
      {{"layer.3"}, "\"layer.3\" is beyond the last layer, 2"},
      {{"layer.0-9999"}, "is beyond the last layer, 2"},
      {{"embedding", "head", "layer.0-2"}, "leaves nothing to train"}};
  for (const auto& [entries, message] : table) {
    const auto frozen = frozen_units(entries, 3);
    ASSERT_FALSE(frozen) << message;
    EXPECT_EQ(frozen.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(frozen.error().message, HasSubstr(message));
  }
}

}  // namespace
}  // namespace lockstep::common
