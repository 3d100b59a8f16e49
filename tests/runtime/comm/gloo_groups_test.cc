// Groups of one rank over Gloo work beside each other: each has a thread of its own.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "runtime/comm/beacon.h"
#include "runtime/comm/gloo_collective.h"
#include "runtime/comm/tcp_endpoint.h"
#include "runtime/common/loopback_port.h"
#include "tests/runtime/comm/rank_threads.h"

namespace lockstep::runtime {
namespace {

constexpr int kNumGroups = 2;
constexpr int kNumRounds = 200;

// A store, and a board of one rank.
class GlooGroupsTest : public testing::Test {
 protected:
  // Of this rank alone: who else is in a group does not matter here.
  std::unique_ptr<Transport> make_group(const std::string& name) const {
    return load_gloo().make_transport(
        KeyStore(server_, client_, name + "/"),
        {.local_address = "127.0.0.1", .timeout = kGenerousTimeout},
        {.board = std::make_shared<Beacon>(
             BeaconOptions{.rank = 0, .world_size = 1, .local_address = "127.0.0.1"})});
  }

 private:
  common::LoopbackPort port_;
  std::shared_ptr<KeyServer> server_ =
      std::make_shared<KeyServer>(listen_as_master("127.0.0.1", port_.number()).fd);
  std::shared_ptr<KeyClient> client_ = std::make_shared<KeyClient>(
      dial_listener("127.0.0.1", port_.number(), KeyClient::Deadline::max()).value().fd);
};

// Note [One issue at a time] in gloo_collective.cc: without it this dies of SIGSEGV.
TEST_F(GlooGroupsTest, FirstOperationsOfTwoGroupsMeet) {
  const auto limit = std::chrono::steady_clock::now() + kGenerousTimeout;
  std::atomic<int> num_ready{0};
  run_ranks(kNumGroups, [&](int i) {
    for (int round = 0; round < kNumRounds; ++round) {
      const auto group = make_group(std::to_string(round) + "-" + std::to_string(i));
      const auto sent = static_cast<std::byte>(round + i);
      std::byte received{};
      ++num_ready;
      while (num_ready < kNumGroups * (round + 1) && std::chrono::steady_clock::now() < limit) {
        std::this_thread::yield();
      }
      group->all_gather({&sent, 1}, {&received, 1},
                        make_standing(1, 0, Verb::kAllGather, 1, "first operation"));
      EXPECT_EQ(received, sent);
    }
  });
  EXPECT_EQ(num_ready, kNumGroups * kNumRounds);
}

}  // namespace
}  // namespace lockstep::runtime
