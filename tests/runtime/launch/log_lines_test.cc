#include "runtime/launch/log_lines.h"

#include <gtest/gtest.h>

namespace lockstep::launch {
namespace {

TEST(LogLinesTest, EveryLineSaysWhoWroteIt) {
  LogLines lines("[rank 3] ");
  EXPECT_EQ(lines.add("one\ntwo\nthr"), "[rank 3] one\n[rank 3] two\n");
  EXPECT_EQ(lines.add("ee\n\n"), "[rank 3] three\n[rank 3] \n");
  EXPECT_EQ(lines.last_line(), "three") << "a blank line says nothing";
  EXPECT_EQ(lines.add("end"), "");
  EXPECT_EQ(lines.finish(), "[rank 3] end\n");
  EXPECT_EQ(lines.finish(), "");
  EXPECT_EQ(lines.last_line(), "end");
}

TEST(LogLinesTest, LinesWithoutAnEndAreCut) {
  LogLines lines("> ");
  const std::string most(LogLines::kMaxLineBytes, 'x');
  EXPECT_EQ(lines.add(most + "y"), "> " + most + "\n");
  EXPECT_EQ(lines.add("\n"), "> y\n");
  EXPECT_EQ(lines.add(most), "> " + most + "\n");
  EXPECT_EQ(lines.last_line().size(), LogLines::kMaxLastLineBytes);
}

}  // namespace
}  // namespace lockstep::launch
