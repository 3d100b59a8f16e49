// Every error text that the page quotes is one that a source has.
#include <algorithm>
#include <regex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/reference/source_text.h"

namespace lockstep::reference {
namespace {

constexpr const char* kPage = "docs/guides/troubleshooting.md";

std::vector<std::string> quoted_texts() {
  static const std::regex heading("\n### `([^`\n]+)`\n");
  const std::string page = read_source(kPage);
  std::vector<std::string> texts;
  for (std::sregex_iterator it(page.begin(), page.end(), heading), end; it != end; ++it) {
    texts.push_back((*it)[1]);
  }
  return texts;
}

// "a ... b" -> "a ", " b": what differs left out. A blank beside dots is the page's if it stands at
// an end.
std::vector<std::string> fragments_of(const std::string& text) {
  std::vector<std::string> fragments;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t dots = std::min(text.find("...", begin), text.size());
    std::string fragment = text.substr(begin, dots - begin);
    fragment.erase(0, fragment.find_first_not_of(' '));
    fragment.erase(fragment.find_last_not_of(' ') + 1);
    if (!fragment.empty()) fragments.push_back(fragment);
    begin = dots + 3;
  }
  return fragments;
}

TEST(TroubleshootingTest, EveryQuotedTextIsOfTheSources) {
  const std::vector<std::string> literals = literals_of(read_sources({"operator", "runtime"}));
  const std::vector<std::string> texts = quoted_texts();
  EXPECT_GT(texts.size(), 25U);
  for (const std::string& text : texts) {
    std::size_t length = 0;
    for (const std::string& fragment : fragments_of(text)) {
      length += fragment.size();
      const auto has_it = [&fragment](const std::string& literal) {
        return literal.find(fragment) != std::string::npos;
      };
      EXPECT_TRUE(std::any_of(literals.begin(), literals.end(), has_it))
          << kPage << ": no source says '" << fragment << "' of '" << text << "'";
    }
    EXPECT_GE(length, 12U) << kPage << ": '" << text << "' is too short to be told from others";
  }
}

TEST(TroubleshootingTest, FragmentsAreWhatDoesNotDiffer) {
  EXPECT_THAT(fragments_of("... holds a run of ... steps"),
              ::testing::ElementsAre("holds a run of", "steps"));
  EXPECT_THAT(fragments_of("whole"), ::testing::ElementsAre("whole"));
}

}  // namespace
}  // namespace lockstep::reference
