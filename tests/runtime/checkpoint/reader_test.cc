#include "runtime/checkpoint/reader.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/checkpoint/test_model.h"
#include "tests/runtime/data/temp_folder.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;
using common::ErrorCode;
using ::testing::HasSubstr;

class ReaderTest : public ::testing::Test {
 protected:
  void save(int64_t step, int64_t ranks) {
    const auto published = save_test_model(*disk_, folder_.path(), step, 1, ranks, 9);
    ASSERT_TRUE(published) << published.error().message;
  }
  std::string checkpoint(int64_t step) const {
    return folder_ / ("checkpoints/step-" + std::to_string(step));
  }

  TempFolder folder_;
  std::unique_ptr<Disk> disk_ = real_disk();
};

TEST_F(ReaderTest, WhatAnyNumberOfRanksSavedAnyNumberReadsBackExactly) {
  for (int64_t saved = 1; saved <= 5; ++saved) {
    save(saved, saved);
    const auto reader = CheckpointReader::open(checkpoint(saved));
    ASSERT_TRUE(reader) << reader.error().message;
    for (int64_t ranks = 1; ranks <= 5; ++ranks) {
      const auto verified = verify_test_model(*reader, ranks);
      EXPECT_TRUE(verified) << verified.error().message;
    }
  }
}

TEST_F(ReaderTest, SlicesAcrossBlocksAndPiecesAreExact) {
  save(1, 4);
  const auto reader = CheckpointReader::open(checkpoint(1));
  const auto all = test_values(1, 0, PieceKind::kMoment1, 150'001);
  for (const int64_t begin : {0, 1, 37'499, 37'500, 65'535, 65'536, 149'999}) {
    for (const int64_t count : {0, 1, 2, 65'537}) {
      std::vector<float> slice(static_cast<std::size_t>(std::min(count, 150'001 - begin)));
      ASSERT_TRUE(reader->read_slice(0, PieceKind::kMoment1, begin, slice));
      EXPECT_TRUE(std::equal(slice.begin(), slice.end(), all.begin() + begin));
    }
  }
}

TEST_F(ReaderTest, FindsCheckpointsNewestFirstAndNothingElse) {
  EXPECT_TRUE(find_checkpoints(folder_.path())->empty());
  save(9, 1);
  save(10, 1);
  save(100, 1);
  for (const char* name :
       {"step-11", "step-x", "step-07", ".attempt-1-step-12", "damaged-step-13"}) {
    fs::create_directories(folder_ / ("checkpoints/" + std::string(name)));
  }
  write_text(folder_ / "checkpoints/step-07/manifest.json", "{}");
  write_text(folder_ / "checkpoints/damaged-step-13/manifest.json", "{}");
  const auto found = find_checkpoints(folder_.path());
  ASSERT_EQ(found->size(), 3u);
  EXPECT_EQ((*found)[0].step, 100);
  EXPECT_EQ((*found)[1].step, 10);
  EXPECT_EQ((*found)[2].step, 9);
}

TEST_F(ReaderTest, EveryFlippedByteOfAShardIsFoundWithFileAndOffset) {
  save(1, 2);
  const std::string path = checkpoint(1) + "/rank-1.bin";
  const std::string sound = read_text(path);
  const auto size = static_cast<int64_t>(sound.size());
  for (int64_t at = 0; at < size; at += size / 50) {
    std::string changed = sound;
    changed[static_cast<std::size_t>(at)] ^= 1;
    write_text(path, changed);
    const auto reader = CheckpointReader::open(checkpoint(1));
    ASSERT_TRUE(reader);
    const auto verified = verify_test_model(*reader, 3);
    ASSERT_FALSE(verified) << at;
    EXPECT_EQ(verified.error().code, ErrorCode::kDataLoss);
    EXPECT_THAT(verified.error().message, HasSubstr(path));
    EXPECT_THAT(verified.error().message, HasSubstr("at byte"));
  }
}

TEST_F(ReaderTest, DamageElsewhereDoesNotDisturbASlice) {
  save(1, 2);
  const std::string path = checkpoint(1) + "/rank-1.bin";
  std::string changed = read_text(path);
  changed.back() = static_cast<char>(changed.back() ^ 1);
  write_text(path, changed);
  const auto reader = CheckpointReader::open(checkpoint(1));
  std::vector<float> slice(75'000);
  EXPECT_TRUE(reader->read_slice(0, PieceKind::kWeights, 0, slice));
}

TEST_F(ReaderTest, ShortLongOrMissingShardIsDamageNamingTheFile) {
  save(1, 2);
  const std::string path = checkpoint(1) + "/rank-0.bin";
  const std::string sound = read_text(path);
  for (const std::string& changed :
       {sound.substr(0, sound.size() - 1), sound + "x", std::string()}) {
    write_text(path, changed);
    const auto reader = CheckpointReader::open(checkpoint(1));
    ASSERT_FALSE(reader);
    EXPECT_EQ(reader.error().code, ErrorCode::kDataLoss);
    EXPECT_THAT(reader.error().message, HasSubstr(path));
  }
  fs::remove(path);
  const auto reader = CheckpointReader::open(checkpoint(1));
  ASSERT_FALSE(reader);
  EXPECT_EQ(reader.error().code, ErrorCode::kDataLoss);
}

// A link to itself stands for all that keeps a file from being read: it is no damage, and no reason
// to pass the checkpoint over.
TEST_F(ReaderTest, WhatCannotBeReadIsNeitherDamagedNorMissing) {
  save(1, 1);
  save(2, 1);
  const std::string shard = checkpoint(2) + "/rank-0.bin";
  const auto reader = CheckpointReader::open(checkpoint(2));
  fs::remove(shard);
  fs::create_symlink("rank-0.bin", shard);
  const auto verified = verify_test_model(*reader, 1);
  EXPECT_EQ(verified.error().code, ErrorCode::kInternal);
  EXPECT_THAT(verified.error().message, HasSubstr(shard));
  EXPECT_EQ(open_newest(folder_.path()).error().code, ErrorCode::kInternal);

  fs::remove(checkpoint(2) + "/manifest.json");
  fs::create_symlink("manifest.json", checkpoint(2) + "/manifest.json");
  const auto found = find_checkpoints(folder_.path());
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message, HasSubstr("step-2/manifest.json"));
}

TEST_F(ReaderTest, AnErrorInReadingAShardIsNoDamage) {
  save(1, 1);
  const auto reader = CheckpointReader::open(checkpoint(1));
  fs::remove(checkpoint(1) + "/rank-0.bin");
  fs::create_directories(checkpoint(1) + "/rank-0.bin");  // opens, but read() fails
  EXPECT_EQ(verify_test_model(*reader, 1).error().code, ErrorCode::kInternal);
}

TEST_F(ReaderTest, ShardThatIsCutAfterOpeningIsDamage) {
  save(1, 1);
  const auto reader = CheckpointReader::open(checkpoint(1));
  fs::resize_file(checkpoint(1) + "/rank-0.bin", 100);
  EXPECT_EQ(verify_test_model(*reader, 1).error().code, ErrorCode::kDataLoss);
  fs::remove(checkpoint(1) + "/rank-0.bin");
  EXPECT_EQ(verify_test_model(*reader, 1).error().code, ErrorCode::kDataLoss);
}

TEST_F(ReaderTest, OpenNewestFallsBackToTheNextOlderSoundOneAndSaysWhy) {
  EXPECT_EQ(open_newest(folder_.path()).error().code, ErrorCode::kNotFound);
  save(10, 2);
  save(20, 2);
  save(30, 2);
  fs::resize_file(checkpoint(30) + "/manifest.json", 100);
  const auto opened = open_newest(folder_.path());
  ASSERT_TRUE(opened);
  EXPECT_EQ(opened->reader.manifest().step, 20);
  ASSERT_EQ(opened->skipped.size(), 1u);
  EXPECT_EQ(opened->skipped[0].checkpoint.step, 30);
  EXPECT_THAT(opened->skipped[0].reason.message, HasSubstr("manifest.json"));

  EXPECT_EQ(open_newest(folder_.path(), 20)->reader.manifest().step, 10);
  EXPECT_EQ(open_newest(folder_.path(), 10).error().code, ErrorCode::kNotFound);
}

TEST_F(ReaderTest, OpenNewestListsTheReasonsIfAllAreDamaged) {
  save(10, 1);
  save(20, 1);
  fs::resize_file(checkpoint(10) + "/rank-0.bin", 1);
  fs::resize_file(checkpoint(20) + "/manifest.json", 1);
  const auto opened = open_newest(folder_.path());
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::kDataLoss);
  EXPECT_THAT(opened.error().message, HasSubstr("step-10"));
  EXPECT_THAT(opened.error().message, HasSubstr("step-20"));
}

}  // namespace
}  // namespace lockstep::runtime
