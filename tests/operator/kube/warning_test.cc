#include "operator/kube/warning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::kube {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

TEST(WarningTest, ReadsCodeAgentAndText) {
  EXPECT_THAT(parse_warnings(R"(299 - "v1 Thing is deprecated")"),
              ElementsAre(Warning{299, "-", "v1 Thing is deprecated"}));
  EXPECT_THAT(parse_warnings(R"(110 proxy:80 "Response is Stale")"),
              ElementsAre(Warning{110, "proxy:80", "Response is Stale"}));
  EXPECT_THAT(parse_warnings(R"(  299  -   ""  )"), ElementsAre(Warning{299, "-", ""}));
}

TEST(WarningTest, TakesEscapesOutOfAQuotedText) {
  EXPECT_THAT(
      parse_warnings(R"(299 - "would violate PodSecurity \"restricted:latest\": C:\\tmp, \a")"),
      ElementsAre(
          Warning{299, "-", R"(would violate PodSecurity "restricted:latest": C:\tmp, a)"}));
}

TEST(WarningTest, ReadsSeveralOfOneHeaderWithTheirDates) {
  EXPECT_THAT(
      parse_warnings(
          R"(299 - "a, b" "Wed, 21 Oct 2015 07:28:00 GMT", 299 me "c" ,, 199 - "d",299 - "e")"),
      ElementsAre(Warning{299, "-", "a, b"}, Warning{299, "me", "c"}, Warning{199, "-", "d"},
                  Warning{299, "-", "e"}));
}

TEST(WarningTest, WhatIsMalformedEndsTheHeaderAndKeepsWhatCameBefore) {
  const std::string good = R"(299 - "good")";
  for (const char* bad :
       {"29 - \"x\"", "2999 - \"x\"", "2x9 - \"x\"", "299", "299 ", "299 -", "299 - ", "299 - x",
        "299 - \"x", "299 - \"x\\", "299 \"x\"", "\"x\"", "-"}) {
    EXPECT_THAT(parse_warnings(good + ", " + bad), ElementsAre(Warning{299, "-", "good"})) << bad;
    EXPECT_THAT(parse_warnings(bad), IsEmpty()) << bad;
  }
  EXPECT_THAT(parse_warnings(""), IsEmpty());
  EXPECT_THAT(parse_warnings(" , "), IsEmpty());
}

// A quote that is not escaped is a mistake of whoever warns; its text up to there is worth telling.
TEST(WarningTest, ATextIsKeptWhateverFollowsItButNothingElseIs) {
  for (const char* more : {" y", "y", " 299 - \"b\"", "\"b\"", " \"date\"y, 299 - \"b\""}) {
    EXPECT_THAT(parse_warnings(std::string("299 - \"x\"") + more),
                ElementsAre(Warning{299, "-", "x"}))
        << more;
  }
}

TEST(WarningTest, NoStartOfAHeaderIsTakenForMoreThanItHolds) {
  const std::string whole = R"(299 - "a \"b\" c" "Wed, 21 Oct 2015 07:28:00 GMT", 299 - "d")";
  for (std::size_t end = 0; end <= whole.size(); ++end) {
    for (const Warning& warning : parse_warnings(whole.substr(0, end))) {
      EXPECT_TRUE(warning.text == R"(a "b" c)" || warning.text == "d") << warning.text;
    }
  }
  EXPECT_THAT(parse_warnings(whole), SizeIs(2));
}

TEST(WarningTest, TextsAreOfAllHeadersInOrderAndEachOnce) {
  const std::vector<std::string> headers{R"(299 - "one", 299 - "two")",
                                         R"(299 - "one")",
                                         R"(110 - "of a cache")",
                                         R"(299 - "")",
                                         "nonsense",
                                         R"(299 - "three")"};
  EXPECT_THAT(warning_texts(headers), ElementsAre("one", "two", "three"));
  EXPECT_THAT(warning_texts({}), IsEmpty());
}

TEST(WarningTest, ATextThatIsTooLongIsCutAtACharacter) {
  const std::string at_limit(1024, 'x');
  EXPECT_THAT(warning_texts(std::vector<std::string>{"299 - \"" + at_limit + "\""}),
              ElementsAre(at_limit));
  std::string wide = "x";
  for (int i = 0; i < 1000; ++i) wide += "\xC3\xA4";  // two bytes each, at odd places
  const Warnings texts = warning_texts(std::vector<std::string>{"299 - \"" + wide + "\""});
  ASSERT_THAT(texts, SizeIs(1));
  EXPECT_EQ(texts[0], wide.substr(0, 1021) + "...");
}

TEST(WarningTest, BytesThatAreNoTextAreReplaced) {
  EXPECT_THAT(warning_texts(std::vector<std::string>{"299 - \"a\x1b[31mb\xFFz\""}),
              ElementsAre("a [31mb\xEF\xBF\xBDz"));
}

TEST(WarningTest, TooManyTextsAreCountedAndNotKept) {
  std::vector<std::string> headers;
  headers.reserve(20);
  for (int i = 0; i < 20; ++i) {
    headers.push_back(std::string("299 - \"w").append(std::to_string(i)).append("\""));
  }
  const Warnings texts = warning_texts(headers);
  ASSERT_THAT(texts, SizeIs(17));
  EXPECT_EQ(texts[15], "w15");
  EXPECT_EQ(texts[16], "4 more warnings");
}

}  // namespace
}  // namespace lockstep::kube
