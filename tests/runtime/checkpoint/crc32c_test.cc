#include "runtime/checkpoint/crc32c.h"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

// Source: RFC 3720, B.4, and the check value of the CRC catalogue.
TEST(Crc32cTest, MatchesPublishedValues) {
  const std::vector<std::byte> zeros(32, std::byte{0});
  const std::vector<std::byte> ones(32, std::byte{0xff});
  const std::string_view digits = "123456789";
  const auto digit_bytes = std::as_bytes(std::span(digits.data(), digits.size()));
  for (const auto function : {&crc32c, &crc32c_portable}) {
    EXPECT_EQ(function(zeros, 0), 0x8a9136aau);
    EXPECT_EQ(function(ones, 0), 0x62a8ab43u);
    EXPECT_EQ(function(digit_bytes, 0), 0xe3069283u);
    EXPECT_EQ(function({}, 0), 0u);
  }
}

TEST(Crc32cTest, InstructionAndTableAgreeOnEveryLengthAndSplit) {
  std::vector<std::byte> bytes;
  for (int i = 0; i < 100; ++i) bytes.push_back(static_cast<std::byte>(i * 37 + 11));
  const std::span<const std::byte> all(bytes);
  for (std::size_t length = 0; length <= all.size(); ++length) {
    const uint32_t expected = crc32c_portable(all.first(length));
    EXPECT_EQ(crc32c(all.first(length)), expected);
    for (std::size_t cut = 0; cut <= length; ++cut) {
      EXPECT_EQ(crc32c(all.subspan(cut, length - cut), crc32c(all.first(cut))), expected);
    }
  }
}

TEST(Crc32cTest, HexHasEightDigits) {
  const std::string digits = "123456789";
  EXPECT_EQ(crc32c_hex(std::as_bytes(std::span(digits))), "e3069283");
  EXPECT_EQ(crc32c_hex({}), "00000000");
}

}  // namespace
}  // namespace lockstep::runtime
