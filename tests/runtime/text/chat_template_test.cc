#include "runtime/text/chat_template.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::chrono::system_clock::time_point kNow{std::chrono::seconds(1'700'000'000)};

Rendering render(std::string_view source, const ordered_json& variables = ordered_json::object()) {
  auto opened = ChatTemplate::open(source, "chat.jinja");
  EXPECT_TRUE(opened) << opened.error().message;
  auto rendered = opened->render(variables, kNow);
  EXPECT_TRUE(rendered) << rendered.error().message;
  return rendered.value();
}

Error error_of(std::string_view source, const ordered_json& variables = ordered_json::object()) {
  const auto opened = ChatTemplate::open(source, "chat.jinja");
  if (!opened) return opened.error();
  const auto rendered = opened->render(variables, kNow);
  EXPECT_FALSE(rendered);
  return rendered.error();
}

TEST(ChatTemplateTest, BlocksTakeTheirLineWithThem) {
  EXPECT_EQ(render("a\n  {% if true %}\nb\r\n  {% endif %}\nc\n").text, "a\nb\nc");
}

TEST(ChatTemplateTest, ValuesPrintAsInPython) {
  EXPECT_EQ(render("{{ true }} {{ none }} {{ 1.0 }} {{ 1e20 }} {{ 1e-7 }} {{ ['a', 1] }}").text,
            "True None 1.0 1e+20 1e-07 ['a', 1]");
}

TEST(ChatTemplateTest, ToJsonIsJsonDumps) {
  const ordered_json variables = {{"x", {{"b", "<\"\xC3\xA9\n>"}, {"a", {1, 2.0, nullptr}}}}};
  EXPECT_EQ(render("{{ x | tojson }}", variables).text,
            "{\"b\": \"<\\\"\xC3\xA9\\n>\", \"a\": [1, 2.0, null]}");
  EXPECT_EQ(render("{{ x | tojson(ensure_ascii=true, sort_keys=true, indent=2) }}", variables).text,
            "{\n  \"a\": [\n    1,\n    2.0,\n    null\n  ],\n  \"b\": \"<\\\"\\u00e9\\n>\"\n}");
  EXPECT_THAT(error_of("{{ y | tojson }}").message, HasSubstr("undefined is not JSON"));
}

TEST(ChatTemplateTest, TheTimeIsTheCallers) {
  ASSERT_EQ(::setenv("TZ", "UTC", 1), 0);
  EXPECT_EQ(render("{{ strftime_now('%d %b %Y %H:%M%%') }}").text, "14 Nov 2023 22:13%");
  EXPECT_EQ(render("[{{ strftime_now('') }}|{{ strftime_now('%f%Z') }}]").text, "[|000000]");
}

TEST(ChatTemplateTest, GenerationBlocksAreSpansOfTheTextInCodePoints) {
  const Rendering rendered = render(
      "\xC3\xA9{% for m in messages %}[{% generation %}{{ m.content }}{% endgeneration %}]"
      "{% endfor %}",
      {{"messages", {{{"content", "\xE2\x82\xAC 1"}}, {{"content", ""}}}}});
  EXPECT_EQ(rendered.text, "\xC3\xA9[\xE2\x82\xAC 1][]");
  EXPECT_THAT(rendered.generated, ElementsAre(TextSpan{2, 5}, TextSpan{7, 7}));
}

TEST(ChatTemplateTest, GenerationBlocksKeepWhiteSpaceAndScope) {
  const Rendering rendered =
      render("a \n  {%- generation -%}\n b {% set x = 1 %}{% endgeneration %}\n{{ x }}c");
  EXPECT_EQ(rendered.text, "ab c");
  EXPECT_THAT(rendered.generated, ElementsAre(TextSpan{1, 3}));
}

TEST(ChatTemplateTest, WhatOnlyLooksLikeAGenerationBlockIsNone) {
  const auto opened = ChatTemplate::open(
      "{# {% generation %} #}{{ '{% generation %}' }}{% raw %}{% generation %}{{{% endraw %}", "t");
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_FALSE(opened->marks_generation());
  EXPECT_EQ(opened->render(ordered_json::object(), kNow)->text,
            "{% generation %}{% generation %}{{");
  EXPECT_TRUE(ChatTemplate::open("{%- generation %}{% endgeneration %}", "t")->marks_generation());
}

TEST(ChatTemplateTest, NoncharactersInAConversationStay) {
  const std::string odd = "\xEF\xB7\x90\xEF\xB7\x91";  // U+FDD0 U+FDD1
  const Rendering rendered =
      render("{% generation %}{{ x }}{% endgeneration %}", {{"x", odd + "!"}});
  EXPECT_EQ(rendered.text, odd + "!");
  EXPECT_THAT(rendered.generated, ElementsAre(TextSpan{0, 3}));
}

TEST(ChatTemplateTest, KeysThatAreNullAreLeftOutOfMessages) {
  EXPECT_EQ(render("{{ messages[0].content is defined }} {{ messages[0].reasoning_content }}",
                   {{"messages", {{{"content", nullptr}, {"thinking", "hm"}}}}})
                .text,
            "False hm");
}

TEST(ChatTemplateTest, AnExceptionOfTheTemplateHasItsWordsAndLine) {
  const Error error = error_of("\n{{ raise_exception('roles must alternate') }}");
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(error.message, "chat.jinja: line 2: roles must alternate");
}

TEST(ChatTemplateTest, WhatIsNoTemplateNamesItsLine) {
  EXPECT_THAT(error_of("a\n{% if %}").message, HasSubstr("chat.jinja: line 2: "));
  EXPECT_THAT(error_of("{% generation %}").message, HasSubstr("chat.jinja: line 1: "));
  EXPECT_THAT(error_of("{{ x.y.z }}").message, HasSubstr("undefined"));
  EXPECT_THAT(error_of("{{ x | shout }}", {{"x", "a"}}).message, HasSubstr("shout"));
  EXPECT_THAT(error_of("\xFF").message, HasSubstr("not UTF-8: byte 0"));
}

}  // namespace
}  // namespace lockstep::runtime
