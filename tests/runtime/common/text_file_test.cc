#include "runtime/common/text_file.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace lockstep::common {
namespace {

using testing::HasSubstr;

class TextFileTest : public testing::Test {
 protected:
  TextFileTest() { std::filesystem::create_directory(folder_); }
  ~TextFileTest() override { std::filesystem::remove_all(folder_); }

  const std::string folder_ = testing::TempDir() + "/text_file_test-" + std::to_string(getpid());
};

TEST_F(TextFileTest, ReadsAllBytesOfAFileOfAnyLength) {
  for (const size_t num_bytes : {size_t{0}, size_t{1}, size_t{65536}, size_t{200001}}) {
    std::string text(num_bytes, '\0');
    for (size_t i = 0; i < num_bytes; ++i) text[i] = static_cast<char>(i * 7);
    std::ofstream(folder_ + "/file", std::ios::binary) << text;
    EXPECT_EQ(read_text_file(folder_ + "/file").value(), text) << num_bytes;
  }
}

TEST_F(TextFileTest, WhatCannotBeReadIsNeverAnEmptyText) {
  const auto missing = read_text_file(folder_ + "/missing");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr("cannot open " + folder_ + "/missing: No such"));

  const auto directory = read_text_file(folder_);
  ASSERT_FALSE(directory);
  EXPECT_THAT(directory.error().message, HasSubstr("cannot read " + folder_ + ": Is a directory"));
}

}  // namespace
}  // namespace lockstep::common
