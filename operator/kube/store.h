// The objects of one resource type as the API server last told them, projected to typed values.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "operator/kube/mutex.h"
#include "operator/kube/object_key.h"

namespace lockstep::kube {

// Written by one informer, read from any thread; readers get copies.
template <typename T>
class Store {
 public:
  // What changed: `before` absent = added, `after` absent = deleted.
  struct Change {
    ObjectKey key;
    std::optional<T> before;
    std::optional<T> after;
  };

  Store() = default;
  // `index_of` names the group of a value, e.g. its owner's UID, for find(); empty = in no group.
  // It is called under the store's lock and must be pure.
  explicit Store(std::function<std::string(const T&)> index_of) : index_of_(std::move(index_of)) {}

  std::optional<T> get(const ObjectKey& key) const {
    const MutexLock lock(mutex_);
    const auto it = values_.find(key);
    if (it == values_.end()) return std::nullopt;
    return it->second;
  }

  // All values, in order of key.
  std::vector<T> list() const {
    const MutexLock lock(mutex_);
    std::vector<T> out;
    out.reserve(values_.size());
    for (const auto& [key, value] : values_) out.push_back(value);
    return out;
  }

  std::vector<ObjectKey> keys() const {
    const MutexLock lock(mutex_);
    std::vector<ObjectKey> out;
    out.reserve(values_.size());
    for (const auto& [key, value] : values_) out.push_back(key);
    return out;
  }

  // The values in group `index`, in order of key.
  std::vector<T> find(const std::string& index) const {
    const MutexLock lock(mutex_);
    std::vector<T> out;
    const auto group = groups_.find(index);
    if (group == groups_.end()) return out;
    for (const ObjectKey& key : group->second) out.push_back(values_.at(key));
    return out;
  }

  std::size_t size() const {
    const MutexLock lock(mutex_);
    return values_.size();
  }

  // True once the first complete list is in.
  bool has_synced() const {
    const MutexLock lock(mutex_);
    return has_synced_;
  }

  // The newest resource version that the values reflect; empty before the first list. A writer that
  // must see its own write waits until is_older(version(), the write's version) is false.
  std::string version() const {
    const MutexLock lock(mutex_);
    return version_;
  }

  // Grows with every change of a value.
  uint64_t generation() const {
    const MutexLock lock(mutex_);
    return generation_;
  }

  // Adds or replaces one value; nothing = the object is gone or of no interest.
  Change put(const ObjectKey& key, std::optional<T> value, const std::string& version) {
    const MutexLock lock(mutex_);
    version_ = version;
    return put_locked(key, std::move(value));
  }

  // Makes `values` the whole content; what is absent in it has been deleted.
  std::vector<Change> replace(std::map<ObjectKey, T> values, const std::string& version) {
    const MutexLock lock(mutex_);
    std::vector<Change> changes;
    changes.reserve(values.size());
    std::vector<ObjectKey> gone;
    for (const auto& [key, value] : values_) {
      if (!values.contains(key)) gone.push_back(key);
    }
    for (const ObjectKey& key : gone) changes.push_back(put_locked(key, std::nullopt));
    for (auto& [key, value] : values) changes.push_back(put_locked(key, std::move(value)));
    version_ = version;
    has_synced_ = true;
    return changes;
  }

  // A bookmark: nothing changed up to `version`.
  void advance(const std::string& version) {
    const MutexLock lock(mutex_);
    version_ = version;
  }

 private:
  Change put_locked(const ObjectKey& key, std::optional<T> value) REQUIRES(mutex_) {
    Change change{key, std::nullopt, value};
    const auto it = values_.find(key);
    if (it != values_.end()) {
      forget_group(key, it->second);
      change.before = std::move(it->second);
      values_.erase(it);
    }
    if (value) {
      const std::string index = index_of_ ? index_of_(*value) : std::string();
      if (!index.empty()) groups_[index].insert(key);
      values_.emplace(key, std::move(*value));
    }
    if (change.before || change.after) ++generation_;
    return change;
  }

  void forget_group(const ObjectKey& key, const T& value) REQUIRES(mutex_) {
    if (!index_of_) return;
    const auto group = groups_.find(index_of_(value));
    if (group == groups_.end()) return;
    group->second.erase(key);
    if (group->second.empty()) groups_.erase(group);
  }

  const std::function<std::string(const T&)> index_of_;
  mutable Mutex mutex_;
  std::map<ObjectKey, T> values_ GUARDED_BY(mutex_);
  std::map<std::string, std::set<ObjectKey>> groups_ GUARDED_BY(mutex_);
  std::string version_ GUARDED_BY(mutex_);
  uint64_t generation_ GUARDED_BY(mutex_) = 0;
  bool has_synced_ GUARDED_BY(mutex_) = false;
};

}  // namespace lockstep::kube
