// An API server in memory: versions, UIDs, preconditions, watches, a garbage collector, and faults.
// What it does is what a real one was seen to do, as far as the operator can tell.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "operator/kube/client.h"
#include "operator/kube/mutex.h"
#include "operator/kube/object_key.h"

namespace lockstep::control {

// The operator's process ended in the middle of a call.
struct OperatorCrash : std::exception {
  const char* what() const noexcept override { return "the operator crashed"; }
};

// Ends the operator at its `call`-th write (1, 2, ...; 0 = never).
struct CrashPoint {
  int call = 0;
  bool after_commit = false;  // the write is done, but its answer never arrives
};

class FakeApiServer final : public kube::Client {
 public:
  using Answer = kube::ApiResult<nlohmann::json>;
  // "create pods/demo-0-0", "delete pods/demo-0-0", "status trainingjobs/demo"
  using OnWrite = std::function<std::optional<kube::ApiError>(const std::string& write)>;

  // --- what the operator calls
  Answer get(const kube::ResourcePath& path) override;
  Answer list(const kube::ResourcePath& path, const kube::ListOptions& options,
              std::stop_token stop) override;
  using Client::create;
  Answer create(const kube::ResourcePath& path, const nlohmann::json& body,
                kube::Warnings& warnings) override;
  Answer replace(const kube::ResourcePath& path, const nlohmann::json& body) override;
  Answer patch(const kube::ResourcePath& path, kube::PatchType type,
               const nlohmann::json& body) override;
  Answer remove(const kube::ResourcePath& path, const kube::DeleteOptions& options) override;
  std::optional<kube::ApiError> stream(
      const kube::ResourcePath& path, const std::string& query, std::stop_token stop,
      const std::function<bool(std::string_view)>& on_line) override;

  // --- what everybody else does: no fault hits these
  // Adds an object as a user would; returns it with UID and version.
  nlohmann::json add(const std::string& plural, nlohmann::json object);
  void edit(const std::string& plural, const kube::ObjectKey& key,
            const std::function<void(nlohmann::json&)>& change);
  void erase(const std::string& plural, const kube::ObjectKey& key);
  // Deletes what belongs to an owner that is gone.
  void collect_garbage();
  // Whoever creates an object of `plural` from now on is warned so; empty = of nothing.
  void warn(const std::string& plural, kube::Warnings texts);

  // --- faults
  void crash_at(CrashPoint point);
  // The next process starts: nothing crashes any more.
  void revive();
  bool has_crashed() const;
  // Called before each write of the operator; an error refuses it.
  void set_on_write(OnWrite on_write);
  // Called, without a lock, after each write of the operator that was done.
  void set_on_commit(std::function<void(const std::string& write)> on_commit);
  // Nothing of the namespace may be listed or watched from now on.
  void forbid(const std::string& ns) {
    const kube::MutexLock lock(mutex_);
    forbidden_.insert(ns);
  }
  // Watches of `plural` tell nothing until release().
  void hold(const std::string& plural);
  void release(const std::string& plural);

  // --- what a test reads
  // Blocks until one open watch of each of the operator's types has told all there is.
  void await_delivery();
  std::vector<nlohmann::json> objects(const std::string& plural) const;
  std::optional<nlohmann::json> object(const std::string& plural, const kube::ObjectKey& key) const;
  // Every write of the operator that was done, in order.
  std::vector<std::string> writes() const;
  // Writes tried, and gets.
  int num_calls() const {
    const kube::MutexLock lock(mutex_);
    return num_calls_;
  }
  int64_t version() const {
    const kube::MutexLock lock(mutex_);
    return version_;
  }

 private:
  struct Event {
    std::string plural, ns;
    int64_t version = 0;
    bool is_child = false;
    std::string line;
  };
  struct Stream {
    std::string plural;
    std::size_t position = 0;  // in history_
  };

  // Those of the following that do not lock are called under mutex_.
  std::optional<kube::ApiError> tell_all(const kube::ResourcePath& path, bool children_only,
                                         const std::function<bool(std::string_view)>& on_line);
  Answer write(const std::string& what, const std::function<Answer()>& commit);
  Answer insert(const std::string& plural, nlohmann::json object);
  nlohmann::json& store(const std::string& type, const std::string& plural, nlohmann::json object);
  void drop(const std::string& plural, const kube::ObjectKey& key);
  Answer delete_locked(const kube::ResourcePath& path, const kube::DeleteOptions& options);
  Answer replace_object(const kube::ResourcePath& path, const nlohmann::json& body);
  Answer replace_status(const kube::ResourcePath& path, const nlohmann::json& body);
  void tell(const std::string& type, const std::string& plural, const nlohmann::json& object);
  bool is_delivered() const;

  mutable kube::Mutex mutex_;  // guards all below
  std::condition_variable_any changed_;
  std::map<std::string, std::map<kube::ObjectKey, nlohmann::json>> objects_;
  std::vector<Event> history_;
  std::map<int, Stream> streams_;
  std::set<std::string> held_, forbidden_;
  std::vector<std::string> writes_;
  std::map<std::string, kube::Warnings> warnings_;
  int64_t version_ = 100;
  int next_id_ = 1;
  int num_calls_ = 0;
  int num_writes_ = 0;
  CrashPoint crash_;
  bool has_crashed_ = false;
  OnWrite on_write_;
  std::function<void(const std::string&)> on_commit_;
};

// A refusal as the API server gives it.
kube::ApiError refusal(common::ErrorCode code, int http_status, const std::string& message);

}  // namespace lockstep::control
