#include "operator/kube/informer.h"

#include <condition_variable>
#include <mutex>
#include <random>
#include <variant>

#include <pthread.h>

namespace lockstep::kube {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// Sleeps for `delay` or until `stop`; false if stopped.
bool sleep_for(milliseconds delay, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop, delay, [] { return false; });
  return !stop.stop_requested();
}

std::string describe(const std::string& what, const ApiError& error) {
  return what + " failed: " + error.error.message;
}

}  // namespace

WatchLoop::WatchLoop(Client& client, WatchTarget target, ObjectSink& sink)
    : client_(client),
      target_(std::move(target)),
      sink_(sink),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

void WatchLoop::run(const std::stop_token& stop) {
  constexpr std::size_t kMaxThreadName = 15;
  const std::string name = "watch-" + target_.path.type.plural;
  pthread_setname_np(pthread_self(), name.substr(0, kMaxThreadName).c_str());
  std::mt19937 random{std::random_device{}()};
  std::uniform_real_distribution<double> jitter(0.0, 1.0);
  WatchState state(target_.selectors, target_.settings);
  sink_.begin_list();
  while (!stop.stop_requested()) {
    const NextStep step = state.next(jitter(random));
    if (step.delay > milliseconds(0) && !sleep_for(step.delay, stop)) return;
    if (const auto* list = std::get_if<ListAction>(&step.action)) {
      list_page(state, list->options, stop);
    } else {
      watch(state, std::get<WatchAction>(step.action), stop);
    }
  }
}

void WatchLoop::list_page(WatchState& state, const ListOptions& options,
                          const std::stop_token& stop) {
  if (options.continue_token.empty()) sink_.begin_list();
  const ApiResult<nlohmann::json> answer = client_.list(target_.path, options, stop);
  if (stop.stop_requested()) return;
  if (const auto* error = std::get_if<ApiError>(&answer)) {
    trouble(describe("list", *error));
    return state.on_list_error(*error);
  }
  const nlohmann::json& list = std::get<nlohmann::json>(answer);
  const auto metadata = list.find("metadata");
  std::string continue_token;
  if (metadata != list.end()) continue_token = metadata->value("continue", "");
  const PageVerdict verdict = state.on_page(version_of(list), continue_token);
  if (verdict == PageVerdict::kDiscard) {
    return trouble("list refused: the server answered with a state older than what we have seen");
  }
  const auto items = list.find("items");
  if (items != list.end() && items->is_array()) {
    for (const nlohmann::json& object : *items) {
      try {
        sink_.add_listed(object);
      } catch (const nlohmann::json::exception& e) {
        trouble(std::string("an object of the list is left out: ") + e.what());
      }
    }
  }
  if (verdict == PageVerdict::kComplete) sink_.finish_list(state.version());
}

void WatchLoop::watch(WatchState& state, const WatchAction& action, const std::stop_token& stop) {
  const Clock::time_point begin = Clock::now();
  if (action.is_initial) sink_.begin_list();
  const std::optional<ApiError> error = client_.stream(
      target_.path, action.query, stop,
      [&](std::string_view line) { return take_line(state, line) && !stop.stop_requested(); });
  if (stop.stop_requested()) return;
  if (error) trouble(describe(action.is_initial ? "list" : "watch", *error));
  state.on_watch_end(error, std::chrono::duration_cast<milliseconds>(Clock::now() - begin));
}

bool WatchLoop::take_line(WatchState& state, std::string_view line) {
  const std::string before = state.version();
  const EventVerdict verdict = state.on_line(line);
  if (const auto* end = std::get_if<EndWatch>(&verdict)) {
    trouble("watch ended: " + end->why);
    return false;
  }
  if (std::holds_alternative<ListEnd>(verdict)) {
    sink_.finish_list(state.version());
    return false;
  }
  if (const auto* listed = std::get_if<ListedEvent>(&verdict)) {
    take_listed(*listed);
  } else if (const auto* event = std::get_if<ObjectEvent>(&verdict)) {
    take_event(state, *event);
  } else if (state.version() != before) {
    sink_.advance(state.version());
  }
  return true;
}

void WatchLoop::take_listed(const ListedEvent& event) {
  try {
    if (event.type == EventType::kDeleted) {
      sink_.remove_listed(event.object);
    } else {
      sink_.add_listed(event.object);
    }
  } catch (const nlohmann::json::exception& e) {
    trouble(std::string("an object of the list is left out: ") + e.what());
  }
}

void WatchLoop::take_event(WatchState& state, const ObjectEvent& event) {
  try {
    if (event.type == EventType::kDeleted) {
      sink_.remove(event.object, state.version());
    } else {
      sink_.put(event.object, state.version());
    }
  } catch (const nlohmann::json::exception& e) {
    trouble(std::string("an object of the watch is left out: ") + e.what());
    sink_.advance(state.version());
  }
}

void WatchLoop::trouble(const std::string& message) const {
  if (target_.on_trouble) target_.on_trouble(target_.path.type.plural + ": " + message);
}

}  // namespace lockstep::kube
