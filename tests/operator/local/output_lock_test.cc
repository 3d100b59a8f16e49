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

TEST(OutputLockTest, WhoOnlyLooksSeesARunAtWork) {
  std::string pattern = (std::filesystem::temp_directory_path() / "lockstep-lock-XXXXXX").string();
  const std::string output = mkdtemp(pattern.data());
  EXPECT_FALSE(is_at_work(output));
  {
    const auto run = OutputLock::take(output);
    ASSERT_TRUE(run.has_value());
    EXPECT_TRUE(is_at_work(output));
  }
  EXPECT_FALSE(is_at_work(output)) << "the file stays, the lock does not";
  std::filesystem::remove_all(output);
}

TEST(OutputLockTest, ALockIsKnownByKindDeviceAndInode) {
  const std::string locks =
      "1: FLOCK  ADVISORY  WRITE 4711 fe:01:131090 0 EOF\n"
      "2: POSIX  ADVISORY  WRITE 4712 fe:01:131091 0 EOF\n";
  EXPECT_TRUE(is_flocked(locks, "fe:01", 131090));
  EXPECT_FALSE(is_flocked(locks, "fe:02", 131090)) << "on another device";
  EXPECT_TRUE(is_flocked(locks, "", 131090)) << "of a kernel that does not tell the mount";
  EXPECT_FALSE(is_flocked(locks, "fe:01", 131091)) << "of another kind";
  EXPECT_FALSE(is_flocked(locks, "fe:01", 1090));
  EXPECT_FALSE(is_flocked("", "fe:01", 1));
}

TEST(OutputLockTest, TheDeviceIsThatOfTheMount) {
  const std::string mounts =
      "22 1 254:1 / / rw - ext4 /dev/vda1 rw\n"
      "36 22 0:31 / /data rw,noatime shared:1 - btrfs /dev/vdb rw\n";
  EXPECT_EQ(device_of_mount(mounts, 22), "fe:01");
  EXPECT_EQ(device_of_mount(mounts, 36), "00:1f");
  EXPECT_EQ(device_of_mount(mounts, 1), "");
}

TEST(OutputLockTest, FolderThatCannotBeMadeIsNamed) {
  const auto lock = OutputLock::take("/proc/no-such-folder/out");
  ASSERT_FALSE(lock.has_value());
  EXPECT_EQ(lock.error().code, common::ErrorCode::kPermissionDenied);
  EXPECT_NE(lock.error().message.find("/proc/no-such-folder/out"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::local
