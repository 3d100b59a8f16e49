#include "runtime/checkpoint/copy.h"

#include <chrono>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/checkpoint/faulty_disk.h"
#include "tests/runtime/checkpoint/test_model.h"
#include "tests/runtime/data/temp_folder.h"
#include "tests/support/instrumented.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class CopyTest : public ::testing::TestWithParam<Fault> {
 protected:
  // A checkpoint of step 10 by three ranks.
  CopyTest() { EXPECT_TRUE(save_test_model(*real_disk(), folder_ / "from", 10, 1, 3, 2)); }

  CheckpointReader source() const {
    return *CheckpointReader::open(folder_ / "from/checkpoints/step-10");
  }
  // The whole copy, a buffer at a time.
  common::Result<void> copy(Disk& disk, const std::string& output, int64_t attempt) const {
    CheckpointCopy work(disk, source(), output, attempt);
    for (bool done = false; !done;) {
      ASSIGN_OR_RETURN(done, work.advance(std::chrono::milliseconds(0)));
    }
    return {};
  }
  static void expect_whole(const std::string& output) {
    const auto opened = open_newest(output);
    ASSERT_TRUE(opened) << opened.error().message;
    EXPECT_EQ(opened->reader.manifest().step, 10);
    EXPECT_TRUE(opened->skipped.empty());
    const auto verified = verify_test_model(opened->reader, 2);
    EXPECT_TRUE(verified) << verified.error().message;
  }

  TempFolder folder_;
};

TEST_F(CopyTest, IsACheckpointLikeTheOriginalWhateverTheSlices) {
  const std::string to = folder_ / "to";
  ASSERT_TRUE(copy(*real_disk(), to, 0));
  expect_whole(to);
  const std::unique_ptr<Disk> disk = real_disk();
  CheckpointCopy at_once(*disk, source(), folder_ / "other", 0);
  const auto done = at_once.advance(std::chrono::hours(1));
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_TRUE(*done);
  expect_whole(folder_ / "other");
}

// A slice of no time moves one buffer, and three shards and a manifest are four files at least.
TEST_F(CopyTest, IsThereAfterTheLastSliceOnly) {
  const std::string to = folder_ / "to";
  const std::unique_ptr<Disk> disk = real_disk();
  CheckpointCopy work(*disk, source(), to, 0);
  int num_slices = 0;
  for (bool done = false; !done; ++num_slices) {
    EXPECT_FALSE(fs::exists(to + "/checkpoints/step-10"));
    done = *work.advance(std::chrono::milliseconds(0));
  }
  EXPECT_GE(num_slices, 4);
  expect_whole(to);
}

TEST_F(CopyTest, ReplacesNothing) {
  const std::string there = folder_ / "to/checkpoints/step-10";
  fs::create_directories(there + "/mine");
  const auto copied = copy(*real_disk(), folder_ / "to", 0);
  ASSERT_FALSE(copied);
  EXPECT_EQ(copied.error().code, common::ErrorCode::kAlreadyExists);
  EXPECT_TRUE(fs::exists(there + "/mine"));
}

TEST_F(CopyTest, TellsASourceThatCannotBeReadFromAnOutputThatCannotBeWritten) {
  const CheckpointReader reader = source();
  const std::string shard = folder_ / "from/checkpoints/step-10/rank-1.bin";
  fs::rename(shard, folder_ / "shard");
  const std::unique_ptr<Disk> disk = real_disk();
  CheckpointCopy missing(*disk, reader, folder_ / "to", 0);
  const auto copied = missing.advance(std::chrono::hours(1));
  ASSERT_FALSE(copied);
  EXPECT_EQ(copied.error().code, common::ErrorCode::kNotFound);
  EXPECT_THAT(copied.error().message, HasSubstr("step-10/rank-1.bin"));
  EXPECT_TRUE(missing.is_unreadable());
  EXPECT_FALSE(fs::exists(folder_ / "to/checkpoints/step-10"));

  fs::create_directory(shard);  // opens, and cannot be read
  CheckpointCopy broken(*disk, reader, folder_ / "to", 0);
  EXPECT_FALSE(broken.advance(std::chrono::hours(1)));
  EXPECT_TRUE(broken.is_unreadable());

  fs::remove(shard);
  fs::rename(folder_ / "shard", shard);
  FaultyDisk full(Fault::kFailForever, 5);
  CheckpointCopy unwritable(full, reader, folder_ / "to", 0);
  EXPECT_FALSE(unwritable.advance(std::chrono::hours(1)));
  EXPECT_FALSE(unwritable.is_unreadable());
}

// Whatever call fails or is the last: there is no copy or a whole one, and the next attempt makes
// it.
TEST_P(CopyTest, EveryCallMayFailOrBeTheLast) {
  bool reached = true;
  int64_t call = 0;
  for (; reached; call += kSweepStride) {
    SCOPED_TRACE("call " + std::to_string(call));
    const std::string to = folder_ / ("to-" + std::to_string(call));
    reached = false;
    FaultyDisk disk(GetParam(), call);
    bool is_copied = false;
    try {
      is_copied = copy(disk, to, 0).has_value();
      reached = disk.num_calls() > call;
    } catch (const Crash&) {
      reached = true;
    }
    EXPECT_TRUE(is_copied || reached);
    const bool is_there = fs::exists(to + "/checkpoints/step-10");
    EXPECT_TRUE(is_there || !is_copied);
    if (!is_there) {
      ASSERT_TRUE(copy(*real_disk(), to, 1));
    }
    expect_whole(to);
  }
  EXPECT_GT(call, 12);
}

INSTANTIATE_TEST_SUITE_P(Faults, CopyTest,
                         ::testing::Values(Fault::kFailOnce, Fault::kFailForever,
                                           Fault::kCrashBefore, Fault::kCrashAfter));

}  // namespace
}  // namespace lockstep::runtime
