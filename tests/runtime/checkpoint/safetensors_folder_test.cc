#include "runtime/checkpoint/safetensors_folder.h"

#include <array>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/runtime/checkpoint/test_safetensors.h"
#include "tests/runtime/data/temp_folder.h"

namespace lockstep::runtime {
namespace {

using common::ErrorCode;
using nlohmann::json;
using testing::HasSubstr;

const std::vector<float> kValues = {1, 2, 3, 4};

class SafetensorsFolderTest : public testing::Test {
 protected:
  // Two shards, of one tensor each.
  SafetensorsFolderTest() {
    write_text(folder_ / "one.safetensors", safetensors_text({{"a", floats({4}, kValues)}}));
    write_text(folder_ / "two.safetensors", safetensors_text({{"b", floats({2, 2}, kValues)}}));
    write_index({{"a", "one.safetensors"}, {"b", "two.safetensors"}});
  }

  void write_index(const json& weight_map) const {
    write_text(index_,
               json({{"metadata", {{"total_size", 32}}}, {"weight_map", weight_map}}).dump());
  }

  common::Error error() const {
    const auto opened = SafetensorsFolder::open(folder_.path());
    return opened ? common::Error{} : opened.error();
  }

  TempFolder folder_;
  std::string index_ = folder_ / "model.safetensors.index.json";
};

TEST_F(SafetensorsFolderTest, ShardsAreOneFolderOfTensors) {
  const auto opened = SafetensorsFolder::open(folder_.path());
  ASSERT_TRUE(opened) << opened.error().message;
  ASSERT_EQ(opened->tensors().size(), 2U);
  const FolderTensor& b = opened->tensors().at("b");
  EXPECT_EQ(b.file->path(), folder_ / "two.safetensors");
  std::vector<float> values(2);
  ASSERT_TRUE(b.file->read(*b.stored, 4, std::as_writable_bytes(std::span(values))));
  EXPECT_EQ(values, (std::vector<float>{2, 3}));
}

TEST_F(SafetensorsFolderTest, TheSingleFileWinsOverTheIndex) {
  write_text(folder_ / "model.safetensors", safetensors_text({{"c", floats({4}, kValues)}}));
  const auto opened = SafetensorsFolder::open(folder_.path());
  ASSERT_TRUE(opened);
  EXPECT_TRUE(opened->tensors().contains("c"));
  EXPECT_EQ(opened->tensors().size(), 1U);
}

TEST_F(SafetensorsFolderTest, AnIndexThatIsNotSoundIsRefusedByFileAndTensor) {
  struct Case {
    std::string text;
    std::string said;
  };
  const auto map = [](const json& weights) { return json({{"weight_map", weights}}).dump(); };
  for (const Case& one : std::vector<Case>{
           {"{", "JSON object"},
           {"[]", "JSON object"},
           {"{}", "weight_map"},
           {map(json::object()), "weight_map"},
           {map({"a"}), "weight_map"},
           {map({{"a", 1}}), "tensor a is in 1"},
           {map({{"a", "../one.safetensors"}}), "tensor a is in \"../one.safetensors\""},
           {map({{"a", ".."}}), "no file beside it"},
           {map({{"a", ""}}), "no file beside it"},
           {map({{"a", "one.safetensors"}, {"b", "one.safetensors"}}),
            "tensor b is in one.safetensors, which lacks it"},
           {map({{"b", "two.safetensors"}, {"a", "two.safetensors"}}),
            "tensor a is in two.safetensors, which lacks it"},
       }) {
    write_text(index_, one.text);
    EXPECT_EQ(error().code, ErrorCode::kDataLoss) << one.text;
    EXPECT_THAT(error().message, HasSubstr(index_)) << one.text;
    EXPECT_THAT(error().message, HasSubstr(one.said)) << one.text;
  }
}

TEST_F(SafetensorsFolderTest, ATensorThatTheIndexDoesNotNameIsRefused) {
  write_text(folder_ / "two.safetensors",
             safetensors_text({{"b", floats({2, 2}, kValues)}, {"extra", floats({4}, kValues)}}));
  EXPECT_EQ(error().code, ErrorCode::kDataLoss);
  EXPECT_THAT(error().message, HasSubstr("tensor extra is in two.safetensors"));
}

TEST_F(SafetensorsFolderTest, AMissingShardIsNamedWithAnIndexAndATensor) {
  write_index({{"a", "one.safetensors"}, {"b", "gone.safetensors"}});
  EXPECT_EQ(error().code, ErrorCode::kNotFound);
  EXPECT_THAT(error().message, HasSubstr("gone.safetensors"));
  EXPECT_THAT(error().message, HasSubstr(index_));
  EXPECT_THAT(error().message, HasSubstr("tensor b"));
}

TEST_F(SafetensorsFolderTest, ADirectoryWithoutWeightsSaysWhatItHolds) {
  std::filesystem::remove(index_);
  EXPECT_EQ(error().code, ErrorCode::kNotFound);
  EXPECT_THAT(error().message, HasSubstr("neither model.safetensors nor"));
  write_text(folder_ / "pytorch_model.bin", "pickle");
  EXPECT_THAT(error().hint, HasSubstr("pytorch_model.bin is not read"));
}

TEST_F(SafetensorsFolderTest, APipeIsRefusedAndNotWaitedFor) {
  ASSERT_EQ(::mkfifo((folder_ / "model.safetensors").c_str(), 0600), 0);
  EXPECT_EQ(error().code, ErrorCode::kDataLoss);
  EXPECT_THAT(error().message, HasSubstr("no regular file"));
}

TEST_F(SafetensorsFolderTest, AFileThatShrinksWhileItIsReadIsAnErrorThatNamesIt) {
  const auto opened = SafetensorsFolder::open(folder_.path());
  ASSERT_TRUE(opened);
  const std::string path = folder_ / "two.safetensors";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  const FolderTensor& b = opened->tensors().at("b");
  std::vector<float> values(4);
  const auto read = b.file->read(*b.stored, 0, std::as_writable_bytes(std::span(values)));
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kDataLoss);
  EXPECT_THAT(read.error().message, HasSubstr(path));
}

TEST_F(SafetensorsFolderTest, AFingerprintTellsFoldersApart) {
  const auto fingerprint = [this] {
    return SafetensorsFolder::open(folder_.path())->fingerprint().value();
  };
  const std::string before = fingerprint();
  EXPECT_EQ(fingerprint(), before);
  const std::vector<float> others = {1, 2, 3, 5};
  write_text(folder_ / "one.safetensors", safetensors_text({{"a", floats({4}, others)}}));
  EXPECT_NE(fingerprint(), before);
}

// More than the edges that a fingerprint looks at.
TEST_F(SafetensorsFolderTest, AStampTellsOfAChangeInTheMiddleOfAFile) {
  const std::string path = folder_ / "model.safetensors";
  std::vector<float> values(10000, 1);
  const auto write = [&](long nanoseconds) {
    write_text(path, safetensors_text({{"a", floats({10000}, values)}}));
    const timespec changed = {.tv_sec = 9, .tv_nsec = nanoseconds};
    const std::array<timespec, 2> times = {changed, changed};
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times.data(), 0), 0);
  };
  const auto opened = [this] { return SafetensorsFolder::open(folder_.path()).value(); };
  write(1);
  const std::string fingerprint = opened().fingerprint().value();
  const std::string stamp = opened().stamp().value();
  EXPECT_EQ(opened().stamp().value(), stamp);
  values[5000] = 2;
  write(2);
  EXPECT_EQ(opened().fingerprint().value(), fingerprint);
  EXPECT_NE(opened().stamp().value(), stamp);
}

}  // namespace
}  // namespace lockstep::runtime
