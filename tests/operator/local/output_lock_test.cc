#include "operator/local/output_lock.h"

#include <filesystem>

#include <gtest/gtest.h>

namespace lockstep::local {
namespace {

TEST(OutputLockTest, SecondRunInAFolderIsRefusedUntilTheFirstEnds) {
  std::string pattern = (std::filesystem::temp_directory_path() / "lockstep-lock-XXXXXX").string();
  const std::string output = mkdtemp(pattern.data());
  {
    const auto first = OutputLock::take(output);
    ASSERT_TRUE(first.has_value());
    const auto second = OutputLock::take(output);
    ASSERT_FALSE(second.has_value());
    EXPECT_EQ(second.error().code, common::ErrorCode::kAlreadyExists);
    EXPECT_NE(second.error().message.find(output), std::string::npos);
  }
  EXPECT_TRUE(OutputLock::take(output).has_value());
  std::filesystem::remove_all(output);
}

TEST(OutputLockTest, FolderThatCannotBeMadeIsNamed) {
  const auto lock = OutputLock::take("/proc/no-such-folder/out");
  ASSERT_FALSE(lock.has_value());
  EXPECT_EQ(lock.error().code, common::ErrorCode::kPermissionDenied);
  EXPECT_NE(lock.error().message.find("/proc/no-such-folder/out"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::local
