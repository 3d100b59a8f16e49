#include "runtime/train/train_step.h"

#include <gtest/gtest.h>

#include "runtime/comm/single_collective.h"
#include "runtime/train/exchange.h"

namespace lockstep::runtime {
namespace {

TEST(ExchangeControlTest, PutsLossesIntoTheOrderOfTheirIndices) {
  const auto collective = make_single_collective();
  const std::vector<int64_t> micro_batches = {2, 0, 1};
  const std::vector<double> losses = {2.5, 0.5, 1.5};
  const StepControl control = exchange_control(
      *collective, {.micro_batches = micro_batches, .losses = losses, .busy_seconds = 0.25});
  EXPECT_EQ(control.micro_losses, (std::vector<double>{0.5, 1.5, 2.5}));
  EXPECT_EQ(control.busy_seconds, std::vector<double>{0.25});
  EXPECT_FALSE(control.stop);
}

TEST(ExchangeControlTest, CarriesTheWishToStopAndTheProgressOfTheSave) {
  const auto collective = make_single_collective();
  const StepControl control =
      exchange_control(*collective, {.stop_wished = true, .save = SaveProgress::kFailed});
  EXPECT_TRUE(control.stop);
  EXPECT_EQ(control.saves, std::vector<SaveProgress>{SaveProgress::kFailed});
}

TEST(ExchangeControlTest, AddsUpTheItemsThatMicroBatchesHave) {
  const auto collective = make_single_collective();
  const std::vector<int64_t> micro_batches = {0, 1};
  const std::vector<double> losses = {1, 2};
  const std::vector<int64_t> num_items = {3, 40};
  OwnControl own = {.micro_batches = micro_batches, .losses = losses};
  EXPECT_EQ(exchange_control(*collective, own).num_items, 0);
  own.num_items = num_items;
  EXPECT_EQ(exchange_control(*collective, own).num_items, 43);
}

TEST(ExchangeTest, GathersTextsOfAnyLength) {
  const auto collective = make_single_collective();
  for (const std::string& text : {std::string(), std::string("a"), std::string(1000, 'x')}) {
    EXPECT_EQ(gather_texts(*collective, text, "test"), std::vector<std::string>{text});
  }
}

TEST(ExchangeTest, AFailureOfItsOwnIsThrownAsItIs) {
  const auto collective = make_single_collective();
  agree(*collective, std::nullopt, "nothing");
  try {
    agree(*collective, RunFailure{common::ExitCode::kOutputUnwritable, "disk full", "free space"},
          "saving");
    FAIL() << "did not throw";
  } catch (const RunError& error) {
    EXPECT_EQ(error.failure().code, common::ExitCode::kOutputUnwritable);
    EXPECT_EQ(error.failure().hint, "free space");
  }
}

}  // namespace
}  // namespace lockstep::runtime
