#include "operator/runs/log_events.h"

#include <gtest/gtest.h>

#include "runtime/common/log.h"

namespace lockstep::runs {
namespace {

TEST(LogEventsTest, ReadsBackWhatALogWrites) {
  const std::string text = "a \"b\" \\c\nd=e";
  std::string line = "2026-11-21T13:20:04.811Z error ";
  line += common::format_event("stopped early", {{"rank", 3}, {"message", text}, {"empty", ""}});
  const auto event = parse_log_line(line);
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->time, "2026-11-21T13:20:04.811Z");
  EXPECT_EQ(event->level, "error");
  EXPECT_EQ(event->name, "stopped early");
  EXPECT_EQ(event->fields.at("rank"), "3");
  EXPECT_EQ(event->fields.at("message"), text);
  EXPECT_EQ(event->fields.at("empty"), "");
}

TEST(LogEventsTest, LeavesOtherLinesAlone) {
  for (const char* line : {"", " ", "Traceback (most recent call last):", "2026-11-21 info x",
                           "2026-11-21T13:20:04.811Z", "2026-11-21T13:20:04.811Z info"}) {
    EXPECT_FALSE(parse_log_line(line).has_value()) << line;
  }
}

TEST(LogEventsTest, ReadsATornLineAsFarAsItGoes) {
  const auto event =
      parse_log_line("2026-11-21T13:20:04.811Z info step loss=5.5 message=\"cut off\\");
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->fields.at("loss"), "5.5");
  EXPECT_EQ(event->fields.at("message"), "cut off\\");
}

}  // namespace
}  // namespace lockstep::runs
