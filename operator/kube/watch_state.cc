#include "operator/kube/watch_state.h"

#include <algorithm>
#include <utility>

#include "operator/kube/api_error.h"
#include "operator/kube/object_key.h"
#include "operator/kube/request.h"

namespace lockstep::kube {
namespace {

using common::ErrorCode;
using std::chrono::milliseconds;
using std::chrono::seconds;

// True if a watch may be taken up again from the same version after `error`; false if only a list
// tells where we stand (refused version, permission, type or selector).
bool may_resume(const ApiError& error) {
  return error.error.code == ErrorCode::kUnavailable || error.error.code == ErrorCode::kInternal;
}

std::optional<EventType> event_type(std::string_view name) {
  if (name == "ADDED") return EventType::kAdded;
  if (name == "MODIFIED") return EventType::kModified;
  if (name == "DELETED") return EventType::kDeleted;
  return std::nullopt;
}

}  // namespace

WatchState::WatchState(ListOptions selectors, WatchSettings settings)
    : selectors_(std::move(selectors)),
      settings_(settings),
      phase_(settings.initial_events ? Phase::kInitialEvents : Phase::kList),
      offers_initial_events_(settings.initial_events) {}

NextStep WatchState::next(double jitter) const {
  NextStep step;
  if (must_wait_) {
    const int doublings = std::min(failures_ - 1, 16);
    const milliseconds capped =
        std::min(settings_.max_backoff, settings_.base_backoff * (int64_t{1} << doublings));
    step.delay =
        milliseconds(static_cast<int64_t>(static_cast<double>(capped.count()) * (1.0 + jitter)));
    step.delay = std::max<milliseconds>(step.delay, retry_after_);
  }
  if (phase_ == Phase::kList) {
    ListOptions options = selectors_;
    // No resourceVersion: the newest state, so that neither a restart nor a relist goes back.
    options.limit = unpaged_ ? 0 : settings_.page_limit;
    options.continue_token = continue_token_;
    step.action = ListAction{std::move(options)};
  } else if (phase_ == Phase::kInitialEvents) {
    step.action = WatchAction{initial_query(), true};
  } else {
    step.action = WatchAction{watch_query(jitter)};
  }
  return step;
}

std::string WatchState::selector_query() const {
  ListOptions selectors = selectors_;
  selectors.limit = 0;
  selectors.continue_token.clear();
  std::string query = list_query(selectors);
  if (!query.empty()) query += '&';
  return query;
}

std::string WatchState::initial_query() const {
  // No resourceVersion: the newest state, as in a list.
  return selector_query() +
         "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
         "&allowWatchBookmarks=true&timeoutSeconds=" +
         std::to_string(settings_.initial_limit.count());
}

std::string WatchState::watch_query(double jitter) const {
  const auto length =
      static_cast<int64_t>(static_cast<double>(settings_.min_watch.count()) * (1.0 + jitter));
  return selector_query() +
         "watch=true&allowWatchBookmarks=true&resourceVersion=" + percent_encode(version_) +
         "&timeoutSeconds=" + std::to_string(length);
}

PageVerdict WatchState::on_page(const std::string& version, const std::string& continue_token) {
  if (continue_token_.empty()) {
    // The list shows the state at its first page's version, whatever later pages say.
    list_version_ = version;
    if (!may_take_list(version)) {
      begin_list();
      return PageVerdict::kDiscard;
    }
  }
  must_wait_ = false;
  continue_token_ = continue_token;
  if (!continue_token.empty()) return PageVerdict::kMore;
  begin_watch(list_version_);
  return PageVerdict::kComplete;
}

bool WatchState::may_take_list(const std::string& version) {
  if (!is_older(version, version_) || ++stale_lists_ > settings_.max_stale_lists) return true;
  fail(std::nullopt);
  return false;
}

void WatchState::begin_watch(const std::string& version) {
  version_ = version;
  stale_lists_ = 0;
  unpaged_ = false;
  phase_ = Phase::kWatch;
  watch_judged_ = false;
  saw_event_ = false;
  silent_watches_ = 0;
}

void WatchState::begin_list() {
  phase_ = offers_initial_events_ ? Phase::kInitialEvents : Phase::kList;
}

void WatchState::on_list_error(const ApiError& error) {
  // The server no longer holds the snapshot of our pages: take the next list in one piece.
  unpaged_ = !continue_token_.empty() && error.error.code == ErrorCode::kGone;
  continue_token_.clear();
  if (!unpaged_) begin_list();
  fail(error.retry_after);
}

EventVerdict WatchState::on_line(std::string_view line) {
  nlohmann::json event = nlohmann::json::parse(line, nullptr, false);
  if (!event.is_object() || !event.contains("type") || !event["type"].is_string() ||
      !event.contains("object") || !event["object"].is_object()) {
    return relist("a line of the watch is not an event: " + std::string(line.substr(0, 200)));
  }
  const std::string type = event["type"].get<std::string>();
  nlohmann::json& object = event["object"];
  if (type == "ERROR") return on_error_event(object);

  const std::string version = version_of(object);
  if (version.empty()) return relist("an event of type " + type + " has no resourceVersion");
  const bool is_bookmark = type == "BOOKMARK";
  const std::optional<EventType> known = event_type(type);
  if (!is_bookmark && !known) return relist("an event has the unknown type " + type);
  if (phase_ == Phase::kInitialEvents) {
    if (is_bookmark) return on_initial_bookmark(object);
    return ListedEvent{*known, std::move(object)};
  }
  saw_event_ = true;
  succeed();
  // Never back in time: the store already shows what this event tells.
  if (version == version_ || is_older(version, version_)) return IgnoreEvent{};
  version_ = version;
  if (is_bookmark) return IgnoreEvent{};
  return ObjectEvent{*known, std::move(object)};
}

EventVerdict WatchState::on_initial_bookmark(const nlohmann::json& object) {
  const nlohmann::json::json_pointer end("/metadata/annotations/k8s.io~1initial-events-end");
  if (!object.contains(end) || object.at(end) != "true") return IgnoreEvent{};
  const std::string version = version_of(object);
  if (!may_take_list(version)) {
    watch_judged_ = true;
    return EndWatch{"the server answered with a state older than what we have seen"};
  }
  must_wait_ = false;
  begin_watch(version);
  watch_judged_ = true;  // we leave it
  return ListEnd{};
}

void WatchState::on_watch_end(const std::optional<ApiError>& error, milliseconds lived) {
  constexpr int kMaxSilentWatches = 5;
  const bool judged = std::exchange(watch_judged_, false);
  const bool saw_event = std::exchange(saw_event_, false);
  if (judged) return;
  if (phase_ == Phase::kInitialEvents) return on_initial_end(error);
  const bool worked = saw_event || lived >= settings_.short_watch;
  silent_watches_ = saw_event ? 0 : silent_watches_ + 1;
  // A watch from a version that the server does not have yet, as after a restored backup, is silent
  // for ever. One that ran its time without even a bookmark proves nothing: list again. (A server
  // where nothing at all happens sends no bookmarks either; then the list is cheap.)
  if (worked && !saw_event && (!error || silent_watches_ >= kMaxSilentWatches)) begin_list();
  if (!error) return worked ? succeed() : fail(std::nullopt);
  // A connection cut in mid-stream after it worked is everyday: go on at once where we stopped.
  if (error->http_status == 0 && worked) return succeed();
  if (!may_resume(*error)) begin_list();
  fail(error->retry_after);
}

// Whoever refuses the question, or ends the stream in good order without ListEnd, does not know
// initial events. Whoever fails otherwise may still be able to list.
void WatchState::on_initial_end(const std::optional<ApiError>& error) {
  const bool unknown = !error || error->error.code == ErrorCode::kInvalidArgument;
  if (unknown) offers_initial_events_ = false;
  if (unknown || may_resume(*error)) phase_ = Phase::kList;
  if (!unknown) fail(error->retry_after);
}

EventVerdict WatchState::on_error_event(const nlohmann::json& status) {
  const ApiError error = decode_status(status);
  if (error.http_status == 429) {
    watch_judged_ = true;
    fail(error.retry_after);
    return EndWatch{"the server is overloaded: " + error.error.message};
  }
  return relist(error.error.message);
}

EndWatch WatchState::relist(std::string why) {
  if (phase_ == Phase::kInitialEvents) {
    phase_ = Phase::kList;  // for this once
  } else {
    begin_list();
  }
  watch_judged_ = true;
  fail(std::nullopt);
  return EndWatch{std::move(why)};
}

void WatchState::fail(std::optional<seconds> retry_after) {
  ++failures_;
  must_wait_ = true;
  retry_after_ = retry_after.value_or(seconds(0));
}

void WatchState::succeed() {
  failures_ = 0;
  must_wait_ = false;
}

}  // namespace lockstep::kube
