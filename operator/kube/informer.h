// Keeps a Store equal to what the API server holds of one resource type.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include <nlohmann/json.hpp>

#include "operator/kube/client.h"
#include "operator/kube/store.h"
#include "operator/kube/watch_state.h"

namespace lockstep::kube {

// Receives the objects of one type from a WatchLoop, on its thread. Objects are views of an answer
// that is freed after the call. An exception of nlohmann::json ends with the object left out.
class ObjectSink {
 public:
  virtual ~ObjectSink() = default;
  virtual void begin_list() = 0;
  virtual void add_listed(const nlohmann::json& object) = 0;
  virtual void remove_listed(const nlohmann::json& object) = 0;
  virtual void finish_list(const std::string& version) = 0;
  virtual void put(const nlohmann::json& object, const std::string& version) = 0;
  virtual void remove(const nlohmann::json& object, const std::string& version) = 0;
  virtual void advance(const std::string& version) = 0;
};

struct WatchTarget {
  ResourcePath path;      // a collection
  ListOptions selectors;  // label and field selectors
  WatchSettings settings;
  // One line for the log when a list or watch fails or is given up; may be empty.
  std::function<void(const std::string& message)> on_trouble;
};

// Lists and watches `target` into `sink` on one thread from construction to destruction.
// `client` and `sink` outlive it. Destruction gives up the call in flight.
class WatchLoop {
 public:
  WatchLoop(Client& client, WatchTarget target, ObjectSink& sink);
  ~WatchLoop() = default;
  WatchLoop(const WatchLoop&) = delete;
  WatchLoop& operator=(const WatchLoop&) = delete;

 private:
  void run(const std::stop_token& stop);
  void list_page(WatchState& state, const ListOptions& options, const std::stop_token& stop);
  void watch(WatchState& state, const WatchAction& action, const std::stop_token& stop);
  // False if the stream is to be left.
  bool take_line(WatchState& state, std::string_view line);
  void take_listed(const ListedEvent& event);
  void take_event(WatchState& state, const ObjectEvent& event);
  void trouble(const std::string& message) const;

  Client& client_;
  const WatchTarget target_;
  ObjectSink& sink_;
  std::jthread thread_;  // last: it uses all of the above
};

// Projects each object straight into T and tells every change.
template <typename T>
class Informer final : private ObjectSink {
 public:
  struct Callbacks {
    // An object as a T; nothing if it is of no interest. Called on the informer's thread.
    std::function<std::optional<T>(const nlohmann::json& object)> project;
    // A value was added (`before` null), changed or deleted (`after` null), after the store has it.
    // Also called for every object of a relist. May be empty. Called without any lock.
    std::function<void(const ObjectKey& key, const T* before, const T* after)> on_change;
  };

  // Starts at once. `client` and `store` outlive the informer.
  Informer(Client& client, WatchTarget target, Store<T>& store, Callbacks callbacks)
      : store_(store),
        callbacks_(std::move(callbacks)),
        loop_(client, std::move(target), static_cast<ObjectSink&>(*this)) {}

  // True once the first complete list is in the store and on_change has been called for all of it.
  bool has_synced() const { return has_synced_.load(std::memory_order_acquire); }

 private:
  using Change = typename Store<T>::Change;

  void begin_list() override { listed_.clear(); }
  void add_listed(const nlohmann::json& object) override {
    std::optional<T> value = callbacks_.project(object);
    if (value) listed_.insert_or_assign(key_of(object), std::move(*value));
  }
  void remove_listed(const nlohmann::json& object) override { listed_.erase(key_of(object)); }
  void finish_list(const std::string& version) override {
    for (const Change& change : store_.replace(std::exchange(listed_, {}), version)) tell(change);
    has_synced_.store(true, std::memory_order_release);
  }
  void put(const nlohmann::json& object, const std::string& version) override {
    tell(store_.put(key_of(object), callbacks_.project(object), version));
  }
  void remove(const nlohmann::json& object, const std::string& version) override {
    tell(store_.put(key_of(object), std::nullopt, version));
  }
  void advance(const std::string& version) override { store_.advance(version); }

  void tell(const Change& change) const {
    if (!callbacks_.on_change || (!change.before && !change.after)) return;
    callbacks_.on_change(change.key, change.before ? &*change.before : nullptr,
                         change.after ? &*change.after : nullptr);
  }

  Store<T>& store_;
  const Callbacks callbacks_;
  std::map<ObjectKey, T> listed_;  // of the list in progress; the loop's thread only
  std::atomic<bool> has_synced_ = false;
  WatchLoop loop_;  // last: its thread calls into the rest
};

}  // namespace lockstep::kube
