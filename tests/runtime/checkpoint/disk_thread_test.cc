#include "runtime/checkpoint/disk_thread.h"

#include <future>
#include <stdexcept>

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;
using State = DiskThread::State;

void wait_until_over(const DiskThread& thread) {
  while (thread.state() == State::kBusy) std::this_thread::yield();
}

TEST(DiskThreadTest, StartReturnsWhileTheJobIsUnderWay) {
  DiskThread thread;
  EXPECT_EQ(thread.state(), State::kIdle);
  EXPECT_TRUE(thread.await()) << "there is nothing to wait for";
  std::promise<void> gate;
  thread.start([&]() -> Result<void> {
    gate.get_future().wait();
    return {};
  });
  EXPECT_EQ(thread.state(), State::kBusy);
  gate.set_value();
  EXPECT_TRUE(thread.await());
  EXPECT_EQ(thread.state(), State::kIdle);
}

TEST(DiskThreadTest, AnErrorIsReturnedOnce) {
  DiskThread thread;
  thread.start([] { return Result<void>(Error{ErrorCode::kUnavailable, "disk full", ""}); });
  wait_until_over(thread);
  EXPECT_EQ(thread.state(), State::kFailed);
  const Result<void> result = thread.await();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "disk full");
  EXPECT_TRUE(thread.await());
}

TEST(DiskThreadTest, AnExceptionIsRethrownToTheOwnerAndTheThreadGoesOn) {
  DiskThread thread;
  thread.start([]() -> Result<void> { throw std::bad_alloc(); });
  wait_until_over(thread);
  EXPECT_EQ(thread.state(), State::kFailed);
  EXPECT_THROW((void)thread.await(), std::bad_alloc);
  thread.start([] { return Result<void>(); });
  EXPECT_TRUE(thread.await());
}

TEST(DiskThreadTest, TheDestructorWaitsForAStartedJob) {
  bool is_done = false;
  {
    DiskThread thread;
    thread.start([&]() -> Result<void> {
      is_done = true;
      return {};
    });
  }
  EXPECT_TRUE(is_done);
}

}  // namespace
}  // namespace lockstep::runtime
