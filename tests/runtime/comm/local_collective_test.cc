// The backends without torch: one rank, and ranks of one host over shared memory.
#include <chrono>
#include <filesystem>
#include <thread>

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

TEST(ShmCollectiveTest, SplitsIntoGroups) {
  for (const int world_size : {4, 5}) {
    const auto ranks = make_local_world(world_size, kSmallSlot);
    run_ranks(world_size,
              [&](int rank) { check_split(*ranks[static_cast<size_t>(rank)], kSmallSlot); });
  }
}

TEST(ShmCollectiveTest, NamesTheRankOfAGroupThatLeft) {
  auto ranks = make_local_world(4, kSmallSlot);
  std::vector<std::unique_ptr<Collective>> groups(4);
  run_ranks(4, [&](int rank) {
    const auto index = static_cast<size_t>(rank);
    groups[index] = ranks[index]->split(rank < 2 ? std::vector<int>{0, 1} : std::vector<int>{2, 3});
  });
  groups[3].reset();
  std::vector<std::byte> full(64);
  try {
    groups[2]->all_gather(std::span(full).first(32), full, "x")->wait();
    FAIL() << "rank 3 has left";
  } catch (const PeerLostError& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 3 has left")) << "its number in the world";
  }
  run_ranks(2, [&](int rank) {  // the other group goes on
    std::vector<std::byte> own(32);
    std::vector<std::byte> all(64);
    groups[static_cast<size_t>(rank)]->all_gather(own, all, "y")->wait();
  });
}

// What an observer was told, in order.
class Notes final : public CollectiveObserver {
 public:
  void wait_begins(std::string_view what) override { waits.emplace_back(what); }
  void wait_ended() override { ++num_ended; }
  void carried_out(const CollectiveSpan& span) override {
    EXPECT_LE(span.issued, span.began);
    EXPECT_LE(span.began, span.ended);
    carried.push_back(std::to_string(span.queue).append(" ").append(span.what));
  }
  std::vector<std::string> waits;    // of the waiting thread
  std::vector<std::string> carried;  // of one collective thread at a time; read after the waits
  size_t num_ended = 0;
};

TEST(ObservedCollectiveTest, TellsOfEveryOperationOfAllQueuesAndOfWaitsThatBlock) {
  std::vector<Notes> notes(2);
  const std::vector<CollectiveObserver*> observers = {&notes[0], &notes[1]};
  const auto ranks = make_local_world(2, kSmallSlot, kGenerousTimeout, observers);
  run_ranks(2, [&](int rank) {
    Collective& collective = *ranks[static_cast<size_t>(rank)];
    std::vector<std::byte> mine(8), all(16), turned(16);
    const PendingPtr first = collective.all_gather(mine, all, "first");
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    first->wait();
    const size_t num_waits = notes[static_cast<size_t>(rank)].waits.size();
    first->wait();
    EXPECT_EQ(notes[static_cast<size_t>(rank)].waits.size(), num_waits) << "it was done";
    collective.all_to_all(all, turned, "second", Reach::kWorld)->wait();
    const std::vector<int> members = {rank};
    collective.split(members)->all_gather(mine, mine, "alone")->wait();
    collective.all_gather({}, {}, "nothing")->wait();
  });
  for (const Notes& note : notes) {
    EXPECT_EQ(note.carried, (std::vector<std::string>{"0 first", "0 second",
                                                      "0 forming groups of ranks", "1 alone"}));
    EXPECT_EQ(note.num_ended, note.waits.size());
  }
}

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
  const std::string name = unique_segment_path();
  create_shm_segment(name, {.world_size = 3, .slot_bytes = kSmallSlot});
  const auto children = fork_ranks(3, [&](int rank) {
    const auto collective =
        make_shm_collective(std::make_unique<ShmSegment>(name, rank, 3), kGenerousTimeout);
    std::vector<std::byte> send(30000);
    std::vector<std::byte> recv(30000);
    try {
      collective->all_to_all(send, recv, "unit warm", Reach::kWorld)->wait();
      if (rank == 1) kill(getpid(), SIGKILL);
      collective->all_to_all(send, recv, "unit layer.3", Reach::kWorld)->wait();
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

TEST(ShmCollectiveTest, TellsWhereEveryRankStands) {
  auto ranks = make_local_world(2, kSmallSlot);
  run_ranks(2, [&](int rank) {
    ranks[static_cast<size_t>(rank)]->begin_step(7);
    check_all_to_all(*ranks[static_cast<size_t>(rank)], 100, 0);
  });
  std::vector<std::byte> full(64);
  const PendingPtr pending = ranks[0]->all_gather(std::span(full).first(32), full, "unit head");
  ranks[1].reset();
  std::string message;
  try {
    pending->wait();
  } catch (const PeerLostError& error) {
    message = error.what();
  }
  EXPECT_THAT(message, HasSubstr("rank 1 has left; "
                                 "rank 0 in operation 2 (all_gather of unit head, step 7); "
                                 "rank 1 past operation 1 (all_to_all of exchange check, step 7)"));
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
    EXPECT_THAT(error.what(),
                HasSubstr("all_gather of unit 5: rank 1 did not arrive within 300 ms"));
  }
  try {
    gather(1);
    FAIL() << "rank 0 gave up";
  } catch (const PeerLostError& error) {
    EXPECT_THAT(error.what(), HasSubstr("its peers gave up this rank, which came too late"));
  }
}

TEST(ShmCollectiveTest, NamesTheRankThatDiverges) {
  const auto ranks = make_local_world(3, kSmallSlot);
  run_ranks(3, [&](int rank) { check_divergence(*ranks[static_cast<size_t>(rank)], 1); });
}

TEST(ShmCollectiveTest, RefusesBuffersThatDoNotFit) {
  const auto ranks = make_local_world(2, kSmallSlot);
  std::vector<std::byte> buffer(64);
  EXPECT_THROW(ranks[0]->all_gather(buffer, buffer, "x"), std::logic_error);
  EXPECT_THROW(ranks[0]->all_to_all(std::span(buffer).first(63), std::span(buffer).first(63), "x",
                                    Reach::kWorld),
               std::logic_error);
}

TEST(ShmSegmentTest, RefusesASecondOwnerOfARankAndAnotherWorld) {
  const std::string name = unique_segment_path();
  create_shm_segment(name, {.world_size = 2});
  const ShmSegment first(name, 0, 2);
  EXPECT_THROW(ShmSegment(name, 0, 2), std::runtime_error);
  EXPECT_THROW(ShmSegment(name, 0, 3), std::runtime_error);
  EXPECT_THROW(create_shm_segment(name, {.world_size = 2}), std::system_error);
  unlink_shm_segment(name);
  EXPECT_THROW(ShmSegment(name, 1, 2), std::system_error);
  EXPECT_FALSE(std::filesystem::exists(name));
}

}  // namespace
}  // namespace lockstep::runtime
