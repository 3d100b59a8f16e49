#include "runtime/common/exit_code.h"

#include <set>

#include <gtest/gtest.h>

namespace lockstep::common {
namespace {

TEST(ExitCodeTest, TableIsAscendingAndReasonsAreUnique) {
  std::set<std::string_view> reasons;
  int last = -1;
  for (const ExitCodeInfo& info : exit_codes()) {
    EXPECT_GT(static_cast<int>(info.code), last);
    last = static_cast<int>(info.code);
    EXPECT_TRUE(reasons.insert(info.reason).second) << info.reason;
    EXPECT_EQ(reason_of(info.code), info.reason);
  }
  EXPECT_EQ(reasons.size(), 18u);
}

TEST(ExitCodeTest, UnknownStatusHasNoEntry) {
  EXPECT_FALSE(find_exit_code(1));
  EXPECT_FALSE(find_exit_code(137));
}

TEST(ExitCodeTest, PreemptionIsRetriedFreeOfCharge) {
  const auto info = find_exit_code(85);
  ASSERT_TRUE(info);
  EXPECT_TRUE(info->retryable);
  EXPECT_FALSE(info->charged);
}

TEST(ExitCodeTest, WhatCannotBeFetchedForNowIsRetriedAndCharged) {
  const auto info = find_exit_code(69);
  ASSERT_TRUE(info);
  EXPECT_EQ(info->reason, "InputUnavailable");
  EXPECT_TRUE(info->retryable);
  EXPECT_TRUE(info->charged);
}

TEST(ExitCodeTest, UserMistakesAreNotRetried) {
  for (const ExitCode code :
       {ExitCode::kInvalidConfig, ExitCode::kInputNotFound, ExitCode::kInvalidData,
        ExitCode::kOutputFinished, ExitCode::kNoDevice}) {
    EXPECT_FALSE(find_exit_code(static_cast<int>(code))->retryable) << reason_of(code);
  }
}

TEST(TerminationMessageTest, SurvivesTheRoundTrip) {
  const TerminationMessage sent{.rank = 3,
                                .step = 121,
                                .reason = "PeerLost",
                                .message = "rank 1 went away in \"unit layer.3\"\nat once",
                                .hint = "look at rank 1"};
  const std::string line = encode(sent);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto got = decode_termination_message(line);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->rank, 3);
  EXPECT_EQ(got->step, 121);
  EXPECT_EQ(got->reason, "PeerLost");
  EXPECT_EQ(got->message, sent.message);
  EXPECT_EQ(got->hint, sent.hint);
}

TEST(TerminationMessageTest, NeverExceedsTwoKibibytesAndCutsAtCharacters) {
  for (const std::string& piece :
       {std::string("x"), std::string("\xC3\xA9"), std::string("\""), std::string("\xE2\x82\xAC"),
        std::string("\x01"), std::string("\xFF")}) {
    for (const int count : {600, 1999, 2000, 2001, 9000}) {
      TerminationMessage message{.rank = 1, .step = 2, .reason = "Internal"};
      for (int i = 0; i < count; ++i) message.message += piece;
      message.hint = "do this";
      const std::string line = encode(message);
      EXPECT_LE(line.size(), 2048u);
      const auto got = decode_termination_message(line);
      ASSERT_TRUE(got) << line;
      EXPECT_EQ(got->hint, "do this");
      if (piece != "\xFF") {
        EXPECT_EQ(line.find("\xEF\xBF\xBD"), std::string::npos) << "a character was cut in two";
      }
    }
  }
}

TEST(TerminationMessageTest, LongHintIsCutToo) {
  const TerminationMessage message{
      .reason = "Internal", .message = std::string(5000, 'm'), .hint = std::string(5000, 'h')};
  EXPECT_LE(encode(message).size(), 2048u);
}

TEST(TerminationMessageTest, ForeignTextIsNoMessage) {
  for (const char* const text : {"", "segfault", "[1,2]", "{}", R"({"rank":"x","step":1})", "7"}) {
    EXPECT_FALSE(decode_termination_message(text)) << text;
  }
}

}  // namespace
}  // namespace lockstep::common
