#include "runtime/common/quantity.h"

#include <gtest/gtest.h>

namespace lockstep::common {
namespace {

TEST(QuantityTest, ReadsWhatKubernetesReads) {
  const std::pair<const char*, int64_t> table[] = {{"0", 0},
                                                   {"128974848", 128974848},
                                                   {"129e6", 129000000},
                                                   {"129M", 129000000},
                                                   {"123Mi", 123 << 20},
                                                   {"1.5Gi", 1610612736},
                                                   {"64Gi", int64_t{64} << 30},
                                                   {"500m", 1},
                                                   {"1k", 1000},
                                                   {"9E3", 9000},
                                                   {"2E", 2000000000000000000}};
  for (const auto& [text, bytes] : table) EXPECT_EQ(quantity_bytes(text), bytes) << text;
}

TEST(QuantityTest, RefusesWhatIsNoAmountOfMemory) {
  for (const char* const text :
       {"", "Gi", "1 Gi", "-1", "1gb", "1Gib", "1e", "nan", "inf", "16Ei", "1e40"}) {
    EXPECT_EQ(quantity_bytes(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace lockstep::common
