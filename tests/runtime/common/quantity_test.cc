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

TEST(QuantityTest, MultipliesExactlyAndKeepsTheUnit) {
  const struct {
    const char* text;
    int64_t factor;
    const char* expected;
  } table[] = {{"1", 8, "8"},         {"64Gi", 8, "512Gi"},
               {"500m", 8, "4000m"},  {"0.5", 8, "4"},
               {"1.5Gi", 3, "4.5Gi"}, {"0.05", 2, "0.1"},
               {".25", 2, "0.5"},     {"+2", 2, "4"},
               {"1e3", 4, "4e3"},     {"1.5E-2", 2, "3E-2"},
               {"2E", 4, "8E"},       {"0", 8, "0"},
               {"0.0", 8, "0"},       {"123456789012345678901", 64, "7901234496790123449664"}};
  for (const auto& row : table) {
    EXPECT_EQ(multiply_quantity(row.text, row.factor), row.expected) << row.text;
  }
}

TEST(QuantityTest, MultipliesNothingThatIsNoQuantity) {
  for (const char* const text : {"", "Gi", ".", "-1", "1 Gi", "1.2.3", "1gb", "1e", "1e+", "x"}) {
    EXPECT_EQ(multiply_quantity(text, 2), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace lockstep::common
