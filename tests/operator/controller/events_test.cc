#include "operator/controller/events.h"

#include <gtest/gtest.h>

#include "tests/operator/controller/fake_api_server.h"

namespace lockstep::control {
namespace {

using std::chrono::seconds;

api::TrainingJob demo() {
  api::TrainingJob job;
  job.meta = {.name = "demo", .ns = "default", .uid = "u-1"};
  return job;
}

const plan::Event kRestarting = {.warning = true, .reason = "Restarting", .message = "rank 1"};

TEST(EventsTest, EventThatSaysTheSameAgainIsCountedUp) {
  FakeApiServer server;
  for (int64_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(emit_event(server, demo(), kRestarting, api::Time(seconds(60 * i))).has_value());
  }
  const auto events = server.objects("events");
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0]["count"], 3);
  EXPECT_EQ(events[0]["firstTimestamp"], "1970-01-01T00:00:00Z");
  EXPECT_EQ(events[0]["lastTimestamp"], "1970-01-01T00:02:00Z");
  EXPECT_EQ(events[0]["type"], "Warning");
}

TEST(EventsTest, OtherTextsReasonsAndJobsAreEventsOfTheirOwn) {
  FakeApiServer server;
  plan::Event event = kRestarting;
  ASSERT_TRUE(emit_event(server, demo(), event, {}).has_value());
  event.message = "rank 2";
  ASSERT_TRUE(emit_event(server, demo(), event, {}).has_value());
  event.reason = "Failed";
  ASSERT_TRUE(emit_event(server, demo(), event, {}).has_value());
  api::TrainingJob next = demo();
  next.meta.uid = "u-2";  // a job of the same name, later
  ASSERT_TRUE(emit_event(server, next, event, {}).has_value());
  EXPECT_EQ(server.objects("events").size(), 4U);
}

TEST(EventsTest, NamesTheJobItIsAbout) {
  FakeApiServer server;
  const plan::Event event = {.warning = true, .reason = "Restarting", .message = "rank 1 failed"};
  ASSERT_TRUE(emit_event(server, demo(), event, api::Time{}).has_value());
  const nlohmann::json stored = server.objects("events").at(0);
  EXPECT_EQ(stored["involvedObject"]["uid"], "u-1");
  EXPECT_EQ(stored["involvedObject"]["namespace"], stored["metadata"]["namespace"]);
  EXPECT_EQ(stored["type"], "Warning");
  EXPECT_EQ(stored["reason"], "Restarting");
}

TEST(EventsTest, RefusalIsReturned) {
  FakeApiServer server;
  server.set_on_write([](const std::string&) -> std::optional<kube::ApiError> {
    return refusal(common::ErrorCode::kPermissionDenied, 403, "no");
  });
  EXPECT_FALSE(emit_event(server, demo(), kRestarting, {}).has_value());
}

}  // namespace
}  // namespace lockstep::control
