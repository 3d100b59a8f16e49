#include "runtime/comm/beacon.h"

#include <functional>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep::runtime {
namespace {

std::vector<std::unique_ptr<Beacon>> make_beacons(int world_size, uint64_t token = 1) {
  std::vector<std::unique_ptr<Beacon>> beacons;
  std::vector<std::string> endpoints;
  for (int rank = 0; rank < world_size; ++rank) {
    beacons.push_back(std::make_unique<Beacon>(
        BeaconOptions{.rank = rank, .world_size = world_size, .local_address = "127.0.0.1"}));
    endpoints.push_back(beacons.back()->endpoint());
  }
  for (std::size_t rank = 0; rank < beacons.size(); ++rank) {
    beacons[rank]->start(endpoints, token);
  }
  return beacons;
}

// The limit only ends a test that would never end.
bool comes_true(const std::function<bool()>& condition) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition() && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return condition();
}

bool stands_at(const Beacon& board, int rank, uint64_t sequence) {
  const auto standing = board.read(rank);
  return standing && standing->sequence == sequence;
}

TEST(BeaconTest, ToldStandingsReachEveryRank) {
  const auto beacons = make_beacons(3);
  for (uint64_t sequence : {4, 5}) {
    beacons[1]->post(make_standing(sequence, 2, Verb::kAllToAll, 64, "unit 3"));
    for (const auto& beacon : beacons) {
      EXPECT_TRUE(comes_true([&] { return stands_at(*beacon, 1, sequence); }));
    }
  }
  EXPECT_EQ(name_of(*beacons[2]->read(1)), "all_to_all of unit 3");
  EXPECT_EQ(beacons[2]->presence(1), Presence::kThere);
}

TEST(BeaconTest, ARankThatEndsSaysGoodbye) {
  auto beacons = make_beacons(2);
  beacons[1].reset();
  EXPECT_TRUE(comes_true([&] { return beacons[0]->presence(1) == Presence::kLeft; }));
}

// Rank 2 is a process that is killed; rank 1 never says a word.
TEST(BeaconTest, OnlyWhoWasHeardCanFallSilent) {
  Beacon mine({.rank = 0, .world_size = 3, .local_address = "127.0.0.1"});
  const Beacon mute({.rank = 1, .world_size = 3, .local_address = "127.0.0.1"});
  const std::vector<std::string> endpoints = {mine.endpoint(), mute.endpoint(), mute.endpoint()};
  const pid_t child = fork();
  if (child == 0) {
    Beacon talks({.rank = 2, .world_size = 3, .local_address = "127.0.0.1"});
    talks.start(endpoints, 7);
    while (true) pause();
  }
  mine.start(endpoints, 7);
  EXPECT_TRUE(comes_true([&] { return mine.read(2).has_value(); }));
  EXPECT_EQ(mine.presence(2), Presence::kThere);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(comes_true([&] { return mine.presence(2) == Presence::kSilent; }));
  EXPECT_EQ(mine.presence(1), Presence::kThere) << "never heard proves nothing";
}

TEST(BeaconTest, TheFirstVerdictHoldsForAll) {
  const auto beacons = make_beacons(3);
  EXPECT_FALSE(beacons[0]->accuse({2, Blame::kLate}));
  EXPECT_TRUE(comes_true([&] { return beacons[1]->verdict().has_value(); }));
  const auto first = beacons[1]->accuse({0, Blame::kDead});
  ASSERT_TRUE(first);
  EXPECT_EQ(first->culprit, 2);
  EXPECT_EQ(first->blame, Blame::kLate);
}

TEST(BeaconTest, DatagramsOfAnotherJobAreNotHeard) {
  Beacon mine({.rank = 0, .world_size = 2, .local_address = "127.0.0.1"});
  Beacon peer({.rank = 1, .world_size = 2, .local_address = "127.0.0.1"});
  Beacon stranger({.rank = 1, .world_size = 2, .local_address = "127.0.0.1"});
  const std::vector<std::string> endpoints = {mine.endpoint(), peer.endpoint()};
  mine.start(endpoints, 1);
  stranger.start(endpoints, 2);
  stranger.post(make_standing(9, 1, Verb::kAllGather, 64, "other"));
  EXPECT_FALSE(stranger.accuse({0, Blame::kDead}));
  peer.start(endpoints, 1);
  peer.post(make_standing(3, 1, Verb::kAllGather, 64, "mine"));
  EXPECT_TRUE(comes_true([&] { return stands_at(mine, 1, 3); }));
  EXPECT_FALSE(mine.verdict());
}

TEST(BeaconTest, RefusesAMalformedEndpoint) {
  Beacon beacon({.rank = 0, .world_size = 1, .local_address = "127.0.0.1"});
  EXPECT_THROW(beacon.start({"nowhere"}, 1), std::runtime_error);
  EXPECT_THROW(beacon.start({"host.invalid 80"}, 1), std::runtime_error);
}

}  // namespace
}  // namespace lockstep::runtime
