#include "runtime/train/stop_signal.h"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

namespace lockstep::runtime {
namespace {

TEST(StopSignalTest, HeldItIsAWishAndReleasedItEnds) {
  block_stop_signals();
  std::atomic<int> exits = 0;
  StopSignal stop([&] { ++exits; });
  stop.hold();
  EXPECT_FALSE(stop.wished());
  kill(getpid(), SIGTERM);
  while (!stop.wished()) std::this_thread::yield();
  EXPECT_EQ(exits, 0);
  stop.release();  // the wish came before: it counts now
  EXPECT_EQ(exits, 1);
  kill(getpid(), SIGTERM);
  while (exits != 2) std::this_thread::yield();
}

TEST(StopSignalTest, ASignalThatCameBeforeItCounts) {
  block_stop_signals();
  kill(getpid(), SIGTERM);
  std::atomic<int> exits = 0;
  const StopSignal stop([&] { ++exits; });
  while (exits != 1) std::this_thread::yield();
}

TEST(StopSignalTest, EndsWithoutHoldingALock) {
  block_stop_signals();
  std::atomic<bool> knows_of_the_wish = false;
  const StopSignal* self = nullptr;
  std::atomic<bool> is_there = false;
  const StopSignal stop([&] {
    while (!is_there) std::this_thread::yield();
    knows_of_the_wish = self->wished();  // would wait for itself under the lock
  });
  self = &stop;
  is_there = true;
  kill(getpid(), SIGTERM);
  while (!knows_of_the_wish) std::this_thread::yield();
}

}  // namespace
}  // namespace lockstep::runtime
