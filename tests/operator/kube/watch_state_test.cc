#include "operator/kube/watch_state.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "operator/kube/object_key.h"

namespace lockstep::kube {
namespace {

using common::ErrorCode;
using std::chrono::milliseconds;

// Wire samples of kube-apiserver 1.20.2 and 1.36.4.
constexpr const char* kExpired =
    R"json({"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 1 (452)","reason":"Expired","code":410}})json";
constexpr const char* kOverloaded =
    R"({"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too many requests","reason":"TooManyRequests","details":{"retryAfterSeconds":7},"code":429}})";
constexpr const char* kBookmark =
    R"({"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"annotations":{"k8s.io/initial-events-end":"true"},"resourceVersion":"206"}}})";

std::string event(const std::string& type, const std::string& name, const std::string& version) {
  return R"({"type":")" + type + R"(","object":{"metadata":{"name":")" + name +
         R"(","namespace":"ns","resourceVersion":")" + version + R"("}}})";
}

ApiError error(ErrorCode code, int http_status) {
  return {{code, "why", ""}, http_status, "", std::nullopt};
}

WatchSettings pages() {
  WatchSettings settings;
  settings.initial_events = false;
  return settings;
}

WatchState synced_at(const std::string& version) {
  WatchState state({}, pages());
  EXPECT_EQ(state.on_page(version, ""), PageVerdict::kComplete);
  return state;
}

bool lists_next(const WatchState& state) {
  return std::holds_alternative<ListAction>(state.next(0).action);
}
std::string query_of(const WatchState& state, double jitter = 0) {
  const NextStep step = state.next(jitter);
  const auto* watch = std::get_if<WatchAction>(&step.action);
  return watch == nullptr ? "(list)" : watch->query;
}

TEST(WatchStateTest, BeginsWithAListOfTheNewestStateInPages) {
  const WatchState state({.label_selector = "a=b", .field_selector = ""}, pages());
  const NextStep step = state.next(0.5);
  EXPECT_EQ(step.delay, milliseconds(0));
  const ListOptions options = std::get<ListAction>(step.action).options;
  EXPECT_EQ(options.label_selector, "a=b");
  EXPECT_EQ(options.limit, 100);
  EXPECT_EQ(options.continue_token, "");
}

TEST(WatchStateTest, WatchesFromTheFirstPagesVersion) {
  WatchState state({}, pages());
  EXPECT_EQ(state.on_page("203", "eyJ2Ijoi"), PageVerdict::kMore);
  EXPECT_EQ(std::get<ListAction>(state.next(0).action).options.continue_token, "eyJ2Ijoi");
  EXPECT_EQ(state.on_page("209", ""), PageVerdict::kComplete);
  EXPECT_EQ(query_of(state),
            "watch=true&allowWatchBookmarks=true&resourceVersion=203&timeoutSeconds=300");
  EXPECT_NE(query_of(state, 0.5).find("timeoutSeconds=450"), std::string::npos);
}

TEST(WatchStateTest, KeepsSelectorsInTheWatch) {
  WatchState state({.label_selector = "app=x,role", .field_selector = "a=b"});
  state.on_page("1", "");
  EXPECT_EQ(query_of(state).substr(0, query_of(state).find("&watch")),
            "labelSelector=app%3Dx%2Crole&fieldSelector=a%3Db");
}

TEST(WatchStateTest, ExpiredContinueTokenBeginsAListWithoutPages) {
  WatchState state({}, pages());
  state.on_page("203", "token");
  state.on_list_error(error(ErrorCode::kGone, 410));
  const ListOptions options = std::get<ListAction>(state.next(0).action).options;
  EXPECT_EQ(options.limit, 0);
  EXPECT_EQ(options.continue_token, "");
  EXPECT_EQ(state.on_page("210", ""), PageVerdict::kComplete);
  EXPECT_EQ(state.version(), "210");
}

TEST(WatchStateTest, OtherListErrorsBeginAgainWithPages) {
  WatchState state({}, pages());
  state.on_page("203", "token");
  state.on_list_error(error(ErrorCode::kUnavailable, 503));
  const ListOptions options = std::get<ListAction>(state.next(0).action).options;
  EXPECT_EQ(options.limit, 100);
  EXPECT_EQ(options.continue_token, "");
}

TEST(WatchStateTest, ARefusedListWaitsAsLongAsTheServerWishes) {
  for (const bool initial_events : {false, true}) {
    WatchSettings settings;
    settings.initial_events = initial_events;
    WatchState state({}, settings);
    ApiError overloaded = error(ErrorCode::kUnavailable, 429);
    overloaded.retry_after = std::chrono::seconds(9);
    if (initial_events) {
      state.on_watch_end(overloaded, milliseconds(1));
    } else {
      state.on_list_error(overloaded);
    }
    EXPECT_EQ(state.next(0).delay, milliseconds(9000));
  }
}

TEST(WatchStateTest, EventsAndBookmarksAdvanceTheVersion) {
  WatchState state = synced_at("200");
  const EventVerdict added = state.on_line(event("ADDED", "a", "204"));
  ASSERT_TRUE(std::holds_alternative<ObjectEvent>(added));
  EXPECT_EQ(std::get<ObjectEvent>(added).type, EventType::kAdded);
  EXPECT_EQ(state.version(), "204");
  EXPECT_EQ(std::get<ObjectEvent>(state.on_line(event("MODIFIED", "a", "205"))).type,
            EventType::kModified);
  EXPECT_TRUE(std::holds_alternative<IgnoreEvent>(state.on_line(kBookmark)));
  EXPECT_EQ(state.version(), "206");
  EXPECT_EQ(std::get<ObjectEvent>(state.on_line(event("DELETED", "a", "1000"))).type,
            EventType::kDeleted);
  EXPECT_EQ(state.version(), "1000");
}

TEST(WatchStateTest, EventsOfThePastAreIgnored) {
  WatchState state = synced_at("200");
  for (const char* version : {"199", "200", "99"}) {
    EXPECT_TRUE(std::holds_alternative<IgnoreEvent>(state.on_line(event("MODIFIED", "a", version))))
        << version;
  }
  EXPECT_EQ(state.version(), "200");
}

TEST(WatchStateTest, ExpiredVersionLeadsToARelist) {
  WatchState state = synced_at("200");
  const EventVerdict verdict = state.on_line(kExpired);
  ASSERT_TRUE(std::holds_alternative<EndWatch>(verdict));
  EXPECT_EQ(std::get<EndWatch>(verdict).why, "too old resource version: 1 (452)");
  state.on_watch_end(std::nullopt, milliseconds(1));
  EXPECT_TRUE(lists_next(state));
  EXPECT_EQ(state.next(0).delay, milliseconds(800));
  EXPECT_EQ(state.on_page("452", ""), PageVerdict::kComplete);
  EXPECT_NE(query_of(state).find("resourceVersion=452&"), std::string::npos);
  EXPECT_EQ(state.next(0).delay, milliseconds(0));
}

TEST(WatchStateTest, RefusedVersionAtTheStartLeadsToARelist) {
  WatchState state = synced_at("200");
  state.on_watch_end(error(ErrorCode::kGone, 410), milliseconds(5));
  EXPECT_TRUE(lists_next(state));
}

TEST(WatchStateTest, AStormOfExpiredVersionsBacksOff) {
  WatchState state = synced_at("200");
  milliseconds last{0};
  for (int i = 0; i < 5; ++i) {
    state.on_line(kExpired);
    state.on_watch_end(std::nullopt, milliseconds(1));
    EXPECT_GT(state.next(0).delay, last);
    last = state.next(0).delay;
    state.on_page("201", "");
  }
}

TEST(WatchStateTest, OverloadInTheStreamResumesAfterRetryAfter) {
  WatchState state = synced_at("200");
  EXPECT_TRUE(std::holds_alternative<EndWatch>(state.on_line(kOverloaded)));
  state.on_watch_end(std::nullopt, milliseconds(1));
  EXPECT_FALSE(lists_next(state));
  EXPECT_EQ(state.next(0).delay, milliseconds(7000));
}

TEST(WatchStateTest, CleanCloseResumesAtOnceFromTheLastVersion) {
  WatchState state = synced_at("200");
  state.on_line(event("ADDED", "a", "204"));
  state.on_watch_end(std::nullopt, milliseconds(300'000));
  EXPECT_EQ(state.next(0).delay, milliseconds(0));
  EXPECT_NE(query_of(state).find("resourceVersion=204&"), std::string::npos);
}

TEST(WatchStateTest, CutConnectionThatWorkedResumesAtOnce) {
  WatchState state = synced_at("200");
  state.on_line(event("ADDED", "a", "204"));
  state.on_watch_end(error(ErrorCode::kUnavailable, 0), milliseconds(10));
  EXPECT_EQ(state.next(0).delay, milliseconds(0));
  EXPECT_NE(query_of(state).find("resourceVersion=204&"), std::string::npos);
}

TEST(WatchStateTest, RefusedConnectionsDoubleTheBackOffUpToTheCap) {
  WatchState state = synced_at("200");
  const std::vector<int> expected_ms{800, 1600, 3200, 6400, 12800, 25600, 30000, 30000};
  for (const int expected : expected_ms) {
    state.on_watch_end(error(ErrorCode::kUnavailable, 0), milliseconds(1));
    EXPECT_EQ(state.next(0).delay, milliseconds(expected));
    EXPECT_EQ(state.next(0.5).delay, milliseconds(expected * 3 / 2));
    EXPECT_FALSE(lists_next(state));
  }
  state.on_line(event("ADDED", "a", "204"));
  state.on_watch_end(std::nullopt, milliseconds(10));
  EXPECT_EQ(state.next(0).delay, milliseconds(0));
}

TEST(WatchStateTest, VeryShortWatchWithoutEventsBacksOff) {
  WatchState state = synced_at("200");
  state.on_watch_end(std::nullopt, milliseconds(999));
  EXPECT_EQ(state.next(0).delay, milliseconds(800));
  EXPECT_FALSE(lists_next(state));
}

TEST(WatchStateTest, RefusedWatchSaysHowToGoOn) {
  struct Case {
    ErrorCode code;
    int http_status;
    bool relists;
  };
  const std::vector<Case> cases{
      {ErrorCode::kUnavailable, 429, false},
      {ErrorCode::kUnavailable, 500, false},
      {ErrorCode::kUnavailable, 503, false},
      {ErrorCode::kUnavailable, 504, false},
      {ErrorCode::kGone, 410, true},
      {ErrorCode::kInvalidArgument, 400, true},
      {ErrorCode::kPermissionDenied, 401, true},
      {ErrorCode::kPermissionDenied, 403, true},
      {ErrorCode::kNotFound, 404, true},
  };
  for (const Case& c : cases) {
    WatchState state = synced_at("200");
    state.on_watch_end(error(c.code, c.http_status), milliseconds(1));
    EXPECT_EQ(lists_next(state), c.relists) << c.http_status;
    EXPECT_EQ(state.next(0).delay, milliseconds(800)) << c.http_status;
  }
}

TEST(WatchStateTest, LinesThatAreNoEventLeadToARelist) {
  for (const char* line :
       {"{\"type\":\"ADDED\",\"obj", "[]", R"({"object":{}})", R"({"type":"ADDED"})",
        R"({"type":"ADDED","object":{"metadata":{"name":"a"}}})",
        R"({"type":"PATCHED","object":{"metadata":{"name":"a","resourceVersion":"300"}}})"}) {
    WatchState state = synced_at("200");
    EXPECT_TRUE(std::holds_alternative<EndWatch>(state.on_line(line))) << line;
    state.on_watch_end(std::nullopt, milliseconds(5000));
    EXPECT_TRUE(lists_next(state)) << line;
    EXPECT_EQ(state.next(0).delay, milliseconds(800)) << line;
  }
}

TEST(WatchStateTest, ARelistNeverGoesBackInTimeButBelievesARestoredServer) {
  WatchState state = synced_at("1000");
  state.on_line(kExpired);
  state.on_watch_end(std::nullopt, milliseconds(1));
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(state.on_page("999", ""), PageVerdict::kDiscard);
    EXPECT_TRUE(lists_next(state));
    EXPECT_EQ(state.version(), "1000");
  }
  EXPECT_EQ(state.on_page("999", ""), PageVerdict::kComplete);
  EXPECT_EQ(state.version(), "999");
}

std::string initial_end(const std::string& version) {
  return R"({"type":"BOOKMARK","object":{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"},"resourceVersion":")" +
         version + R"("}}})";
}

TEST(WatchStateTest, InitialEventsAreAListOfTheNewestState) {
  WatchState state({.label_selector = "a=b", .field_selector = ""});
  const NextStep step = state.next(0.5);
  EXPECT_TRUE(std::get<WatchAction>(step.action).is_initial);
  EXPECT_EQ(
      std::get<WatchAction>(step.action).query,
      "labelSelector=a%3Db&watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
      "&allowWatchBookmarks=true&timeoutSeconds=60");
  const EventVerdict member = state.on_line(event("ADDED", "a", "9"));
  ASSERT_TRUE(std::holds_alternative<ListedEvent>(member));
  EXPECT_EQ(std::get<ListedEvent>(member).type, EventType::kAdded);
  EXPECT_EQ(state.version(), "");
  EXPECT_TRUE(std::holds_alternative<IgnoreEvent>(
      state.on_line(R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"15"}}})")));
  EXPECT_TRUE(std::holds_alternative<ListEnd>(state.on_line(initial_end("20"))));
  state.on_watch_end(std::nullopt, milliseconds(1));
  EXPECT_EQ(state.next(0).delay, milliseconds(0));
  EXPECT_NE(query_of(state).find("&resourceVersion=20&"), std::string::npos);
}

TEST(WatchStateTest, HowInitialEventsFailSaysHowToListNext) {
  struct Case {
    std::optional<ApiError> end;
    bool pages_next, pages_later;
    int delay_ms;
  };
  const std::vector<Case> cases{
      {std::nullopt, true, true, 0},  // all lines, but no end: an old server
      {error(ErrorCode::kInvalidArgument, 422), true, true, 0},
      {error(ErrorCode::kInvalidArgument, 400), true, true, 0},
      {error(ErrorCode::kUnavailable, 500), true, false, 800},
      {error(ErrorCode::kUnavailable, 0), true, false, 800},
      {error(ErrorCode::kPermissionDenied, 403), false, false, 800},
      {error(ErrorCode::kGone, 410), false, false, 800},
  };
  for (const Case& c : cases) {
    WatchState state({});
    state.on_line(event("ADDED", "a", "9"));
    state.on_watch_end(c.end, milliseconds(5000));
    const int status = c.end ? c.end->http_status : 200;
    EXPECT_EQ(lists_next(state), c.pages_next) << status;
    EXPECT_EQ(state.next(0).delay, milliseconds(c.delay_ms)) << status;
    state.on_page("20", "");
    state.on_watch_end(error(ErrorCode::kGone, 410), milliseconds(1));
    EXPECT_EQ(lists_next(state), c.pages_later) << status;
  }
}

TEST(WatchStateTest, InitialEventsNeverGoBackInTime) {
  WatchState state({});
  state.on_line(initial_end("1000"));
  state.on_watch_end(std::nullopt, milliseconds(1));
  state.on_line(kExpired);
  state.on_watch_end(std::nullopt, milliseconds(1));
  EXPECT_TRUE(std::holds_alternative<EndWatch>(state.on_line(initial_end("999"))));
  state.on_watch_end(std::nullopt, milliseconds(1));
  EXPECT_EQ(state.version(), "1000");
  EXPECT_GT(state.next(0).delay, milliseconds(0));
  EXPECT_TRUE(std::holds_alternative<ListEnd>(state.on_line(initial_end("1001"))));
}

// As after a restored backup: the server does not have our version yet, and says nothing.
TEST(WatchStateTest, AWatchThatRanItsTimeWithoutALineLeadsToARelist) {
  WatchState state = synced_at("200");
  state.on_watch_end(std::nullopt, milliseconds(300'000));
  EXPECT_TRUE(lists_next(state));
  EXPECT_EQ(state.next(0).delay, milliseconds(0));

  WatchState cut = synced_at("200");
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(lists_next(cut));
    cut.on_watch_end(error(ErrorCode::kUnavailable, 0), milliseconds(60'000));
  }
  EXPECT_TRUE(lists_next(cut));

  WatchState told = synced_at("200");
  told.on_line(kBookmark);
  told.on_watch_end(std::nullopt, milliseconds(300'000));
  EXPECT_FALSE(lists_next(told));
}

TEST(ResourceVersionTest, OrderIsThatOfNumbersOfAnyLength) {
  EXPECT_TRUE(is_older("9", "10"));
  EXPECT_TRUE(is_older("99999999999999999999998", "99999999999999999999999"));
  EXPECT_FALSE(is_older("10", "9"));
  EXPECT_FALSE(is_older("10", "10"));
  for (const char* malformed : {"", "0", "01", "x", "1x"}) {
    EXPECT_FALSE(is_older(malformed, "10")) << malformed;
    EXPECT_FALSE(is_older("10", malformed)) << malformed;
  }
}

}  // namespace
}  // namespace lockstep::kube
