#include "runtime/data/byte_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

using ::testing::ElementsAre;

TEST(ByteTokenizerTest, TokensAreUnsignedBytes) {
  EXPECT_THAT(encode_bytes("a\n\xC3\xA4"), ElementsAre(97, 10, 0xC3, 0xA4));
}

TEST(ByteTokenizerTest, ValidTextComesBackUnchanged) {
  const std::string text = "a\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80\xF4\x8F\xBF\xBF\n";
  EXPECT_EQ(decode_bytes(encode_bytes(text)), text);
}

TEST(ByteTokenizerTest, TokensBeyondBytesAreReplaced) {
  EXPECT_EQ(decode_bytes(std::vector<int32_t>{'a', 256, -1, 'b'}),
            "a\xEF\xBF\xBD\xEF\xBF\xBD"
            "b");
}

TEST(ReplaceInvalidUtf8Test, ReplacesMaximalIllFormedSequences) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(replace_invalid_utf8("\x80"), r);
  EXPECT_EQ(replace_invalid_utf8("\xC3"), r);
  EXPECT_EQ(replace_invalid_utf8("\xC3z"), r + "z");
  EXPECT_EQ(replace_invalid_utf8("\xC0\x80"), r + r);          // overlong
  EXPECT_EQ(replace_invalid_utf8("\xED\xA0\x80"), r + r + r);  // surrogate
  EXPECT_EQ(replace_invalid_utf8("\xF4\x90\x80\x80"), r + r + r + r);
  // The Unicode Standard, table 3-8.
  EXPECT_EQ(replace_invalid_utf8("\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64"),
            "a" + r + r + r + "b" + r + "c" + r + r + "d");
}

}  // namespace
}  // namespace lockstep::runtime
