#include "operator/cli/completion.h"

#include <CLI/CLI.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(CompletionTest, TakesItsWordsFromTheCommandLine) {
  CLI::App app;
  CLI::App& one = *app.add_subcommand("one", "does one thing");
  std::string text, form;
  bool flag = false;
  one.set_help_flag();
  one.add_option("file", text, "a file");
  one.add_option("-f,--form", form, "how")->check(CLI::IsMember({"text", "json"}));
  one.add_flag("--fast", flag, "now");
  CLI::App& two = *app.add_subcommand("two", "another");
  two.set_help_flag();
  two.add_option("shell", text, "which")->check(CLI::IsMember({"bash", "zsh"}));
  EXPECT_THAT(words_of(app),
              ElementsAre(VerbWords{.name = "one",
                                    .what = "does one thing",
                                    .flags = {{.name = "--form",
                                               .what = "how",
                                               .takes_value = true,
                                               .choices = {"text", "json"}},
                                              {.name = "--fast", .what = "now"}}},
                          VerbWords{.name = "two", .what = "another", .choices = {"bash", "zsh"}}));
}

TEST(CompletionTest, NoTextEndsAQuoteEarly) {
  const std::vector<VerbWords> verbs = {
      {.name = "odd",
       .what = "what's [this]: a \\",
       .flags = {{.name = "--it", .what = "a user's", .takes_value = true}}}};
  EXPECT_THAT(completion_script("zsh", verbs), HasSubstr(R"('odd:what'\''s \[this\]\: a \\')"));
  EXPECT_THAT(completion_script("fish", verbs), HasSubstr(R"(-d 'what\'s [this]: a \\')"));
  EXPECT_THAT(completion_script("fish", verbs), HasSubstr(R"(-l it -d 'a user\'s' -r)"));
  EXPECT_THAT(completion_script("bash", verbs), Not(HasSubstr("what's")));
}

}  // namespace
}  // namespace lockstep::cli
