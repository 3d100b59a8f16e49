#include "operator/runs/chart.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::runs {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string draw(std::vector<Point> points) {
  return draw_chart({.title = "Loss", .lines = {{"training", std::move(points)}}});
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
    ++found;
  }
  return found;
}

TEST(ChartTest, DrawsALineFromItsFirstToItsLastPoint) {
  // The plot spans x 64..628 and y 212..10.
  EXPECT_THAT(draw({{1, 5}, {2, 3}, {3, 4}}),
              HasSubstr("points=\"64.0,10.0 346.0,212.0 628.0,111.0\""));
}

TEST(ChartTest, SaysSoWithoutPoints) {
  EXPECT_THAT(draw({}), HasSubstr("nothing was logged"));
  EXPECT_THAT(draw({}), Not(HasSubstr("<svg")));
}

TEST(ChartTest, DrawsOnePointAndConstantsWithoutDividingByZero) {
  for (const double value : {0.0, 2.5, -3.0, 1e300}) {
    for (const std::string& svg : {draw({{7, value}}), draw({{1, value}, {9, value}})}) {
      EXPECT_THAT(svg, Not(HasSubstr("nan"))) << value;
      EXPECT_THAT(svg, Not(HasSubstr("inf"))) << value;
    }
  }
  EXPECT_THAT(draw({{7, 2.5}}), HasSubstr("<circle"));
}

TEST(ChartTest, SurvivesValuesThatNoAxisHolds) {
  EXPECT_THAT(draw({{1, -1.7e308}, {2, 1.7e308}}), HasSubstr("too large to draw"));
  EXPECT_THAT(draw({{1, 1e17}, {2, 1e17 + 64}}), HasSubstr("<polyline"));  // and ends
}

TEST(ChartTest, ThinsLongLinesWithoutLosingAPeak) {
  std::vector<Point> points;
  points.reserve(100000);
  for (int64_t step = 1; step <= 100000; ++step) points.push_back({step, 1.0});
  points[54321].value = 9;
  const std::string svg = draw(points);
  EXPECT_LT(svg.size(), 30000U);
  EXPECT_THAT(svg, HasSubstr(",10.0 "));  // the peak reaches the top
}

TEST(ChartTest, StacksPartsOnTopOfEachOther) {
  const std::string svg = draw_chart({.title = "Time",
                                      .lines = {{"a", {{1, 1}, {2, 1}}}, {"b", {{1, 3}, {2, 1}}}},
                                      .is_stacked = true});
  EXPECT_THAT(svg, HasSubstr("class=\"area0\" points=\"64.0,212.0 64.0,161.5 628.0,161.5 "));
  EXPECT_THAT(svg, HasSubstr("class=\"area1\" points=\"64.0,212.0 64.0,10.0 628.0,111.0 "));
}

TEST(ChartTest, CutsARarePeakAndTellsIt) {
  Chart chart{.title = "Time", .unit = "ms", .from_zero = true, .cuts_peaks = true};
  chart.lines = {{"a", {{1, 1000}}}};
  for (int64_t step = 2; step <= 40; ++step) chart.lines[0].points.push_back({step, 10});
  const std::string svg = draw_chart(chart);
  EXPECT_THAT(svg, HasSubstr("<small>ms, peak 1,000 at step 1</small>"));
  EXPECT_THAT(svg, HasSubstr("points=\"64.0,10.0 78.5,43.7 "));  // 10 of 12
  chart.cuts_peaks = false;
  EXPECT_THAT(draw_chart(chart), HasSubstr("points=\"64.0,10.0 78.5,210.0 "));
}

TEST(ChartTest, LeavesAPeakThatHidesNothing) {
  Chart chart{.title = "Time", .unit = "ms", .from_zero = true, .cuts_peaks = true};
  chart.lines = {{"a", {{1, 23}}}};
  for (int64_t step = 2; step <= 40; ++step) chart.lines[0].points.push_back({step, 10});
  EXPECT_THAT(draw_chart(chart), Not(HasSubstr("peak")));
  chart.lines[0].points[0].value = 25;
  EXPECT_THAT(draw_chart(chart), HasSubstr("peak 25 at step 1"));
}

TEST(ChartTest, LabelsMemoryInRoundAmounts) {
  const std::string svg = draw_chart({.title = "Memory",
                                      .lines = {{"x", {{1, 100 * 0x1p20}, {2, 50 * 0x1p20}}}},
                                      .from_zero = true,
                                      .is_bytes = true});
  for (const char* label : {">0 B<", ">20 MiB<", ">100 MiB<"}) EXPECT_THAT(svg, HasSubstr(label));
}

TEST(ChartTest, MarksWhereAnAttemptWentOn) {
  const std::string svg =
      draw_chart({.title = "Loss", .lines = {{"x", {{1, 1}, {9, 2}}}}, .marks = {5, 400}});
  EXPECT_EQ(count(svg, "class=\"mark\""), 1U);  // the other is outside
}

TEST(ChartTest, EscapesNames) {
  const std::string svg =
      draw_chart({.title = "<b>", .lines = {{"<i>", {{1, 1}}}, {"two", {{1, 2}}}}});
  EXPECT_THAT(svg, Not(HasSubstr("<b>")));
  EXPECT_THAT(svg, Not(HasSubstr("<i>")));
}

}  // namespace
}  // namespace lockstep::runs
