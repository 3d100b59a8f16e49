#include "operator/runs/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/data/temp_folder.h"

namespace lockstep::runs {
namespace {

using common::ErrorCode;
using runtime::TempFolder;
using runtime::write_text;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string file_with(const std::string& header, const std::string& data) {
  std::string text(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) text[i] = static_cast<char>(header.size() >> (8 * i) & 0xFF);
  return text + header + data;
}

std::string entry(const std::string& name, const std::string& shape, int begin, int end) {
  return "\"" + name + R"(":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":[)" +
         std::to_string(begin) + "," + std::to_string(end) + "]}";
}

TEST(WeightsTest, FindsTheTensorsThatDiffer) {
  const TempFolder folder;
  write_text(folder / "a/model.safetensors",
             file_with(R"({"__metadata__":{"x":"y"},)" + entry("same", "[1]", 0, 4) + "," +
                           entry("bits", "[1]", 4, 8) + "," + entry("form", "[1,2]", 8, 16) + "," +
                           entry("mine", "[0]", 16, 16) + "}",
                       "aaaabbbbcccccccc"));
  // The same tensors in another order and in two files.
  write_text(folder / "b/one.safetensors",
             file_with("{" + entry("bits", "[1]", 0, 4) + "," + entry("same", "[1]", 4, 8) + "}",
                       "bbbBaaaa"));
  write_text(folder / "b/two.safetensors",
             file_with("{" + entry("form", "[2,1]", 0, 8) + "," + entry("yours", "[0]", 8, 8) + "}",
                       "cccccccc"));
  const auto comparison = compare_weights(folder / "a", folder / "b");
  ASSERT_TRUE(comparison.has_value()) << comparison.error().message;
  EXPECT_EQ(comparison->num_tensors, 3);
  EXPECT_THAT(comparison->other_bits, ElementsAre("bits"));
  EXPECT_THAT(comparison->other_form, ElementsAre("form"));
  EXPECT_THAT(comparison->only_a, ElementsAre("mine"));
  EXPECT_THAT(comparison->only_b, ElementsAre("yours"));
  EXPECT_FALSE(comparison->same());
  EXPECT_TRUE(compare_weights(folder / "a", folder / "a")->same());
}

TEST(WeightsTest, FindsOneBitBehindTheFirstChunk) {
  const TempFolder folder;
  std::string data((std::size_t{1} << 20) + 4, 'x');
  const std::string header = "{" + entry("w", "[262145]", 0, static_cast<int>(data.size())) + "}";
  write_text(folder / "a/m.safetensors", file_with(header, data));
  data.back() ^= 1;
  write_text(folder / "b/m.safetensors", file_with(header, data));
  EXPECT_THAT(compare_weights(folder / "a", folder / "b")->other_bits, ElementsAre("w"));
}

TEST(WeightsTest, NamesTheFileThatIsDamaged) {
  const std::string good = file_with("{" + entry("w", "[1]", 0, 4) + "}", "aaaa");
  const struct {
    const char* name;
    std::string text;
  } cases[] = {
      {"empty", ""},
      {"shorter than its header", good.substr(0, 20)},
      {"cut", good.substr(0, good.size() - 1)},
      {"a header of any size", std::string(8, '\xff') + "{}"},
      {"no JSON", file_with("nothing", "")},
      {"no object", file_with("[]", "")},
      {"no entry", file_with(R"({"w":1})", "")},
      {"ends before it begins", file_with("{" + entry("w", "[1]", 4, 0) + "}", "aaaa")},
      {"negative", file_with("{" + entry("w", "[1]", -4, 0) + "}", "aaaa")},
  };
  const TempFolder folder;
  write_text(folder / "good/m.safetensors", good);
  for (const auto& one : cases) {
    write_text(folder / "bad/m.safetensors", one.text);
    const auto comparison = compare_weights(folder / "good", folder / "bad");
    ASSERT_FALSE(comparison.has_value()) << one.name;
    EXPECT_EQ(comparison.error().code, ErrorCode::kDataLoss) << one.name;
    EXPECT_THAT(comparison.error().message, HasSubstr("bad/m.safetensors")) << one.name;
  }
}

TEST(WeightsTest, SaysThatThereAreNone) {
  const TempFolder folder;
  EXPECT_EQ(compare_weights(folder.path(), folder / "absent").error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace lockstep::runs
