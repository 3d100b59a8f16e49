#include "runtime/checkpoint/copy.h"

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

TEST_F(CopyTest, IsACheckpointLikeTheOriginalAndIsMadeOnce) {
  const std::string to = folder_ / "to";
  ASSERT_TRUE(copy_checkpoint(*real_disk(), source(), to, 0));
  fs::remove_all(folder_ / "from/checkpoints/step-10/rank-1.bin");
  EXPECT_TRUE(
      copy_checkpoint(*real_disk(), *CheckpointReader::open(to + "/checkpoints/step-10"), to, 0));
  expect_whole(to);
}

TEST_F(CopyTest, AFileThatCannotBeReadIsNamed) {
  const CheckpointReader reader = source();
  fs::remove(folder_ / "from/checkpoints/step-10/rank-1.bin");
  const auto copied = copy_checkpoint(*real_disk(), reader, folder_ / "to", 0);
  ASSERT_FALSE(copied);
  EXPECT_THAT(copied.error().message, HasSubstr("step-10/rank-1.bin"));
  EXPECT_FALSE(fs::exists(folder_ / "to/checkpoints/step-10"));
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
      is_copied = copy_checkpoint(disk, source(), to, 0).has_value();
      reached = disk.num_calls() > call;
    } catch (const Crash&) {
      reached = true;
    }
    EXPECT_TRUE(is_copied || reached);
    if (is_copied || fs::exists(to + "/checkpoints/step-10")) expect_whole(to);
    ASSERT_TRUE(copy_checkpoint(*real_disk(), source(), to, 1));
    expect_whole(to);
  }
  EXPECT_GT(call, 12);
}

INSTANTIATE_TEST_SUITE_P(Faults, CopyTest,
                         ::testing::Values(Fault::kFailOnce, Fault::kFailForever,
                                           Fault::kCrashBefore, Fault::kCrashAfter));

}  // namespace
}  // namespace lockstep::runtime
