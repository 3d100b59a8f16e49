#include "runtime/data/hf_text_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/data/token_file.h"
#include "runtime/data/tokenize.h"
#include "tests/runtime/data/temp_folder.h"
#include "tests/runtime/text/word_tokenizer.h"

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class HfTextTokenizerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    write_text(folder_ / "tokenizer.json", word_tokenizer().dump());
    write_config(R"({"eos_token": "</s>"})");
  }
  void write_config(const std::string& text) {
    write_text(folder_ / "tokenizer_config.json", text);
  }
  HfTextTokenizer open() const { return HfTextTokenizer::open(folder_.path()).value(); }
  static std::vector<int32_t> ids(const HfTextTokenizer& tokenizer, std::string_view text) {
    std::vector<int32_t> all;
    const auto done = tokenizer.encode(text, [&all](std::span<const int32_t> some) {
      all.insert(all.end(), some.begin(), some.end());
    });
    EXPECT_TRUE(done) << done.error().message;
    return all;
  }
  // The documents of `lines`, made into a token file.
  common::Result<TokenizeCounts> make_file(const std::string& lines) const {
    write_text(folder_ / "a.jsonl", lines);
    const HfTextTokenizer tokenizer = open();
    Tokenization work(*disk_, path_,
                      {.files = {folder_ / "a.jsonl"}, .kind = SourceKind::kRowTexts}, tokenizer);
    while (true) {
      ASSIGN_OR_RETURN(const bool done, work.advance(std::chrono::seconds(1)));
      if (done) return work.counts();
    }
  }

  TempFolder folder_;
  const std::string path_ = folder_ / "made.tokens";
  const std::unique_ptr<Disk> disk_ = real_disk();
};

TEST_F(HfTextTokenizerTest, ADocumentHasTheTokenizersOwnTokensAndOneEnd) {
  EXPECT_THAT(ids(open(), "a b"), ElementsAre(9, 1, 2, 5));
  EXPECT_THAT(ids(open(), "a </s>"), ElementsAre(9, 1, 5));
  EXPECT_THAT(ids(open(), ""), ElementsAre());
  write_config("{}");
  EXPECT_THAT(ids(open(), "a b"), ElementsAre(9, 1, 2));
}

TEST_F(HfTextTokenizerTest, DocumentsStandOneAfterAnotherWithoutSeparators) {
  const auto counts = make_file("{\"text\": \"a\"}\n{\"text\": \"\"}\n{\"text\": \"b a\"}\n");
  ASSERT_TRUE(counts) << counts.error().message;
  EXPECT_EQ(counts->empty_documents, 1);
  const TokenFiles made = TokenFiles::open({path_}).value();
  std::vector<int32_t> tokens(static_cast<std::size_t>(made.num_tokens()));
  std::vector<int32_t> labels(tokens.size());
  ASSERT_TRUE(made.read(0, tokens, labels));
  EXPECT_THAT(tokens, ElementsAre(9, 1, 5, 9, 2, 1, 5));
  EXPECT_THAT(labels, ElementsAre(1, 5, kNoLabel, 2, 1, 5, kNoLabel));
  EXPECT_EQ(made.document_begin(1), 3);
  EXPECT_THAT(TokenFile::open(path_)->header().tokenizer, StartsWith("hf:"));
}

TEST_F(HfTextTokenizerTest, ATextWithoutTokensIsNoDocument) {
  nlohmann::json silent = word_tokenizer();
  silent["post_processor"] = nullptr;
  write_text(folder_ / "tokenizer.json", silent.dump());
  write_config("{}");
  const auto counts = make_file("{\"text\": \" \"}\n{\"text\": \"a b\"}\n");
  ASSERT_TRUE(counts) << counts.error().message;
  EXPECT_EQ(counts->empty_documents, 1);
  EXPECT_EQ(TokenFiles::open({path_})->num_documents(), 1);
}

TEST_F(HfTextTokenizerTest, OtherTokensHaveAnotherName) {
  const std::string name = open().name();
  EXPECT_LE(name.size(), 40U);
  EXPECT_EQ(open().name(), name);
  write_config(R"({"eos_token": "<s>"})");
  EXPECT_NE(open().name(), name);
  write_config(R"({"eos_token": "</s>"})");
  nlohmann::json other = word_tokenizer();
  other["normalizer"] = {{"type", "Lowercase"}};
  write_text(folder_ / "tokenizer.json", other.dump());
  EXPECT_NE(open().name(), name);
}

TEST_F(HfTextTokenizerTest, AnEndThatIsNoTokenIsRefused) {
  write_config(R"({"eos_token": "<end>"})");
  const Error error = HfTextTokenizer::open(folder_.path()).error();
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("eos_token <end> is no token of tokenizer.json"));
}

TEST_F(HfTextTokenizerTest, ATextThatIsTooLargeIsRefused) {
  const std::string large(HfTextTokenizer::kMaxTextBytes + 1, 'a');
  const auto refused = open().encode(large, [](std::span<const int32_t>) {});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("the text has 67108865 bytes"));
}

TEST_F(HfTextTokenizerTest, ATextFileThatIsNotUtf8IsNamed) {
  write_text(folder_ / "a.txt", "a\xFF");
  const HfTextTokenizer tokenizer = open();
  Tokenization work(*disk_, path_, {.files = {folder_ / "a.txt"}, .kind = SourceKind::kText},
                    tokenizer);
  const auto failed = work.advance(std::chrono::seconds(1));
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message, StartsWith(folder_ / "a.txt: "));
  EXPECT_THAT(failed.error().message, HasSubstr("not UTF-8: byte 1"));
}

}  // namespace
}  // namespace lockstep::runtime
