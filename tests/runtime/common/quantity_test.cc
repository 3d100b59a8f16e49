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
                                                   {"+1Ki", 1024},
                                                   {"2E", 2000000000000000000}};
  for (const auto& [text, bytes] : table) EXPECT_EQ(quantity_bytes(text), bytes) << text;
}

TEST(QuantityTest, RefusesWhatIsNoAmountOfMemory) {
  for (const char* const text : {"", "Gi", "1 Gi", "-1", "1gb", "1Gib", "1e", "nan", "inf", "16Ei",
                                 "1e40", "1e3Ki", "-0", "+-1"}) {
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

TEST(QuantityTest, AddsInWhateverUnitsAreGiven) {
  EXPECT_EQ(add_quantities("1", "2"), "3");
  EXPECT_EQ(add_quantities("8", "1"), "9");
  EXPECT_EQ(add_quantities("1500m", "500m"), "2");
  EXPECT_EQ(add_quantities("1.5", "250m"), "1750m");
  EXPECT_EQ(add_quantities("1Gi", "1Mi"), "1074790400");
  EXPECT_EQ(add_quantities("0.1", "0.2"), "300m");
  EXPECT_EQ(add_quantities("1000u", "1"), "1001m");
  EXPECT_EQ(add_quantities("1n", "0"), "1m") << "rounded up";
  EXPECT_EQ(add_quantities("4096Ti", "1"), "4503599627370497");
  EXPECT_EQ(add_quantities("x", "1"), std::nullopt);
  EXPECT_EQ(add_quantities("1", "-1"), std::nullopt);
  EXPECT_EQ(add_quantities("9Pi", "9Pi"), std::nullopt) << "too large for thousandths";
}

}  // namespace
}  // namespace lockstep::common
