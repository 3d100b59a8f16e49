#include "runtime/data/tokenize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/data/byte_tokenizer.h"
#include "runtime/data/corpus.h"
#include "runtime/data/token_file.h"
#include "tests/runtime/data/temp_folder.h"

namespace lockstep::runtime {
namespace {

using common::ErrorCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TokenizeTest : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    write_text(folder_ / name, text);
    return folder_ / name;
  }
  // Works in slices of nothing: one document a call.
  common::Result<TokenizeCounts> run(const TokenizeOptions& options) {
    Tokenization work(*disk_, path_, options, tokenizer_);
    num_slices_ = 0;
    while (true) {
      ++num_slices_;
      ASSIGN_OR_RETURN(const bool done, work.advance(std::chrono::milliseconds(0)));
      if (done) return work.counts();
    }
  }
  struct Stream {
    std::vector<int32_t> tokens, labels;
    std::vector<int64_t> begins;
  };
  static Stream read(const TokenSource& source) {
    Stream stream;
    stream.tokens.resize(static_cast<std::size_t>(source.num_tokens()));
    stream.labels.resize(stream.tokens.size());
    EXPECT_TRUE(source.read(0, stream.tokens, stream.labels));
    for (int64_t i = 0; i <= source.num_documents(); ++i) {
      stream.begins.push_back(source.document_begin(i));
    }
    return stream;
  }
  Stream result() const { return read(TokenFiles::open({path_}).value()); }

  TempFolder folder_;
  const std::string path_ = folder_ / "out/data.tokens";
  const std::unique_ptr<Disk> disk_ = real_disk();
  const ByteTokenizer tokenizer_;
  int num_slices_ = 0;
};

TEST_F(TokenizeTest, TextFilesJsonLinesAndMappedFilesAreTheSameStream) {
  const std::vector<std::string> files = {write("a.txt", "ab\n"), write("b.txt", "\xC3\xA4"),
                                          write("c.txt", std::string(200000, 'x'))};
  const Stream mapped = read(Corpus::open(files).value());
  ASSERT_TRUE(run({.files = files, .kind = SourceKind::kText}));
  const Stream of_text = result();
  EXPECT_EQ(of_text.tokens, mapped.tokens);
  EXPECT_EQ(of_text.labels, mapped.labels);
  EXPECT_EQ(of_text.begins, mapped.begins);

  const std::string lines =
      "{\"text\": \"ab\\n\"}\n\n{\"text\": \"\"}\r\n{\"text\": \"\\u00e4\"}\n{\"text\": \"" +
      std::string(200000, 'x') + "\"}";  // no newline at the end
  const auto counts = run({.files = {write("d.jsonl", lines)}, .kind = SourceKind::kRowTexts});
  ASSERT_TRUE(counts) << counts.error().message;
  EXPECT_EQ(counts->rows, 5);
  EXPECT_EQ(counts->empty_documents, 2);
  EXPECT_EQ(num_slices_, 6) << "every line, and the end";
  const Stream of_lines = result();
  EXPECT_EQ(of_lines.tokens, mapped.tokens);
  EXPECT_EQ(of_lines.labels, mapped.labels);
  EXPECT_EQ(of_lines.begins, mapped.begins);
  EXPECT_EQ(TokenFile::open(path_)->header().token_bytes, 1);
  EXPECT_EQ(TokenFile::open(path_)->header().tokenizer, "bytes");
}

TEST_F(TokenizeTest, RowsKeepTheirTokensAndLabels) {
  const std::string rows =
      "{\"input_ids\": [5, 6, 7], \"labels\": [-100, 6, 7]}\n{\"input_ids\": []}\n"
      "{\"input_ids\": [8, 9], \"labels\": [8, -100]}\n";
  const auto counts = run(
      {.files = {write("r.jsonl", rows)}, .kind = SourceKind::kRowTokens, .num_token_ids = 50000});
  ASSERT_TRUE(counts) << counts.error().message;
  EXPECT_EQ(counts->empty_documents, 1);
  EXPECT_THAT(result().tokens, ElementsAre(5, 6, 7, 8, 9));
  EXPECT_THAT(result().labels, ElementsAre(6, 7, -1, -1, -1));
  EXPECT_THAT(result().begins, ElementsAre(0, 3, 5));
  EXPECT_EQ(TokenFile::open(path_)->header().token_bytes, 2);
}

TEST_F(TokenizeTest, AWrongLineEndsTheWorkAndLeavesNothing) {
  const std::string good = write("a.jsonl", "{\"text\": \"a\"}\n");
  const std::string bad = write("b.jsonl", "{\"text\": \"b\"}\n\n{\"txet\": \"c\"}\n");
  const auto failed = run({.files = {good, bad}, .kind = SourceKind::kRowTexts});
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(failed.error().message, HasSubstr(bad + ":3: has no field \"text\""));
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "out"));
}

TEST_F(TokenizeTest, RowsThatDisagreeAboutLabelsAreRefused) {
  const std::string rows = "{\"input_ids\": [5]}\n{\"input_ids\": [8], \"labels\": [8]}\n";
  const auto failed = run({.files = {write("r.jsonl", rows)}, .kind = SourceKind::kRowTokens});
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message, HasSubstr("r.jsonl:2: has labels"));
}

TEST_F(TokenizeTest, NoDocumentsAreAnEmptyCorpus) {
  const auto failed = run({.files = {write("r.jsonl", "\n \n")}, .kind = SourceKind::kRowTexts});
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(failed.error().message, HasSubstr("empty corpus"));
}

}  // namespace
}  // namespace lockstep::runtime
