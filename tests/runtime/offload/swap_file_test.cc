#include "runtime/offload/swap_file.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/data/temp_folder.h"

namespace lockstep::runtime {
namespace {

using common::ErrorCode;
using testing::HasSubstr;

struct alignas(kSwapBlockBytes) Block {
  std::array<std::byte, kSwapBlockBytes> bytes = {};
  bool operator==(const Block&) const = default;
};

Block filled(int value) {
  Block block;
  block.bytes.fill(static_cast<std::byte>(value));
  return block;
}

TEST(SwapFileTest, GivesBackWhatWasWrittenAndLeavesNoName) {
  const TempFolder folder;
  const auto created = create_swap_file(folder.path(), 3 * kSwapBlockBytes);
  ASSERT_TRUE(created) << created.error().message;
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  for (const int i : {2, 0, 1}) {
    ASSERT_TRUE(created->file->write(i * kSwapBlockBytes, filled(i + 1).bytes));
  }
  for (const int i : {0, 1, 2}) {
    Block found;
    ASSERT_TRUE(created->file->read(i * kSwapBlockBytes, found.bytes));
    EXPECT_EQ(found, filled(i + 1)) << i;
  }
}

TEST(SwapFileTest, RefusesAFolderThatIsNotThereOrHasTooLittleSpace) {
  const TempFolder folder;
  const auto missing = create_swap_file(folder / "missing", kSwapBlockBytes);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr("missing: No such file or directory"));

  const auto huge = create_swap_file(folder.path(), int64_t{1} << 60);
  ASSERT_FALSE(huge);
  EXPECT_EQ(huge.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(huge.error().message, HasSubstr("free and this rank needs 1099511627776 MiB"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

// A file system without room for what it has promised.
TEST(SwapFileTest, AFullDiskIsAnErrorWithPathAndReason) {
  const auto full = make_swap_file(::open("/dev/full", O_RDWR | O_CLOEXEC), "/dev/full");
  const auto written = full->write(0, filled(1).bytes);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().message, "cannot write /dev/full: No space left on device");
}

TEST(SwapFileTest, AFileThatWasCutIsAnError) {
  const auto empty = make_swap_file(::open("/dev/null", O_RDWR | O_CLOEXEC), "/nvme/file");
  Block block;
  const auto found = empty->read(kSwapBlockBytes, block.bytes);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::kDataLoss);
  EXPECT_THAT(found.error().message, HasSubstr("/nvme/file ends before byte 4096"));
}

}  // namespace
}  // namespace lockstep::runtime
