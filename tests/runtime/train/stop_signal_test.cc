#include "runtime/train/stop_signal.h"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

namespace lockstep::runtime {
namespace {

TEST(StopSignalTest, HeldItIsAWishAndReleasedItEnds) {
  std::atomic<int> exits = 0;
  StopSignal stop([&] { ++exits; });
  EXPECT_FALSE(stop.wished());
  kill(getpid(), SIGTERM);
  while (!stop.wished()) std::this_thread::yield();
  EXPECT_EQ(exits, 0);
  stop.release();  // the wish came before: it counts now
  EXPECT_EQ(exits, 1);
  kill(getpid(), SIGTERM);
  while (exits != 2) std::this_thread::yield();
}

}  // namespace
}  // namespace lockstep::runtime
