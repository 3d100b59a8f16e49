// The threads that stand in for a GPU's: they meet where a GPU's meet, and what would hang there is
// refused.
#include "tests/runtime/kernels/emulated_block.h"

#include <ostream>
#include <stdexcept>
#include <vector>

#include <gmock/gmock.h>

namespace lockstep::runtime {

void PrintTo(ThreadOrder order, std::ostream* out) {
  *out << (order == ThreadOrder::kRising ? "rising" : "falling");
}

namespace {

using testing::Each;

class ThreadOrderTest : public testing::TestWithParam<ThreadOrder> {
 protected:
  void SetUp() override { set_thread_order(GetParam()); }
  void TearDown() override { set_thread_order(before_); }

 private:
  ThreadOrder before_ = thread_order();
};

TEST_P(ThreadOrderTest, ABarrierIsPassedWhenAllOfTheBlockHaveComeToIt) {
  std::vector<int> come(64), seen(64);
  run_emulated_block(64, [&] {
    const auto own = static_cast<size_t>(emulated_thread_index());
    come[own] = 1;
    wait_for_emulated_block();
    for (const int one : come) seen[own] += one;
  });
  EXPECT_THAT(seen, Each(64));
}

TEST_P(ThreadOrderTest, LanesExchangeAsOftenAsTheirGroupDoes) {
  std::vector<double> sums(32);
  run_emulated_block(32, [&] {
    const int64_t own = emulated_thread_index();
    // The second group does it three times.
    for (int64_t turn = 0; turn < (own < 16 ? 1 : 3); ++turn) {
      double sum = static_cast<double>(own);
      for (const int bit : {8, 4, 2, 1}) sum += exchange_across_emulated_lanes(sum, bit);
      sums[static_cast<size_t>(own)] += sum;
    }
    wait_for_emulated_block();
  });
  EXPECT_THAT(std::vector<double>(sums.begin(), sums.begin() + 16), Each(120));
  EXPECT_THAT(std::vector<double>(sums.begin() + 16, sums.end()), Each(3 * 376));
}

TEST_P(ThreadOrderTest, ThreadsThatWaitForOneThatHasReturnedAreRefused) {
  const auto all_but_one = [] {
    if (emulated_thread_index() != 5) wait_for_emulated_block();
  };
  EXPECT_THROW(run_emulated_block(32, all_but_one), std::logic_error);
  const auto half_of_a_group = [] {
    if (emulated_thread_index() < 8) wait_for_emulated_lanes();
  };
  EXPECT_THROW(run_emulated_block(32, half_of_a_group), std::logic_error);
}

TEST_P(ThreadOrderTest, ThreadsAtTwoKindsOfBarrierAreRefused) {
  const auto parted = [] {
    if (emulated_thread_index() == 3) {
      wait_for_emulated_lanes();
    } else {
      wait_for_emulated_block();
    }
  };
  EXPECT_THROW(run_emulated_block(16, parted), std::logic_error);
}

INSTANTIATE_TEST_SUITE_P(BothOrders, ThreadOrderTest,
                         testing::Values(ThreadOrder::kRising, ThreadOrder::kFalling));

}  // namespace
}  // namespace lockstep::runtime
