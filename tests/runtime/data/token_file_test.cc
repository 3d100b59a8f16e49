#include "runtime/data/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/data/token_file_writer.h"
#include "tests/runtime/checkpoint/faulty_disk.h"
#include "tests/runtime/data/temp_folder.h"

namespace lockstep::runtime {
namespace {

using common::ErrorCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Documents = std::vector<std::vector<int32_t>>;

class TokenFileTest : public ::testing::Test {
 protected:
  common::Result<TokenFileHeader> write(Disk& disk, const Documents& documents,
                                        const TokenFileOptions& options,
                                        const Documents& labels = {}) const {
    ASSIGN_OR_RETURN(TokenFileWriter writer, TokenFileWriter::create(disk, path_, options));
    for (std::size_t i = 0; i < documents.size(); ++i) {
      RETURN_IF_ERROR(
          writer.add_tokens(documents[i], labels.empty() ? std::span<const int32_t>() : labels[i]));
      RETURN_IF_ERROR(writer.end_document());
    }
    return writer.finish();
  }
  void write(const Documents& documents, const TokenFileOptions& options = {},
             const Documents& labels = {}) const {
    const auto disk = real_disk();
    const auto written = write(*disk, documents, options, labels);
    ASSERT_TRUE(written) << written.error().message;
  }
  // Tokens and labels of a range of the stream.
  static std::pair<std::vector<int32_t>, std::vector<int32_t>> read(const TokenSource& source,
                                                                    int64_t begin, int64_t end) {
    std::vector<int32_t> tokens(static_cast<std::size_t>(end - begin), -7);
    std::vector<int32_t> labels(tokens);
    const auto done = source.read(begin, tokens, labels);
    EXPECT_TRUE(done) << done.error().message;
    return {tokens, labels};
  }
  void expect_refused(ErrorCode code, const std::string& what) const {
    const auto opened = TokenFile::open(path_);
    ASSERT_FALSE(opened) << what;
    EXPECT_EQ(opened.error().code, code) << opened.error().message;
    EXPECT_THAT(opened.error().message, HasSubstr(path_));
    EXPECT_THAT(opened.error().message, HasSubstr(what));
    EXPECT_FALSE(opened.error().hint.empty());
  }

  TempFolder folder_;
  const std::string path_ = folder_ / "data.tokens";
};

TEST_F(TokenFileTest, WhatIsWrittenIsReadInEveryWidthAndRange) {
  for (const int64_t width : {1, 2, 4}) {
    const int32_t top = width == 1 ? 255 : width == 2 ? 65535 : 2000000000;
    write({{1, 2, top}, {4}, {5, 6}}, {.token_bytes = width, .separator = -1});
    const auto files = TokenFiles::open({path_});
    ASSERT_TRUE(files) << files.error().message;
    EXPECT_EQ(files->num_tokens(), 6);
    EXPECT_EQ(files->num_documents(), 3);
    EXPECT_EQ(files->num_token_ids(), int64_t{top} + 1);
    const std::vector<int32_t> tokens = {1, 2, top, 4, 5, 6};
    const std::vector<int32_t> labels = {2, top, -1, -1, 6, -1};
    for (int64_t begin = 0; begin < 6; ++begin) {
      for (int64_t end = begin + 1; end <= 6; ++end) {
        const auto [read_tokens, read_labels] = read(*files, begin, end);
        EXPECT_EQ(read_tokens,
                  (std::vector<int32_t>(tokens.begin() + begin, tokens.begin() + end)));
        EXPECT_EQ(read_labels,
                  (std::vector<int32_t>(labels.begin() + begin, labels.begin() + end)));
        int64_t count = 0;
        for (const int32_t label : read_labels) count += label >= 0 ? 1 : 0;
        EXPECT_EQ(*files->count_labels(begin, end), count) << begin << " " << end;
      }
    }
  }
}

TEST_F(TokenFileTest, ADocumentsLastTokenPredictsTheSeparator) {
  write({{7, 8}, {0, 9}}, {.token_bytes = 1, .separator = 0});
  const auto files = TokenFiles::open({path_});
  EXPECT_THAT(read(*files, 0, 4).second, ElementsAre(8, 0, 9, 0));
  EXPECT_EQ(*files->count_labels(0, 4), 4);
}

TEST_F(TokenFileTest, LabelsOfTheirOwnAreShiftedWithinTheirDocument) {
  write({{7, 8, 9}, {1, 2}}, {.token_bytes = 2, .separator = -1, .has_labels = true},
        {{-1, 80, -1}, {10, 20}});
  const auto files = TokenFiles::open({path_});
  EXPECT_THAT(read(*files, 0, 5).second, ElementsAre(80, -1, -1, 20, -1));
  EXPECT_EQ(*files->count_labels(0, 5), 2);
  EXPECT_EQ(files->num_token_ids(), 81);  // labels count
}

TEST_F(TokenFileTest, FilesFollowOneAnother) {
  write({{1, 2}, {3}});
  const std::string second = folder_ / "second.tokens";
  std::filesystem::rename(path_, second);
  write({{4, 5, 6}});
  const auto files = TokenFiles::open({path_, second});
  ASSERT_TRUE(files);
  EXPECT_THAT(read(*files, 0, 6).first, ElementsAre(4, 5, 6, 1, 2, 3));
  EXPECT_THAT(read(*files, 0, 6).second, ElementsAre(5, 6, -1, 2, -1, -1));
  EXPECT_THAT(read(*files, 2, 5).first, ElementsAre(6, 1, 2));
  std::vector<int64_t> begins;
  for (int64_t i = 0; i <= 3; ++i) begins.push_back(files->document_begin(i));
  EXPECT_THAT(begins, ElementsAre(0, 3, 5, 6));
  EXPECT_EQ(*files->count_labels(0, 6), 3);
  EXPECT_NE(files->fingerprint(), TokenFiles::open({second, path_})->fingerprint());
  std::filesystem::remove(path_);
  write({{4, 5}}, {.separator = 0});
  EXPECT_THAT(TokenFiles::open({path_, second}).error().message, HasSubstr("another separator"));
}

TEST_F(TokenFileTest, LargeFilesAreCheckedBlockByBlockWhenRead) {
  std::vector<int32_t> document(200000);
  for (std::size_t i = 0; i < document.size(); ++i) document[i] = static_cast<int32_t>(i % 60000);
  write({document, document});
  std::string bytes = read_text(path_);
  bytes[4096 + 300000] ^= 1;  // token 150000, in the fifth block of 64 KiB
  write_text(path_, bytes);
  const auto files = TokenFiles::open({path_});
  ASSERT_TRUE(files) << "opening reads no tokens";
  EXPECT_EQ(read(*files, 0, 100000).first,
            (std::vector<int32_t>(document.begin(), document.begin() + 100000)));
  std::vector<int32_t> row(10);
  const auto damaged = files->read(150000, row, row);
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().code, ErrorCode::kDataLoss);
  EXPECT_THAT(damaged.error().message, HasSubstr(path_));
  EXPECT_THAT(damaged.error().message, HasSubstr("bytes 266240 to 331776"));
  EXPECT_EQ(files->count_labels(0, 400000).value(), 399998) << "counts without reading tokens";
}

TEST_F(TokenFileTest, ForeignTornAndDamagedFilesAreRefusedByName) {
  write_text(path_, "\1\2\3\4 some other program's tokens");
  expect_refused(ErrorCode::kInvalidArgument, "no token file");
  write_text(path_, "");
  expect_refused(ErrorCode::kInvalidArgument, "no token file");
  write({{1, 2, 3}, {4, 5}});
  const std::string sound = read_text(path_);
  for (const std::size_t size : {std::size_t{8}, std::size_t{100}, std::size_t{4095}}) {
    write_text(path_, sound.substr(0, size));
    expect_refused(ErrorCode::kDataLoss, "the header is cut");
  }
  for (std::size_t size = 4096; size < sound.size(); ++size) {
    write_text(path_, sound.substr(0, size));
    expect_refused(ErrorCode::kDataLoss, "its header says " + std::to_string(sound.size()));
  }
  std::string newer = sound;
  newer[8] = 2;
  write_text(path_, newer);
  expect_refused(ErrorCode::kInvalidArgument, "format version 2");
  std::string header = sound;
  header[16] ^= 1;
  write_text(path_, header);
  expect_refused(ErrorCode::kDataLoss, "checksum of the header");
  std::string checksums = sound;
  checksums[sound.size() - 1] ^= 1;
  write_text(path_, checksums);
  expect_refused(ErrorCode::kDataLoss, "checksum of its checksums");
  // All five tokens and the documents are in one block, which opening checks.
  std::string documents = sound;
  documents[4096 + 16 + 8] ^= 1;
  write_text(path_, documents);
  expect_refused(ErrorCode::kDataLoss, "bytes 4096 to");
}

TEST_F(TokenFileTest, AnIdThatDoesNotFitAndAFileWithoutDocumentsAreRefused) {
  const auto disk = real_disk();
  EXPECT_THAT(write(*disk, {{256}}, {.token_bytes = 1}).error().message, HasSubstr("token 256"));
  EXPECT_EQ(write(*disk, {{-1}}, {.token_bytes = 4}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(write(*disk, {{}}, {}).error().message, HasSubstr("empty corpus"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path())) << "nothing is left behind";
}

// Whatever call of the disk fails or is the process's last, the name holds the old file or the new
// one, whole.
TEST_F(TokenFileTest, AFailureOrCrashAnywhereLeavesTheOldFileOrTheNew) {
  const Documents old_tokens = {{1, 2, 3}};
  const Documents new_tokens = {{4, 5}, {6, 7, 8, 9}};
  const TokenFileOptions options{.token_bytes = 2, .separator = -1, .has_labels = true};
  FaultyDisk counting(Fault::kFailOnce, INT64_MAX);
  ASSERT_TRUE(write(counting, new_tokens, options, new_tokens));
  for (const Fault fault :
       {Fault::kFailOnce, Fault::kFailForever, Fault::kCrashBefore, Fault::kCrashAfter}) {
    for (int64_t call = 0; call < counting.num_calls(); ++call) {
      write(old_tokens, options, old_tokens);
      const std::string before = TokenFiles::open({path_})->fingerprint();
      FaultyDisk disk(fault, call);
      try {
        (void)write(disk, new_tokens, options, new_tokens);
      } catch (const Crash&) {
        disk.cut_power();
      }
      const auto files = TokenFiles::open({path_});
      ASSERT_TRUE(files) << call << ": " << files.error().message;
      const bool is_old = files->fingerprint() == before;
      EXPECT_EQ(
          read(*files, 0, files->num_tokens()).first,
          is_old ? (std::vector<int32_t>{1, 2, 3}) : (std::vector<int32_t>{4, 5, 6, 7, 8, 9}));
    }
  }
}

}  // namespace
}  // namespace lockstep::runtime
