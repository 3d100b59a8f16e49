#include "runtime/train/side_work.h"

#include <array>
#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/comm/rank_threads.h"

namespace lockstep::runtime {
namespace {

using testing::HasSubstr;

// Waits until it is told to stop.
void await_stop(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any condition;
  std::unique_lock lock(mutex);
  condition.wait(lock, stop, [] { return false; });
}

TEST(SideWorkTest, NobodyGoesOnBeforeAllAreDone) {
  const auto world = make_local_world(3);
  std::atomic<int> num_done{0};
  run_ranks(3, [&](int rank) {
    SideWork work{.run = nullptr, .progress = {}, .got_on = {}, .what = "testing"};
    if (rank != 1) {
      work.run = [&](const std::stop_token&) {
        ++num_done;
        return std::optional<RunFailure>();
      };
    }
    work_aside(*world[static_cast<std::size_t>(rank)], work);
    EXPECT_EQ(num_done, 2);
  });
}

// Rank 1 has no work. It is told when the ranks meet first, and then of what rank 0 got on, whose
// work ends only after that.
TEST(SideWorkTest, ProgressOfOneRankIsASignOfLifeOnAll) {
  const auto world = make_local_world(2);
  std::atomic<int64_t> progress{0};
  std::array<std::promise<void>, 2> told;
  run_ranks(2, [&](int rank) {
    std::size_t times = 0;
    SideWork work{.run = nullptr, .progress = {}, .got_on = {}, .what = "testing"};
    if (rank == 0) {
      work.progress = [&] { return progress.load(); };
      work.run = [&](const std::stop_token&) {
        told[0].get_future().wait();
        progress = 7;
        told[1].get_future().wait();
        return std::optional<RunFailure>();
      };
    } else {
      work.got_on = [&] {
        if (times < told.size()) told[times].set_value();
        ++times;
      };
    }
    work_aside(*world[static_cast<std::size_t>(rank)], work);
    if (rank == 1) {
      EXPECT_EQ(times, 3U);
    }
  });
}

TEST(SideWorkTest, TheRankThatFailedIsTheCauseAndTheOthersAreStopped) {
  const auto world = make_local_world(3);
  run_ranks(3, [&](int rank) {
    const SideWork work{.run =
                            [rank](const std::stop_token& stop) {
                              if (rank != 1) await_stop(stop);
                              return std::optional(RunFailure{common::ExitCode::kInputUnavailable,
                                                              "no network", "wait"});
                            },
                        .progress = {},
                        .got_on = {},
                        .what = "testing"};
    Collective& collective = *world[static_cast<std::size_t>(rank)];
    if (rank == 1) {
      try {
        work_aside(collective, work);
        FAIL();
      } catch (const RunError& error) {
        EXPECT_EQ(error.failure().code, common::ExitCode::kInputUnavailable);
        EXPECT_EQ(error.failure().message, "no network");
      }
      return;
    }
    try {
      work_aside(collective, work);
      FAIL();
    } catch (const PeerLostError& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 1 gave up in 'testing'"));
      EXPECT_THAT(error.what(), HasSubstr("no network"));
    }
  });
}

TEST(SideWorkTest, WhatTheWorkThrowsEndsItsRank) {
  const auto world = make_local_world(1);
  const SideWork work{
      .run = [](const std::stop_token&) -> std::optional<RunFailure> { throw std::bad_alloc(); },
      .progress = {},
      .got_on = {},
      .what = "testing"};
  EXPECT_THROW(work_aside(*world.front(), work), std::bad_alloc);
}

}  // namespace
}  // namespace lockstep::runtime
