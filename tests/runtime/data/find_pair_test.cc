#include "runtime/data/find_pair.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/data/byte_tokenizer.h"
#include "runtime/data/token_file.h"
#include "runtime/data/tokenize.h"
#include "tests/runtime/data/temp_folder.h"
#include "tests/runtime/text/word_tokenizer.h"

namespace lockstep::runtime {
namespace {

using common::ErrorCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FindPairTest : public ::testing::Test {
 protected:
  void SetUp() override {
    write_text(folder_ / "tokenizer.json", word_tokenizer().dump());
    write_text(folder_ / "tokenizer_config.json", R"({"eos_token": "</s>"})");
    // A blank line; a row whose prompt fills the sample, so that nothing of the answers is in it.
    write_text(folder_ / "a.jsonl",
               row("a", "b", "a") + "\n" + row("a a a a a a", "b", "a") + row("b", "a", "b b"));
    write_text(folder_ / "b.jsonl", row("b b", "a", "b"));
    ConversationOptions options{.tokenizer = folder_.path(), .layout = {}, .now = {}};
    options.layout.kind = ConversationLayout::Kind::kPair;
    options.layout.asked = "prompt";
    options.layout.answered = "chosen";
    options.layout.rejected = "rejected";
    options.sample_tokens = 5;
    auto opened = ConversationTokenizer::open(options);
    ASSERT_TRUE(opened) << opened.error().message;
    conversations_.emplace(std::move(opened).value());
  }
  static std::string row(const std::string& prompt, const std::string& chosen,
                         const std::string& rejected) {
    return nlohmann::json{
               {"prompt", prompt}, {"chosen", " " + chosen}, {"rejected", " " + rejected}}
               .dump() +
           "\n";
  }
  common::Result<std::string> find(int64_t pair) const {
    return find_pair(files_, *conversations_, pair, [] { return true; });
  }

  TempFolder folder_;
  const std::vector<std::string> files_ = {folder_ / "a.jsonl", folder_ / "b.jsonl"};
  std::optional<ConversationTokenizer> conversations_;
};

TEST_F(FindPairTest, RowsThatTheTokenFileLeavesOutDoNotCount) {
  EXPECT_EQ(*find(0), files_[0] + ":1");
  EXPECT_EQ(*find(1), files_[0] + ":4");
  EXPECT_EQ(*find(2), files_[1] + ":1");
}

// The third pair by its place is the third of the token file by its tokens.
TEST_F(FindPairTest, PairsAreCountedAsATokenizationCountsThem) {
  const auto disk = real_disk();
  const ByteTokenizer texts;
  const std::string path = folder_ / "made.tokens";
  Tokenization work(
      *disk, path,
      {.files = files_, .kind = SourceKind::kConversations, .conversations = &*conversations_},
      texts);
  while (!*work.advance(std::chrono::hours(1))) {
  }
  EXPECT_EQ(work.counts().unlearned_rows, 1);
  const auto file = TokenFiles::open({path});
  ASSERT_TRUE(file);
  ASSERT_EQ(file->num_documents(), 6);
  std::vector<int32_t> tokens(
      static_cast<std::size_t>(file->document_begin(5) - file->document_begin(4)));
  std::vector<int32_t> labels(tokens.size());
  ASSERT_TRUE(file->read(file->document_begin(4), tokens, labels));
  EXPECT_THAT(tokens, ElementsAre(9, 2, 2, 1, 5));  // <s> b b a </s>
}

TEST_F(FindPairTest, OneBeyondTheLastIsNotFoundAndAStopIsObeyed) {
  const auto beyond = find(3);
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(beyond.error().message, HasSubstr("only 3 pairs"));
  int num_rows = 0;
  const auto stopped = find_pair(files_, *conversations_, 2, [&] { return ++num_rows < 3; });
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace lockstep::runtime
