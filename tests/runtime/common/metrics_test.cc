#include "runtime/common/metrics.h"

#include <gtest/gtest.h>

#include "runtime/common/log.h"

namespace lockstep::common {
namespace {

TEST(MetricsTest, WritesPrometheusText) {
  Metrics metrics;
  metrics.gauge({"lockstep_step", "Last finished step.", {{"rank", "3"}}}).Set(7);
  metrics.counter({"lockstep_tokens_total", "Tokens.", {{"rank", "3"}}}).Increment(64);
  metrics.histogram({"lockstep_step_seconds", "Seconds.", {{"rank", "3"}}}, {0.1, 1}).Observe(0.5);
  const std::string text = metrics.text();
  EXPECT_NE(text.find("# TYPE lockstep_step gauge"), std::string::npos) << text;
  EXPECT_NE(text.find("lockstep_step{rank=\"3\"} 7"), std::string::npos) << text;
  EXPECT_NE(text.find("lockstep_tokens_total{rank=\"3\"} 64"), std::string::npos) << text;
  EXPECT_NE(text.find("lockstep_step_seconds_bucket{rank=\"3\",le=\"1\"} 1"), std::string::npos)
      << text;
}

TEST(MetricsTest, SameNameAndLabelsAreTheSameSeries) {
  Metrics metrics;
  metrics.counter({"c_total", "C.", {{"a", "1"}}}).Increment();
  metrics.counter({"c_total", "C.", {{"a", "1"}}}).Increment();
  metrics.counter({"c_total", "C.", {{"a", "2"}}}).Increment();
  EXPECT_NE(metrics.text().find("c_total{a=\"1\"} 2"), std::string::npos) << metrics.text();
}

TEST(MetricsTest, TellsResidentMemory) {
  EXPECT_GT(resident_bytes(), 1 << 20);
  EXPECT_GE(peak_resident_bytes(), 1 << 20);
}

TEST(LogTest, QuotesOnlyWhatNeedsIt) {
  EXPECT_EQ(format_event("step", {{"step", 12}, {"loss", 2.5}, {"unit", "layer.3"}}),
            "step step=12 loss=2.5 unit=layer.3");
  EXPECT_EQ(format_event("failed", {{"message", "no such \"file\"\nat all"}, {"empty", ""}}),
            "failed message=\"no such \\\"file\\\"\\nat all\" empty=\"\"");
}

}  // namespace
}  // namespace lockstep::common
