// The cycle list -> watch -> watch ... -> relist as a pure state machine; informer.h drives it.
// A list is a stream of initial events where the server has them (WatchList), else pages. The
// stream of initial events is a request of its own: so it has a limit, and a watch may be silent.
// Source: kubernetes/client-go tools/cache/reflector.go; kube-rs runtime/src/watcher.rs.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include <nlohmann/json.hpp>

#include "operator/kube/client.h"

namespace lockstep::kube {

struct WatchSettings {
  bool initial_events = true;              // ask for them; false: pages only
  std::chrono::seconds initial_limit{60};  // for all initial events, as the server's for a list
  int64_t page_limit = 100;                // a page is a DOM for a moment: 38 KB per pod
  std::chrono::seconds min_watch{300};     // a watch lasts 1 to 2 times this
  std::chrono::milliseconds base_backoff{800};
  std::chrono::milliseconds max_backoff{30'000};
  // A watch that ends sooner than this without an event counts as a failure.
  std::chrono::milliseconds short_watch{1000};
  // A list older than what we have seen is refused this often; after that only a restored etcd
  // explains it, and we believe it.
  int max_stale_lists = 5;
};

// What to do next, after `delay`.
struct ListAction {
  ListOptions options;  // selectors, page, continue token
};
struct WatchAction {
  std::string query;
  bool is_initial = false;  // a list in the form of events, up to ListEnd
};
struct NextStep {
  std::chrono::milliseconds delay{0};
  std::variant<ListAction, WatchAction> action;
};

enum class PageVerdict {
  kMore,      // keep the page; another follows
  kComplete,  // keep the page; the list is complete: replace the store
  kDiscard,   // drop all pages of this list; a new list follows
};

enum class EventType { kAdded, kModified, kDeleted };
struct ObjectEvent {
  EventType type;
  nlohmann::json object;
};
// Of the initial events: a member of the list, or a deletion of one told before.
struct ListedEvent {
  EventType type;
  nlohmann::json object;
};
struct ListEnd {};      // the initial events are complete: replace the store, leave the stream
struct IgnoreEvent {};  // a bookmark, or an event older than what was seen
struct EndWatch {       // leave the stream; next() says how to go on
  std::string why;
};
using EventVerdict = std::variant<ObjectEvent, ListedEvent, ListEnd, IgnoreEvent, EndWatch>;

class WatchState {
 public:
  // `selectors`: label and field selectors of every list and watch; the rest of it is unused.
  explicit WatchState(ListOptions selectors, WatchSettings settings = {});

  // The next call to make. `jitter` in [0, 1) spreads back-offs and watch lengths.
  NextStep next(double jitter) const;

  // A page arrived: its metadata.resourceVersion and metadata.continue.
  PageVerdict on_page(const std::string& version, const std::string& continue_token);
  // A list call failed; pages gathered so far are to be dropped.
  void on_list_error(const ApiError& error);

  // A line of the watch's stream arrived.
  EventVerdict on_line(std::string_view line);
  // The stream ended after `lived`: an error, or nothing on a clean close.
  void on_watch_end(const std::optional<ApiError>& error, std::chrono::milliseconds lived);

  // The newest resource version seen; empty before the first list.
  const std::string& version() const { return version_; }
  int failures() const { return failures_; }

 private:
  enum class Phase { kInitialEvents, kList, kWatch };

  std::string selector_query() const;
  std::string watch_query(double jitter) const;
  std::string initial_query() const;
  EventVerdict on_initial_bookmark(const nlohmann::json& object);
  // False if a list at `version` would go back in time, and is not to be believed yet.
  bool may_take_list(const std::string& version);
  void begin_watch(const std::string& version);
  void on_initial_end(const std::optional<ApiError>& error);
  void begin_list();
  EventVerdict on_error_event(const nlohmann::json& status);
  EndWatch relist(std::string why);
  void fail(std::optional<std::chrono::seconds> retry_after);
  void succeed();

  ListOptions selectors_;
  WatchSettings settings_;
  Phase phase_;
  bool offers_initial_events_;  // as far as we know
  std::string version_;
  std::string list_version_;    // of the first page of the list in progress
  std::string continue_token_;  // of the list in progress; empty at its first page
  bool unpaged_ = false;        // the last continue token had expired
  int stale_lists_ = 0;
  int failures_ = 0;           // in a row; a list that works does not end them, an event does
  bool must_wait_ = false;     // the last call failed
  bool watch_judged_ = false;  // the stream's end was foretold by an event in it
  bool saw_event_ = false;     // in this watch; a bookmark is one
  int silent_watches_ = 0;     // in a row: each ended without a line
  std::chrono::seconds retry_after_{0};
};

}  // namespace lockstep::kube
