// The backends without torch: one rank, and ranks of one host over shared memory.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/runtime/comm/collective_checks.h"
#include "tests/runtime/comm/rank_threads.h"

namespace lockstep::runtime {
namespace {

using testing::HasSubstr;

constexpr size_t kSmallSlot = 4096;

TEST(SingleCollectiveTest, CopiesAndNamesItself) {
  const auto ranks = make_local_world(1);
  EXPECT_EQ(ranks[0]->backend(), "single");
  check_backend(*ranks[0], kSmallSlot);
}

class ShmCollectiveTest : public testing::TestWithParam<int> {};

TEST_P(ShmCollectiveTest, MovesAnySizeThroughASmallSegment) {
  const auto ranks = make_local_world(GetParam(), kSmallSlot);
  EXPECT_EQ(ranks[0]->backend(), "shared-memory");
  run_ranks(GetParam(),
            [&](int rank) { check_backend(*ranks[static_cast<size_t>(rank)], kSmallSlot); });
}

// More ranks than this machine's cores is the usual case for 4 and 7.
INSTANTIATE_TEST_SUITE_P(Ranks, ShmCollectiveTest, testing::Values(1, 2, 3, 4, 7));

// Forks `world_size` ranks; returns their process ids.
std::vector<pid_t> fork_ranks(int world_size, const std::function<int(int)>& body) {
  std::vector<pid_t> children;
  for (int rank = 0; rank < world_size; ++rank) {
    const pid_t child = fork();
    if (child == 0) _exit(body(rank));
    children.push_back(child);
  }
  return children;
}

int exit_status_of(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(ShmCollectiveTest, NamesTheRankThatWasKilled) {
  const std::string name = unique_segment_name();
  create_shm_segment(name, {.world_size = 3, .slot_bytes = kSmallSlot});
  const auto children = fork_ranks(3, [&](int rank) {
    const auto collective =
        make_shm_collective(std::make_unique<ShmSegment>(name, rank, 3), kGenerousTimeout);
    std::vector<std::byte> send(30000);
    std::vector<std::byte> recv(30000);
    try {
      collective->all_to_all(send, recv, "unit warm")->wait();
      if (rank == 1) kill(getpid(), SIGKILL);
      collective->all_to_all(send, recv, "unit layer.3")->wait();
    } catch (const PeerLostError& error) {
      const std::string message = error.what();
      return message.find("rank 1") != std::string::npos &&
                     message.find("unit layer.3") != std::string::npos
                 ? 10
                 : 11;
    }
    return 12;
  });
  EXPECT_EQ(exit_status_of(children[0]), 10);
  EXPECT_EQ(exit_status_of(children[1]), -SIGKILL);
  EXPECT_EQ(exit_status_of(children[2]), 10);
  unlink_shm_segment(name);
}

TEST(ShmCollectiveTest, ReportsAPeerThatLeft) {
  auto ranks = make_local_world(2, kSmallSlot);
  ranks[1].reset();
  std::vector<std::byte> full(64);
  const PendingPtr pending = ranks[0]->all_gather(std::span(full).first(32), full, "unit head");
  try {
    pending->wait();
    FAIL() << "the peer is gone";
  } catch (const PeerLostError& error) {
    EXPECT_THAT(error.what(), HasSubstr("all_gather of unit head: rank 1 has left"));
  }
  EXPECT_THROW(ranks[0]->all_gather(std::span(full).first(32), full, "again")->wait(),
               PeerLostError);
}

TEST(ShmCollectiveTest, TimesOutOnALivePeerAndTellsTheOthers) {
  const auto ranks = make_local_world(3, kSmallSlot, std::chrono::milliseconds(300));
  std::vector<std::byte> full(96);
  const auto gather = [&](size_t rank) {
    std::vector<std::byte> own(32);
    std::vector<std::byte> all(96);
    ranks[rank]->all_gather(own, all, "unit 5")->wait();
  };
  try {
    gather(0);  // ranks 1 and 2 are alive but do not come
    FAIL() << "nobody came";
  } catch (const CollectiveTimeoutError& error) {
    EXPECT_THAT(error.what(), HasSubstr("unit 5"));
    EXPECT_THAT(error.what(), HasSubstr("did not arrive within 300 ms"));
  }
  try {
    gather(1);
    FAIL() << "rank 0 gave up";
  } catch (const PeerLostError& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 0 gave up"));
  }
}

TEST(ShmCollectiveTest, RefusesRanksThatAreOutOfStep) {
  const auto ranks = make_local_world(2, kSmallSlot);
  std::atomic<int> failures{0};
  run_ranks(2, [&](int rank) {
    std::vector<std::byte> send(rank == 0 ? 32 : 64);
    std::vector<std::byte> recv(send.size());
    try {
      ranks[static_cast<size_t>(rank)]->all_to_all(send, recv, "x")->wait();
    } catch (const std::runtime_error&) {
      ++failures;
    }
  });
  EXPECT_GE(failures.load(), 1);
}

TEST(ShmCollectiveTest, RefusesBuffersThatDoNotFit) {
  const auto ranks = make_local_world(2, kSmallSlot);
  std::vector<std::byte> buffer(64);
  EXPECT_THROW(ranks[0]->all_gather(buffer, buffer, "x"), std::logic_error);
  EXPECT_THROW(ranks[0]->all_to_all(std::span(buffer).first(63), std::span(buffer).first(63), "x"),
               std::logic_error);
}

TEST(ShmSegmentTest, RefusesASecondOwnerOfARankAndAnotherWorld) {
  const std::string name = unique_segment_name();
  create_shm_segment(name, {.world_size = 2});
  const ShmSegment first(name, 0, 2);
  EXPECT_THROW(ShmSegment(name, 0, 2), std::runtime_error);
  EXPECT_THROW(ShmSegment(name, 0, 3), std::runtime_error);
  EXPECT_THROW(create_shm_segment(name, {.world_size = 2}), std::system_error);
  unlink_shm_segment(name);
  EXPECT_THROW(ShmSegment(name, 1, 2), std::system_error);
  EXPECT_FALSE(std::filesystem::exists("/dev/shm/" + name));
}

}  // namespace
}  // namespace lockstep::runtime
