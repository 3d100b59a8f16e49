#include "operator/runs/html_text.h"

#include <limits>

#include <gtest/gtest.h>

namespace lockstep::runs {
namespace {

TEST(HtmlTextTest, EscapesMarkupAndReplacesWhatIsNoText) {
  const struct {
    std::string text, html;
  } cases[] = {
      {"plain", "plain"},
      {"<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"},
      {"\" onload='x' & more", "&quot; onload=&#39;x&#39; &amp; more"},
      {std::string("a\0b", 3), "a&#xFFFD;b"},
      {"a\x1b[31m\x7f\tb\n", "a&#xFFFD;[31m&#xFFFD;\tb\n"},
      {"gr\xc3\xbc\xc3\x9f \xe2\x86\x92 \xf0\x9f\x9a\x80",
       "gr\xc3\xbc\xc3\x9f \xe2\x86\x92 \xf0\x9f\x9a\x80"},
      {"cut \xe2\x86", "cut &#xFFFD;&#xFFFD;"},
      {"overlong \xc0\xaf", "overlong &#xFFFD;&#xFFFD;"},
      {"surrogate \xed\xa0\x80", "surrogate &#xFFFD;&#xFFFD;&#xFFFD;"},
  };
  for (const auto& one : cases) EXPECT_EQ(html_text(one.text), one.html);
}

TEST(HtmlTextTest, WritesNumbersForPeople) {
  EXPECT_EQ(short_number(2.45583), "2.456");
  EXPECT_EQ(short_number(0.0000123456), "1.235e-05");
  EXPECT_EQ(short_number(13813.4), "13,813");
  EXPECT_EQ(short_number(-1234567.0), "-1,234,567");
  EXPECT_EQ(short_number(999.6, 3), "1e+03");
  EXPECT_EQ(short_number(std::numeric_limits<double>::infinity()), "-");
  EXPECT_EQ(short_bytes(512), "512 B");
  EXPECT_EQ(short_bytes(1536 * 1024), "1.5 MiB");
  EXPECT_EQ(short_bytes(20.0 * (int64_t{1} << 30)), "20 GiB");
}

}  // namespace
}  // namespace lockstep::runs
