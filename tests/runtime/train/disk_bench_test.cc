#include "runtime/train/disk_bench.h"

#include <filesystem>
#include <limits>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/data/temp_folder.h"

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;
using ::testing::HasSubstr;

// The real disk, but for what a test makes of one call.
class OddDisk : public Disk {
 public:
  bool turns_a_byte = false;
  bool refuses_sync = false;

  Result<std::unique_ptr<DiskFile>> open(const std::string& path, OpenMode mode) override {
    return real_->open(path, mode);
  }
  Result<void> write_at(DiskFile& file, int64_t offset_bytes,
                        std::span<const std::byte> bytes) override {
    std::vector<std::byte> copy(bytes.begin(), bytes.end());
    if (turns_a_byte) copy.front() ^= std::byte{1};
    return real_->write_at(file, offset_bytes, copy);
  }
  Result<void> sync_file(DiskFile& file) override {
    if (refuses_sync) return Error{ErrorCode::kInternal, "no sync today", ""};
    return real_->sync_file(file);
  }
  Result<void> sync_folder(const std::string& path) override { return real_->sync_folder(path); }
  Result<void> make_folder(const std::string& path) override { return real_->make_folder(path); }
  Result<void> rename(const std::string& from, const std::string& to) override {
    return real_->rename(from, to);
  }
  Result<void> remove_tree(const std::string& path) override { return real_->remove_tree(path); }

 private:
  std::unique_ptr<Disk> real_ = real_disk();
};

class DiskBenchTest : public ::testing::Test {
 protected:
  Result<DiskFigures> run(int64_t num_bytes = 2 * kDiskBlockBytes) {
    Result<DiskFigures> figures =
        bench_disk(disk_, {.folder = folder_.path(), .num_bytes = num_bytes, .replacements = 3});
    EXPECT_TRUE(std::filesystem::is_empty(folder_.path())) << "whatever happened";
    return figures;
  }
  TempFolder folder_;
  OddDisk disk_;
};

TEST_F(DiskBenchTest, WhatIsWrittenComesBack) {
  const auto figures = run();
  ASSERT_TRUE(figures) << figures.error().message;
  EXPECT_EQ(figures->num_bytes, 2 * kDiskBlockBytes);
  EXPECT_EQ(figures->num_wrong, 0);
  EXPECT_GT(figures->write_seconds, 0);
  EXPECT_GT(figures->read_seconds, 0);
  EXPECT_GT(figures->replace_seconds, 0);
}

TEST_F(DiskBenchTest, ABlockThatComesBackOtherwiseIsCounted) {
  disk_.turns_a_byte = true;
  EXPECT_EQ(run()->num_wrong, 2) << "one in each block";
}

TEST_F(DiskBenchTest, ADiskThatRefusesIsAnErrorAndLeavesNothing) {
  disk_.refuses_sync = true;
  const auto figures = run();
  ASSERT_FALSE(figures);
  EXPECT_THAT(figures.error().message, HasSubstr("no sync today"));
}

TEST_F(DiskBenchTest, WhatDoesNotFitIsNotBegun) {
  const auto figures = run(std::numeric_limits<int64_t>::max() / 4);
  ASSERT_FALSE(figures);
  EXPECT_EQ(figures.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(figures.error().hint, HasSubstr("--size"));
}

TEST_F(DiskBenchTest, SpeedsAreDecimalMegabytes) {
  const std::string text = render_disk(
      {.num_bytes = 8'000'000, .write_seconds = 2, .read_seconds = 0.5, .replace_seconds = 0.004});
  EXPECT_THAT(text, HasSubstr(" 4.0 MB/s"));
  EXPECT_THAT(text, HasSubstr("16.0 MB/s"));
  EXPECT_THAT(text, HasSubstr("4.00 ms"));
}

}  // namespace
}  // namespace lockstep::runtime
