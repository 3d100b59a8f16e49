#include "runtime/comm/grouped_board.h"

#include <array>
#include <chrono>
#include <functional>
#include <thread>

#include <gtest/gtest.h>

#include "tests/runtime/comm/rank_threads.h"

namespace lockstep::runtime {
namespace {

// The limit only ends a test that would never end.
bool comes_true(const std::function<bool()>& condition) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition() && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return condition();
}

// Ranks 0 and 1 share a host. Rank 2 is of another, and its datagrams reach rank 0 only.
class GroupedBoardTest : public testing::Test {
 protected:
  void SetUp() override {
    create_shm_segment(path_, {.world_size = 2, .slot_bytes = 4096});
    std::array<std::unique_ptr<Beacon>, 3> beacons;
    std::vector<std::string> endpoints;
    for (int rank = 0; rank < 3; ++rank) {
      auto& beacon = beacons.at(static_cast<std::size_t>(rank));
      beacon = std::make_unique<Beacon>(
          BeaconOptions{.rank = rank, .world_size = 3, .local_address = "127.0.0.1"});
      endpoints.push_back(beacon->endpoint());
    }
    beacons[0]->start(endpoints, 7);
    beacons[1]->start(endpoints, 8);  // another world's token: it hears nobody
    beacons[2]->start(endpoints, 7);
    heard_ = beacons[0].get();
    other_host_ = std::move(beacons[2]);
    for (int rank = 0; rank < 2; ++rank) {
      boards_.push_back(
          std::make_unique<GroupedBoard>(std::make_shared<ShmSegment>(path_, rank, 2),
                                         std::move(beacons.at(static_cast<std::size_t>(rank)))));
    }
    EXPECT_FALSE(other_host_->accuse({2, Blame::kDiverged}));
    EXPECT_TRUE(comes_true([this] { return heard_->verdict().has_value(); }));
  }
  ~GroupedBoardTest() override { unlink_shm_segment(path_); }

  static void expect_that_of_the_other_host(const std::optional<Verdict>& verdict) {
    ASSERT_TRUE(verdict);
    EXPECT_EQ(verdict->culprit, 2);
    EXPECT_EQ(verdict->blame, Blame::kDiverged);
  }

  const std::string path_ = unique_segment_path();
  std::unique_ptr<Beacon> other_host_;
  Beacon* heard_ = nullptr;  // of rank 0; its board has it
  std::vector<std::unique_ptr<GroupedBoard>> boards_;
};

TEST_F(GroupedBoardTest, WhoAccusesAfterAnotherHostTellsItsOwnHostThatVerdict) {
  expect_that_of_the_other_host(boards_[0]->accuse({1, Blame::kLate}));
  expect_that_of_the_other_host(boards_[1]->verdict());
  expect_that_of_the_other_host(boards_[1]->accuse({0, Blame::kDead}));
}

TEST_F(GroupedBoardTest, WhatOneRankOfAHostGoesByHoldsForAllOfIt) {
  expect_that_of_the_other_host(boards_[0]->verdict());
  expect_that_of_the_other_host(boards_[1]->accuse({0, Blame::kDead}));
}

}  // namespace
}  // namespace lockstep::runtime
