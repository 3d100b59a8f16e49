#include "runtime/offload/checked_swap_file.h"

#include <cstring>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

using common::ErrorCode;
using common::Result;

constexpr int64_t kBlocks = 6;

// Storage that a test can reach behind the file's back.
class MemorySwapFile final : public SwapFile {
 public:
  explicit MemorySwapFile(std::vector<std::byte>& bytes) : bytes_(bytes) {}
  Result<void> read(int64_t offset_bytes, std::span<std::byte> into) override {
    std::memcpy(into.data(), bytes_.data() + offset_bytes, into.size());
    return {};
  }
  Result<void> write(int64_t offset_bytes, std::span<const std::byte> from) override {
    std::memcpy(bytes_.data() + offset_bytes, from.data(), from.size());
    return {};
  }

 private:
  std::vector<std::byte>& bytes_;
};

class CheckedSwapFileTest : public testing::Test {
 protected:
  static std::vector<std::byte> filled(int64_t blocks, int value) {
    return std::vector<std::byte>(static_cast<size_t>(blocks * kSwapBlockBytes),
                                  static_cast<std::byte>(value));
  }
  Result<void> read(int64_t block, int64_t blocks) const {
    std::vector<std::byte> into = filled(blocks, 99);
    return file_->read(block * kSwapBlockBytes, into);
  }

  std::vector<std::byte> storage_ = filled(kBlocks, 0);
  std::unique_ptr<SwapFile> file_ = check_blocks(std::make_unique<MemorySwapFile>(storage_),
                                                 "/nvme/swap", kBlocks* kSwapBlockBytes);
};

TEST_F(CheckedSwapFileTest, GivesBackWhatWasWrittenInWhateverPieces) {
  EXPECT_TRUE(read(0, kBlocks)) << "what nobody has written is zero";
  ASSERT_TRUE(file_->write(1 * kSwapBlockBytes, filled(4, 7)));
  ASSERT_TRUE(file_->write(2 * kSwapBlockBytes, filled(1, 8)));
  EXPECT_TRUE(read(0, kBlocks));
  EXPECT_TRUE(read(2, 3));
  std::vector<std::byte> into = filled(2, 99);
  ASSERT_TRUE(file_->read(2 * kSwapBlockBytes, into));
  EXPECT_EQ(into[0], std::byte{8});
  EXPECT_EQ(into[kSwapBlockBytes], std::byte{7});
}

TEST_F(CheckedSwapFileTest, EveryFlippedBitOfABlockIsFoundWithPathAndOffset) {
  ASSERT_TRUE(file_->write(0, filled(kBlocks, 5)));
  for (int64_t byte = 3 * kSwapBlockBytes; byte < 4 * kSwapBlockBytes; byte += 97) {
    std::byte& damaged = storage_[static_cast<size_t>(byte)];
    const std::byte bit{static_cast<unsigned char>(1 << byte % 8)};
    damaged ^= bit;
    const Result<void> found = read(0, kBlocks);
    ASSERT_FALSE(found) << byte;
    EXPECT_EQ(found.error().code, ErrorCode::kDataLoss);
    EXPECT_THAT(found.error().message, testing::HasSubstr("/nvme/swap is damaged at byte 12288: "));
    EXPECT_TRUE(read(4, 2)) << "damage elsewhere does not disturb";
    damaged ^= bit;
  }
  EXPECT_TRUE(read(0, kBlocks));
}

// A write that the disk forgot, or put somewhere else.
TEST_F(CheckedSwapFileTest, AnOlderOrMisplacedBlockIsFound) {
  for (int block = 0; block < kBlocks; ++block) {
    ASSERT_TRUE(file_->write(block * kSwapBlockBytes, filled(1, block + 1)));
  }
  const std::vector<std::byte> before = storage_;
  ASSERT_TRUE(file_->write(2 * kSwapBlockBytes, filled(1, 50)));
  storage_ = before;
  EXPECT_FALSE(read(2, 1));
  ASSERT_TRUE(file_->write(2 * kSwapBlockBytes, filled(1, 51)));
  std::memcpy(storage_.data() + 4 * kSwapBlockBytes, storage_.data(), kSwapBlockBytes);
  EXPECT_FALSE(read(4, 1));
  EXPECT_TRUE(read(0, 4));
}

}  // namespace
}  // namespace lockstep::runtime
