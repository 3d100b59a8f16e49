#include "runtime/text/tokenizer_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/data/temp_folder.h"
#include "tests/runtime/text/word_tokenizer.h"

namespace lockstep::runtime {
namespace {

using common::ErrorCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class TokenizerFolderTest : public ::testing::Test {
 protected:
  void SetUp() override { write_text(folder_ / "tokenizer.json", word_tokenizer().dump()); }
  void write_config(const std::string& text) {
    write_text(folder_ / "tokenizer_config.json", text);
  }
  TokenizerFolder read() const { return read_tokenizer_folder(folder_.path()).value(); }
  common::Error error() const { return read_tokenizer_folder(folder_.path()).error(); }
  TempFolder folder_;
};

TEST_F(TokenizerFolderTest, AFolderAndItsFileAreTheSame) {
  EXPECT_EQ(open_tokenizer(read())->num_ids(), 10);
  const auto by_file = read_tokenizer_folder(folder_ / "tokenizer.json");
  ASSERT_TRUE(by_file) << by_file.error().message;
  EXPECT_EQ(by_file->folder, folder_.path());
  EXPECT_EQ(by_file->tokenizer_json, read().tokenizer_json);
}

TEST_F(TokenizerFolderTest, SpecialTokensAreTextsOrObjects) {
  write_config(R"({"eos_token": {"content": "</s>"}, "bos_token": "<s>", "unk_token": null})");
  write_text(folder_ / "special_tokens_map.json", R"({"eos_token": "old", "pad_token": "<pad>"})");
  EXPECT_THAT(
      read().special_tokens,
      ElementsAre(Pair("bos_token", "<s>"), Pair("eos_token", "</s>"), Pair("pad_token", "<pad>")));
}

TEST_F(TokenizerFolderTest, TheTemplatesFileGoesBeforeTheConfigs) {
  write_config(R"({"chat_template": "from the config"})");
  EXPECT_EQ(read().chat_template, "from the config");
  write_config(R"({"chat_template": [{"name": "tools", "template": "x"},
                                     {"name": "default", "template": "y"}]})");
  EXPECT_EQ(read().chat_template, "y");
  write_text(folder_ / "chat_template.jinja", "from the file");
  EXPECT_EQ(read().chat_template, "from the file");
}

TEST_F(TokenizerFolderTest, AMissingTemplateIsAnErrorOnceItIsAskedFor) {
  EXPECT_TRUE(open_tokenizer(read()));
  const auto opened = open_chat_template(read());
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(opened.error().message, folder_.path() + " has no chat template");
}

TEST_F(TokenizerFolderTest, ABrokenTemplateNamesItsFileAndLine) {
  write_text(folder_ / "chat_template.jinja", "\n{% endfor %}");
  EXPECT_THAT(open_chat_template(read()).error().message,
              HasSubstr(folder_ / "chat_template.jinja" + ": line 2: "));
}

TEST_F(TokenizerFolderTest, FilesThatAreNotWhatTheyShouldBeAreNamed) {
  write_config("[]");
  EXPECT_EQ(error().message, folder_ / "tokenizer_config.json" + ": is not a JSON object");
  write_config(R"({"eos_token": 2})");
  EXPECT_THAT(error().message, HasSubstr("eos_token is not a token"));
  write_config(R"({"chat_template": [{"name": "tools", "template": "x"}]})");
  EXPECT_THAT(error().message, HasSubstr("one named default"));
  std::filesystem::remove(folder_ / "tokenizer.json");
  EXPECT_EQ(error().code, ErrorCode::kNotFound);
  EXPECT_THAT(error().message, HasSubstr(folder_ / "tokenizer.json" + " is not there"));
}

}  // namespace
}  // namespace lockstep::runtime
