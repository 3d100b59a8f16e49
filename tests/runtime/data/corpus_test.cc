#include "runtime/data/corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/data/temp_folder.h"

namespace lockstep::runtime {
namespace {

using common::ErrorCode;
using ::testing::HasSubstr;

class CorpusTest : public ::testing::Test {
 protected:
  // Writes the texts as files 0, 1, ... below `name` and opens them.
  Corpus open(const std::string& name, const std::vector<std::string>& texts) {
    std::vector<std::string> files;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      files.push_back(folder_ / name + "/sub" + std::to_string(i) + "/" + std::to_string(i));
      write_text(files.back(), texts[i]);
    }
    auto corpus = Corpus::open(files);
    if (!corpus) throw std::runtime_error(corpus.error().message);
    return std::move(corpus).value();
  }

  TempFolder folder_;
};

TEST_F(CorpusTest, EveryRangeEqualsTheJoinedStream) {
  const std::vector<std::string> texts = {"ab", "\xFF", "", "cdef"};
  const Corpus corpus = open("a", texts);
  const std::string stream("ab\0\xFF\0cdef", 9);

  ASSERT_EQ(corpus.num_tokens(), static_cast<int64_t>(stream.size()));
  EXPECT_EQ(corpus.num_documents(), 3);
  for (std::size_t begin = 0; begin < stream.size(); ++begin) {
    for (std::size_t count = 0; begin + count <= stream.size(); ++count) {
      std::vector<int32_t> tokens(count, -1);
      std::vector<int32_t> labels(count, -1);
      ASSERT_TRUE(corpus.read(static_cast<int64_t>(begin), tokens, labels));
      for (std::size_t i = 0; i < count; ++i) {
        EXPECT_EQ(tokens[i], static_cast<unsigned char>(stream[begin + i])) << begin << " " << i;
        const std::size_t next = begin + i + 1;  // behind the last file, a separator
        EXPECT_EQ(labels[i], next < stream.size() ? static_cast<unsigned char>(stream[next]) : 0);
      }
    }
  }
}

TEST_F(CorpusTest, AFileIsADocumentThatBeginsWithItsSeparator) {
  const Corpus corpus = open("a", {"ab", "\xFF", "", "cdef"});
  std::vector<int64_t> begins;
  for (int64_t i = 0; i <= corpus.num_documents(); ++i) begins.push_back(corpus.document_begin(i));
  EXPECT_EQ(begins, (std::vector<int64_t>{0, 2, 4, 9}));
  std::vector<int64_t> documents;
  for (int64_t i = 0; i < corpus.num_tokens(); ++i) documents.push_back(document_at(corpus, i));
  EXPECT_EQ(documents, (std::vector<int64_t>{0, 0, 1, 1, 2, 2, 2, 2, 2}));
  EXPECT_EQ(*corpus.count_labels(1, 9), 8);
}

TEST_F(CorpusTest, FingerprintDependsOnContentAndNamesButNotOnWhereTheyLie) {
  const std::string base = open("a", {"text one", "text two"}).fingerprint();
  EXPECT_EQ(open("moved", {"text one", "text two"}).fingerprint(), base);
  EXPECT_NE(open("b", {"text one", "text twO"}).fingerprint(), base);
  EXPECT_NE(open("c", {"text on", "text two"}).fingerprint(), base);
  EXPECT_NE(open("d", {"text two", "text one"}).fingerprint(), base);
  EXPECT_NE(open("e", {"text one", "text two", "3"}).fingerprint(), base);
}

TEST_F(CorpusTest, MissingFileIsNamed) {
  const auto corpus = Corpus::open({folder_ / "nothing"});
  ASSERT_FALSE(corpus);
  EXPECT_EQ(corpus.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(corpus.error().message, HasSubstr(folder_ / "nothing"));
}

TEST_F(CorpusTest, NoFilesEmptyFilesAndTooManyFilesAreRefused) {
  write_text(folder_ / "empty", "");
  EXPECT_EQ(Corpus::open({}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(Corpus::open({folder_ / "empty"}).error().code, ErrorCode::kInvalidArgument);
  const auto many = Corpus::open(std::vector<std::string>(50001, folder_ / "empty"));
  EXPECT_EQ(many.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(many.error().message, HasSubstr("50001"));
}

}  // namespace
}  // namespace lockstep::runtime
