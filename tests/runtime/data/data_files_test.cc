#include "runtime/data/data_files.h"

#include <chrono>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/data/byte_tokenizer.h"
#include "tests/runtime/data/temp_folder.h"

namespace lockstep::runtime {
namespace {

using common::ErrorCode;
using Format = common::DataConfig::Format;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class DataFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    write_text(folder_ / "text/a.txt", "a");
    write_text(folder_ / "text/b", "b");
    write_text(folder_ / "lines/a.jsonl", "\n{\"text\": \"a\"}\n");
    write_text(folder_ / "lines/b.ndjson", "{\"text\": \"b\"}\n");
    write_text(folder_ / "rows/a.jsonl", "{\"input_ids\": [1]}\n");
    write_text(folder_ / "maps/a.tokens", std::string("LOCKTOK\n\0", 9));
  }
  TempFolder folder_;
};

TEST_F(DataFilesTest, AutoGoesByTheNames) {
  EXPECT_EQ(find_data(folder_ / "text", Format::kAuto)->kind, SourceKind::kText);
  EXPECT_EQ(find_data(folder_ / "lines", Format::kAuto)->kind, SourceKind::kRowTexts);
  EXPECT_EQ(find_data(folder_ / "rows", Format::kAuto)->kind, SourceKind::kRowTokens);
  EXPECT_EQ(find_data(folder_ / "maps", Format::kAuto)->kind, SourceKind::kTokenFiles);
}

TEST_F(DataFilesTest, RowsMayLieInFilesOfManyKinds) {
  write_text(folder_ / "many/a.csv", "text\na\n");
  write_text(folder_ / "many/b.json", "[{\"text\": \"b\"}]");
  write_text(folder_ / "many/c.jsonl", "{\"text\": \"c\"}\n");
  write_text(folder_ / "many/d.parquet", std::string("PAR1\0", 5));
  const auto many = find_data(folder_ / "many", Format::kAuto);
  ASSERT_TRUE(many) << many.error().message;
  EXPECT_EQ(many->kind, SourceKind::kRowTexts);
  EXPECT_THAT(many->paths.files, SizeIs(4)) << "Parquet is binary, and data";
  for (const Format format : {Format::kJsonl, Format::kMessages, Format::kTokens}) {
    EXPECT_THAT(find_data(folder_ / "many", format)->paths.files, SizeIs(4));
  }
  EXPECT_EQ(find_data(folder_ / "many", Format::kTokens)->kind, SourceKind::kRowTokens);
  EXPECT_EQ(find_data(folder_ / "many", Format::kText)->paths.num_binary_skipped, 1);
}

TEST_F(DataFilesTest, JsonAndTablesAmongTextsAreTexts) {
  write_text(folder_ / "tree/a.csv", "name\na\n");
  write_text(folder_ / "tree/b.json", "{}");
  write_text(folder_ / "tree/c.py", "pass\n");
  write_text(folder_ / "tree/a.parquet", std::string("PAR1\0", 5));
  const auto tree = find_data(folder_ / "tree", Format::kAuto);
  EXPECT_EQ(tree->kind, SourceKind::kText);
  EXPECT_EQ(tree->paths.num_binary_skipped, 1) << "Parquet among texts is no text";
  write_text(folder_ / "tree/d.jsonl", "{}\n");
  const auto mixed = find_data(folder_ / "tree", Format::kAuto);
  ASSERT_FALSE(mixed);
  EXPECT_THAT(mixed.error().message, HasSubstr("d.jsonl lies among text files"));
}

TEST_F(DataFilesTest, AFormatThatIsGivenHolds) {
  EXPECT_EQ(find_data(folder_ / "lines", Format::kText)->kind, SourceKind::kText);
  EXPECT_EQ(find_data(folder_ / "text", Format::kJsonl)->kind, SourceKind::kRowTexts);
  EXPECT_EQ(find_data(folder_ / "rows", Format::kTokens)->kind, SourceKind::kRowTokens);
  EXPECT_EQ(find_data(folder_ / "maps", Format::kTokens)->kind, SourceKind::kTokenFiles);
}

TEST_F(DataFilesTest, LinesAreConversationsUnlessTheyHoldTokensOrATextAlone) {
  write_text(folder_ / "chats/a.jsonl", "\n{\"messages\": [], \"text\": \"a\"}\n");
  write_text(folder_ / "odd/a.jsonl", "{\"body\": 1}\n");
  common::DataConfig config;
  const auto kind_of = [&](const char* name) {
    return find_conversations(folder_ / name, config)->kind;
  };
  EXPECT_EQ(kind_of("chats"), SourceKind::kConversations);
  EXPECT_EQ(kind_of("odd"), SourceKind::kConversations) << "which says what is missing";
  EXPECT_EQ(kind_of("lines"), SourceKind::kRowTexts);
  EXPECT_EQ(kind_of("rows"), SourceKind::kRowTokens);
  EXPECT_EQ(kind_of("maps"), SourceKind::kTokenFiles);
  EXPECT_EQ(kind_of("text"), SourceKind::kText);
  config.conversation_columns.messages = "text";
  EXPECT_EQ(kind_of("lines"), SourceKind::kConversations) << "the column is named";
  config.format = Format::kMessages;
  EXPECT_EQ(kind_of("text"), SourceKind::kConversations);
  config.format = Format::kJsonl;
  EXPECT_EQ(kind_of("chats"), SourceKind::kRowTexts);
}

TEST_F(DataFilesTest, KindsThatMixAreRefusedByName) {
  for (const std::string pattern : {"{text,lines}", "{lines,maps}", "{maps,text}"}) {
    const auto found = find_data(folder_ / pattern, Format::kAuto);
    ASSERT_FALSE(found) << pattern;
    EXPECT_EQ(found.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(found.error().message, HasSubstr("lies among")) << pattern;
    EXPECT_THAT(found.error().hint, HasSubstr("train.data.format"));
  }
}

TEST_F(DataFilesTest, BinaryFilesAreSkippedUnlessTheyAreTheData) {
  write_text(folder_ / "text/image", std::string("\0", 1));
  EXPECT_EQ(find_data(folder_ / "text", Format::kAuto)->paths.num_binary_skipped, 1);
  write_text(folder_ / "foreign.bin", std::string("\1\0\2\0", 4));
  const auto foreign = find_data(folder_ / "foreign.bin", Format::kTokens);
  ASSERT_TRUE(foreign) << "opening it refuses it by name";
  EXPECT_THAT(foreign->paths.files, SizeIs(1));
}

TEST_F(DataFilesTest, ATokenFilesNameFollowsFilesOptionsAndTokenizer) {
  const ByteTokenizer tokenizer;
  const TokenizeOptions options{.files = {folder_ / "lines/a.jsonl"},
                                .kind = SourceKind::kRowTexts};
  const std::string name = token_file_name(options, tokenizer).value();
  EXPECT_EQ(token_file_name(options, tokenizer).value(), name);
  EXPECT_TRUE(name.ends_with(".tokens"));
  TokenizeOptions column = options;
  column.text_column = "body";
  EXPECT_NE(token_file_name(column, tokenizer).value(), name);
  // A change that keeps size and edges is seen by its time.
  const auto written = std::filesystem::last_write_time(options.files.front());
  std::filesystem::last_write_time(options.files.front(), written + std::chrono::seconds(1));
  EXPECT_NE(token_file_name(options, tokenizer).value(), name);
}

}  // namespace
}  // namespace lockstep::runtime
