// The rules by which an API server keeps the objects of one type: names, UIDs, resource versions,
// generations, preconditions, finalizers, graceful deletion. A value, cheap to copy, so that a
// model checker can hold a million of them. tests/operator/controller/object_table_replay_test.cc
// holds these rules against a real kube-apiserver.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace lockstep::support {

enum class Refusal { kNone, kNotFound, kAlreadyExists, kConflict, kInvalid };
enum class Change { kNothing, kAdded, kModified, kDeleted };

// What a request came to, and what a watch tells of it.
struct Answer {
  Refusal refusal = Refusal::kNone;
  Change change = Change::kNothing;
  bool operator==(const Answer&) const = default;
};

// Of the whole server: every change takes the next version, every new object the next UID.
struct Counters {
  int64_t version = 0;
  int64_t uid = 0;
};

struct Preconditions {
  std::optional<int64_t> uid;
  std::optional<int64_t> version;
};

// One object. `Type` has Key, Spec and Status (values with ==) and the rules of its kind:
//   kNeedsVersion       an update without a resource version is invalid
//   kHasGeneration      the generation begins at 1 and counts the deletion,
//   kCountsSpecChanges  and changes of the spec
//   static int64_t grace_seconds(const Object<Type>&, std::optional<int64_t> wish)
//                       how long a deletion may take, in seconds; 0 = at once
template <typename Type>
struct Object {
  typename Type::Key key{};
  typename Type::Spec spec{};
  typename Type::Status status{};
  int64_t uid = 0;
  int64_t version = 0;
  int64_t generation = Type::kHasGeneration ? 1 : 0;
  uint32_t finalizers = 0;    // one bit each
  bool deleting = false;      // has a deletionTimestamp
  int64_t grace_seconds = 0;  // of that deletion
};

template <typename Type>
class ObjectTable {
 public:
  using Item = Object<Type>;
  using Key = typename Type::Key;

  const std::vector<Item>& items() const { return items_; }  // in the order of their keys
  std::vector<Item>& items() { return items_; }
  const Item* find(const Key& key) const {
    const auto place = lower_bound(key);
    return place != items_.end() && place->key == key ? &*place : nullptr;
  }

  Answer create(Counters& counters, const Key& key, typename Type::Spec spec,
                uint32_t finalizers = 0) {
    const auto place = lower_bound(key);
    if (place != items_.end() && place->key == key) return {Refusal::kAlreadyExists, {}};
    Item item;
    item.key = key;
    item.spec = std::move(spec);
    item.uid = ++counters.uid;
    item.version = ++counters.version;
    item.finalizers = finalizers;
    items_.insert(place, std::move(item));
    return {Refusal::kNone, Change::kAdded};
  }

  // Writes spec and finalizers, as a PUT of the object does; the status stays.
  Answer replace(Counters& counters, const Key& key, const Preconditions& only_if,
                 typename Type::Spec spec, uint32_t finalizers = 0) {
    const auto [item, refusal] = find_for_update(key, only_if);
    if (refusal != Refusal::kNone) return {refusal, {}};
    if (item->deleting && (finalizers & ~item->finalizers) != 0) return {Refusal::kInvalid, {}};
    const bool is_other_spec = !(item->spec == spec);
    if (!is_other_spec && item->finalizers == finalizers) return {};
    if (is_other_spec && Type::kCountsSpecChanges) ++item->generation;
    item->spec = std::move(spec);
    item->finalizers = finalizers;
    item->version = ++counters.version;
    if (!item->deleting || finalizers != 0 || item->grace_seconds != 0) {
      return {Refusal::kNone, Change::kModified};
    }
    erase(key);
    return {Refusal::kNone, Change::kDeleted};
  }

  // Writes the status, as a PUT of the subresource does; all else stays.
  Answer replace_status(Counters& counters, const Key& key, const Preconditions& only_if,
                        typename Type::Status status) {
    const auto [item, refusal] = find_for_update(key, only_if);
    if (refusal != Refusal::kNone) return {refusal, {}};
    if (item->status == status) return {};
    item->status = std::move(status);
    item->version = ++counters.version;
    return {Refusal::kNone, Change::kModified};
  }

  //   grace_wish: seconds; 0 forces. Nothing = what the object itself says.
  Answer remove(Counters& counters, const Key& key, const Preconditions& only_if = {},
                std::optional<int64_t> grace_wish = std::nullopt) {
    const auto place = lower_bound(key);
    if (place == items_.end() || place->key != key) return {Refusal::kNotFound, {}};
    Item& item = *place;
    if (!matches(item, only_if)) return {Refusal::kConflict, {}};
    const int64_t grace = item.deleting ? grace_wish.value_or(item.grace_seconds)
                                        : Type::grace_seconds(item, grace_wish);
    if (item.finalizers == 0 && grace == 0) {
      ++counters.version;
      items_.erase(place);
      return {Refusal::kNone, Change::kDeleted};
    }
    // What is being deleted may be hurried, and nothing else.
    if (item.deleting && grace >= item.grace_seconds) return {};
    if (Type::kHasGeneration && !item.deleting) ++item.generation;
    item.deleting = true;
    item.grace_seconds = grace;
    item.version = ++counters.version;
    return {Refusal::kNone, Change::kModified};
  }

  // What a watch told, taken over as it stands.
  void put(const Item& item) {
    const auto place = lower_bound(item.key);
    if (place != items_.end() && place->key == item.key) {
      *place = item;
    } else {
      items_.insert(place, item);
    }
  }
  void erase(const Key& key) {
    const auto place = lower_bound(key);
    if (place != items_.end() && place->key == key) items_.erase(place);
  }

 private:
  auto lower_bound(const Key& key) {
    return std::lower_bound(items_.begin(), items_.end(), key,
                            [](const Item& item, const Key& wanted) { return item.key < wanted; });
  }
  auto lower_bound(const Key& key) const {
    return std::lower_bound(items_.begin(), items_.end(), key,
                            [](const Item& item, const Key& wanted) { return item.key < wanted; });
  }
  static bool matches(const Item& item, const Preconditions& only_if) {
    return only_if.uid.value_or(item.uid) == item.uid &&
           only_if.version.value_or(item.version) == item.version;
  }
  std::pair<Item*, Refusal> find_for_update(const Key& key, const Preconditions& only_if) {
    const auto place = lower_bound(key);
    if (place == items_.end() || place->key != key) return {nullptr, Refusal::kNotFound};
    if (only_if.uid.value_or(place->uid) != place->uid) return {nullptr, Refusal::kConflict};
    if (Type::kNeedsVersion && !only_if.version) return {nullptr, Refusal::kInvalid};
    if (!matches(*place, only_if)) return {nullptr, Refusal::kConflict};
    return {&*place, Refusal::kNone};
  }

  std::vector<Item> items_;
};

}  // namespace lockstep::support
