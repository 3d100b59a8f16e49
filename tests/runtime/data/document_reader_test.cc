#include "runtime/data/document_reader.h"

#include <cstddef>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/runtime/data/temp_folder.h"
#include "tests/support/paths.h"

namespace lockstep::runtime {
namespace {

using common::ErrorCode;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using Unit = DocumentReader::Unit;
using Documents = std::vector<std::pair<int64_t, std::string>>;  // line and text

common::Result<Documents> read_all(const std::string& path, Unit unit = Unit::kRow) {
  ASSIGN_OR_RETURN(DocumentReader opened, DocumentReader::open(path, unit));
  DocumentReader reader = std::move(opened);  // what it holds moves along
  Documents documents;
  while (true) {
    ASSIGN_OR_RETURN(const bool found, reader.next());
    if (!found) return documents;
    EXPECT_EQ(reader.place().file, path);
    documents.emplace_back(reader.place().line, reader.text());
  }
}

class DocumentReaderTest : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    write_text(folder_ / name, text);
    return folder_ / name;
  }
  Documents read(const std::string& name, const std::string& text) const {
    const auto documents = read_all(write(name, text));
    EXPECT_TRUE(documents) << documents.error().message;
    return documents ? *documents : Documents();
  }
  std::string error_of(const std::string& name, const std::string& text) const {
    const auto documents = read_all(write(name, text));
    EXPECT_FALSE(documents) << name;
    if (documents) return "";
    EXPECT_EQ(documents.error().code, ErrorCode::kInvalidArgument);
    return documents.error().message;
  }
  TempFolder folder_;
};

TEST_F(DocumentReaderTest, ATextIsTheFile) {
  EXPECT_THAT(*read_all(write("a.csv", "a,b\n1,2\n"), Unit::kFile),
              ElementsAre(Pair(0, "a,b\n1,2\n")));
  EXPECT_THAT(*read_all(write("empty", ""), Unit::kFile), IsEmpty());
}

TEST_F(DocumentReaderTest, LinesAreRowsWhateverTheirName) {
  for (const char* const name : {"a.jsonl", "a.ndjson", "a", "a.json"}) {
    EXPECT_THAT(read(name, "{}\n\n{\"a\": 1}\r\n{}"),
                ElementsAre(Pair(1, "{}"), Pair(2, ""), Pair(3, "{\"a\": 1}\r"), Pair(4, "{}")))
        << name;
  }
  EXPECT_THAT(read("a.jsonl", ""), IsEmpty());
  EXPECT_THAT(read("a.jsonl", "[1]\n"), ElementsAre(Pair(1, "[1]"))) << "the name is sure";
}

TEST_F(DocumentReaderTest, AListsItemsAreRowsAsTheyStandThere) {
  EXPECT_THAT(read("a.json", "\n[{\"b\": 1.50, \"a\": \"\\u00e4\"},\n  {\n \"x\": []}\n, 7]"),
              ElementsAre(Pair(2, "{\"b\": 1.50, \"a\": \"\\u00e4\"}"), Pair(3, "{\n \"x\": []}"),
                          Pair(5, "7")));
  EXPECT_THAT(read("empty.json", " [ ] "), IsEmpty());
  EXPECT_THAT(error_of("torn.json", "[{\"a\": 1},\n{\"a\""),
              AllOf(HasSubstr("torn.json: is not a JSON list of rows: "), HasSubstr("line 2")));
  EXPECT_THAT(error_of("more.json", "[{}]\n{}"), HasSubstr("line 2"));
}

TEST_F(DocumentReaderTest, RecordsHaveTheHeadersNames) {
  const std::string text = "\xEF\xBB\xBFtext,n\r\n\"a \"\"b\"\"\nc\",1\r\n\r\n\xC3\xA4,\r\n";
  const Documents rows = read("a.csv", text);
  EXPECT_THAT(rows, ElementsAre(Pair(2, R"({"text":"a \"b\"\nc","n":"1"})"),
                                Pair(5, "{\"text\":\"\xC3\xA4\",\"n\":\"\"}")));
  EXPECT_THAT(read("a.tsv", "a\tb\n1,5\t\"x\ty\"\n"),
              ElementsAre(Pair(2, R"({"a":"1,5","b":"x\ty"})")));
  EXPECT_THAT(read("header.csv", "a,b\n"), IsEmpty());
}

TEST_F(DocumentReaderTest, BrokenRecordsAreNamedByTheirLine) {
  EXPECT_THAT(error_of("short.csv", "a,b\n1,2\n3\n"),
              AllOf(HasSubstr("short.csv: "), HasSubstr("line: 3"), HasSubstr("1 field")));
  EXPECT_THAT(error_of("latin.csv", "a\nx\n\xE4\n"),
              AllOf(HasSubstr("line 3"), HasSubstr("utf-8")));
  EXPECT_THAT(error_of("twice.csv", "a,b,a\n1,2,3\n"), HasSubstr("has two columns \"a\""));
}

// Written by pyarrow: see testdata/make_parquet.py.
class ParquetTest : public DocumentReaderTest {
 protected:
  static std::string sample(const std::string& name) {
    return std::string(support::kSourceTree) + "/tests/runtime/data/testdata/" + name + ".parquet";
  }
};

TEST_F(ParquetTest, RowsAreWhatTheWriterMeant) {
  for (const char* const compression : {"snappy", "zstd", "gzip", "lz4", "brotli", "none"}) {
    const auto rows = read_all(sample(compression));
    ASSERT_TRUE(rows) << rows.error().message;
    const json expected = json::parse(read_text(sample("rows") + ".json"));
    ASSERT_EQ(rows->size(), expected.size()) << compression;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(rows->at(i).first, static_cast<int64_t>(i + 1));
      EXPECT_EQ(json::parse(rows->at(i).second), expected[i]) << compression << " row " << i;
    }
  }
}

TEST_F(ParquetTest, DamagedFilesAreRefusedByName) {
  const std::string whole = read_text(sample("snappy"));
  EXPECT_THAT(error_of("torn.parquet", whole.substr(0, whole.size() / 2)),
              AllOf(HasSubstr("torn.parquet: "), HasSubstr("footer")));
  EXPECT_THAT(error_of("text.parquet", "no Parquet at all"), HasSubstr("text.parquet: "));
  // Whatever byte is turned, it is an error or a row, never a crash or talk on standard error.
  ::testing::internal::CaptureStderr();
  for (std::size_t at = 4; at < whole.size(); at += 7) {
    std::string turned = whole;
    turned[at] = static_cast<char>(turned[at] ^ 0x55);
    const auto rows = read_all(write("turned.parquet", turned));
    EXPECT_THAT(rows ? "turned.parquet: " : rows.error().message, HasSubstr("turned.parquet: "));
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace lockstep::runtime
