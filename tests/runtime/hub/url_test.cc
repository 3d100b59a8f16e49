#include "runtime/hub/url.h"

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

TEST(UrlTest, HasOriginAndTarget) {
  const auto read = [](const char* text) { return parse_url(text).value(); };
  EXPECT_EQ(read("https://huggingface.co").origin(), "https://huggingface.co:443");
  EXPECT_EQ(read("https://huggingface.co").target, "/");
  EXPECT_EQ(read("http://[::1]:81/a?b=c#d").origin(), "http://[::1]:81");
  EXPECT_EQ(read("http://[::1]:81/a?b=c#d").target, "/a?b=c");
  EXPECT_EQ(read("http://h?x=1").target, "/?x=1");
}

TEST(UrlTest, WhatIsNoneIsRefused) {
  for (const char* const text : {"", "huggingface.co", "ftp://h", "http://", "http://h:0",
                                 "http://h:x", "http://u@h/", "http://h/a b", "http://h:99999/"}) {
    EXPECT_FALSE(parse_url(text)) << text;
  }
}

TEST(UrlTest, LocationsAreWholeOrOfTheSameServer) {
  const Url from = parse_url("https://a.org/x/y").value();
  EXPECT_EQ(follow(from, "/z?q")->target, "/z?q");
  EXPECT_EQ(follow(from, "/z?q")->origin(), from.origin());
  EXPECT_EQ(follow(from, "http://b.org/z")->origin(), "http://b.org:80");
  EXPECT_FALSE(follow(from, "//b.org/z"));
  EXPECT_FALSE(follow(from, "z"));
  EXPECT_FALSE(follow(from, ""));
}

TEST(UrlTest, PathsKeepTheirSlashesAndPartsDoNot) {
  EXPECT_EQ(encode_path("a b/c%d.json"), "a%20b/c%25d.json");
  EXPECT_EQ(encode_part("refs/pr/1"), "refs%2Fpr%2F1");
}

}  // namespace
}  // namespace lockstep::runtime
