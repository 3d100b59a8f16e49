#include "operator/kube/informer.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/operator/kube/fake_client.h"

namespace lockstep::kube {
namespace {

using nlohmann::json;
using testing::ElementsAre;

struct Item {
  std::string name;
  int value = 0;
  std::string owner;
};

json object(const std::string& name, const std::string& version, int value,
            const std::string& owner = "") {
  return {{"metadata", {{"namespace", "ns"}, {"name", name}, {"resourceVersion", version}}},
          {"value", value},
          {"owner", owner}};
}
json list_of(const std::string& version, const std::vector<json>& items,
             const std::string& continue_token = "") {
  json metadata = {{"resourceVersion", version}};
  if (!continue_token.empty()) metadata["continue"] = continue_token;
  return {{"metadata", metadata}, {"items", items}};
}
std::string line(const std::string& type, const json& object) {
  return json{{"type", type}, {"object", object}}.dump();
}
std::optional<Item> project(const json& object) {
  if (object.at("value").get<int>() < 0) return std::nullopt;
  return Item{object.at("metadata").at("name"), object.at("value"), object.at("owner")};
}

ApiError gone() {
  return {{common::ErrorCode::kGone, "expired", ""}, 410, "Expired", std::nullopt};
}

// What on_change told, as "name: before -> after".
class Changes {
 public:
  void add(const ObjectKey& key, const Item* before, const Item* after) {
    const auto text = [](const Item* item) {
      return item == nullptr ? "none" : std::to_string(item->value);
    };
    const std::lock_guard lock(mutex_);
    seen_.push_back(key.name + ": " + text(before) + " -> " + text(after));
    changed_.notify_all();
  }
  // Waits until `count` changes are in.
  std::vector<std::string> wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(60), [&] { return seen_.size() >= count; });
    return seen_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> seen_;
};

struct Fixture {
  FakeClient client;
  Store<Item> store{[](const Item& item) { return item.owner; }};
  Changes changes;
  bool initial_events = false;

  Informer<Item> start() {
    WatchTarget target;
    target.path = {{"", "v1", "items"}, "", "", ""};
    target.settings.initial_events = initial_events;
    target.settings.base_backoff = std::chrono::milliseconds(1);
    target.settings.max_backoff = std::chrono::milliseconds(5);
    return {client,
            target,
            store,
            {project, [this](const ObjectKey& key, const Item* before, const Item* after) {
               changes.add(key, before, after);
             }}};
  }
};

TEST(InformerTest, ListsInPagesThenFollowsEvents) {
  Fixture f;
  f.client.add_list(list_of("10", {object("a", "3", 1)}, "more"));
  f.client.add_list(list_of("10", {object("b", "4", 2), object("hidden", "5", -1)}));
  f.client.add_watch(
      {{line("MODIFIED", object("a", "11", 7)), line("ADDED", object("c", "12", 3)),
        line("DELETED", object("b", "13", 2)), line("MODIFIED", object("c", "14", -1))},
       true,
       {}});
  const Informer<Item> informer = f.start();
  EXPECT_THAT(f.changes.wait_for(6), ElementsAre("a: none -> 1", "b: none -> 2", "a: 1 -> 7",
                                                 "c: none -> 3", "b: 2 -> none", "c: 3 -> none"));
  EXPECT_TRUE(informer.has_synced());
  EXPECT_TRUE(f.store.has_synced());
  EXPECT_EQ(f.store.version(), "14");
  EXPECT_EQ(f.store.get({"ns", "a"})->value, 7);
  EXPECT_EQ(f.store.get({"ns", "b"}).has_value(), false);
  EXPECT_EQ(f.client.calls()[1], "list limit=100 continue=more");
}

TEST(InformerTest, InitialEventsFillTheStoreAndTheWatchGoesOnFromTheirEnd) {
  Fixture f;
  f.initial_events = true;
  const json end = {
      {"metadata",
       {{"resourceVersion", "10"}, {"annotations", {{"k8s.io/initial-events-end", "true"}}}}}};
  f.client.add_watch({{line("ADDED", object("a", "3", 1)), line("ADDED", object("b", "4", 2)),
                       line("MODIFIED", object("a", "5", 6)), line("DELETED", object("b", "6", 2)),
                       line("BOOKMARK", end)},
                      true,
                      {}});
  f.client.add_watch({{line("ADDED", object("c", "11", 3))}, false, gone()});
  f.client.add_watch(
      {{line("ADDED", object("c", "11", 4)),
        line("BOOKMARK", {{"metadata",
                           {{"resourceVersion", "20"},
                            {"annotations", {{"k8s.io/initial-events-end", "true"}}}}}})},
       true,
       {}});
  const Informer<Item> informer = f.start();
  EXPECT_THAT(f.changes.wait_for(4),
              ElementsAre("a: none -> 6", "c: none -> 3", "a: 6 -> none", "c: 3 -> 4"));
  const std::vector<std::string> calls = f.client.calls();
  EXPECT_NE(calls[0].find("sendInitialEvents=true"), std::string::npos);
  EXPECT_NE(calls[1].find("&resourceVersion=10&"), std::string::npos);
  EXPECT_NE(calls[2].find("sendInitialEvents=true"), std::string::npos);
}

TEST(InformerTest, AServerWithoutInitialEventsIsListedAtOnceAndNotAskedAgain) {
  Fixture f;
  f.initial_events = true;
  const ApiError unknown{
      {common::ErrorCode::kInvalidArgument, "forbidden for watch", ""}, 422, "Invalid", {}};
  f.client.add_watch({{}, false, unknown});
  f.client.add_list(list_of("10", {object("a", "3", 1)}));
  f.client.add_watch({{}, false, gone()});
  f.client.add_list(list_of("20", {object("a", "11", 2)}));
  const Informer<Item> informer = f.start();
  EXPECT_THAT(f.changes.wait_for(2), ElementsAre("a: none -> 1", "a: 1 -> 2"));
}

TEST(InformerTest, DeletionsMissedDuringARelistAreTold) {
  Fixture f;
  f.client.add_list(list_of("10", {object("a", "3", 1), object("b", "4", 2)}));
  f.client.add_watch({{}, false, gone()});
  f.client.add_list(list_of("20", {object("b", "15", 5), object("c", "16", 3)}));
  const Informer<Item> informer = f.start();
  EXPECT_THAT(f.changes.wait_for(5), ElementsAre("a: none -> 1", "b: none -> 2", "a: 1 -> none",
                                                 "b: 2 -> 5", "c: none -> 3"));
}

TEST(InformerTest, AStaleRelistIsRefused) {
  Fixture f;
  f.client.add_list(list_of("100", {object("a", "3", 1)}));
  f.client.add_watch({{}, false, gone()});
  f.client.add_list(list_of("99", {}));
  f.client.add_list(list_of("101", {object("a", "101", 2)}));
  const Informer<Item> informer = f.start();
  EXPECT_THAT(f.changes.wait_for(2), ElementsAre("a: none -> 1", "a: 1 -> 2"));
}

TEST(InformerTest, ACutWatchResumesFromTheLastVersionWithoutARelist) {
  Fixture f;
  f.client.add_list(list_of("10", {}));
  const ApiError cut{{common::ErrorCode::kUnavailable, "cut", ""}, 0, "", std::nullopt};
  f.client.add_watch({{line("ADDED", object("a", "11", 1))}, false, cut});
  f.client.add_watch({{line("MODIFIED", object("a", "12", 2))}, true, {}});
  const Informer<Item> informer = f.start();
  EXPECT_THAT(f.changes.wait_for(2), ElementsAre("a: none -> 1", "a: 1 -> 2"));
  const std::vector<std::string> calls = f.client.calls();
  ASSERT_EQ(calls.size(), 3U);
  EXPECT_NE(calls[2].find("resourceVersion=11&"), std::string::npos);
}

TEST(InformerTest, BookmarksAdvanceTheStore) {
  Fixture f;
  f.client.add_list(list_of("10", {}));
  const json bookmark = {{"metadata", {{"resourceVersion", "50"}}}};
  f.client.add_watch({{line("BOOKMARK", bookmark), line("ADDED", object("a", "51", 1))}, true, {}});
  f.client.add_watch({{}, true, {}});
  const Informer<Item> informer = f.start();
  f.changes.wait_for(1);
  EXPECT_EQ(f.store.version(), "51");
}

TEST(InformerTest, AnObjectThatCannotBeReadIsLeftOutAndTheRestGoesOn) {
  Fixture f;
  json damaged = object("x", "4", 1);
  damaged["value"] = "text";
  f.client.add_list(list_of("10", {damaged, object("a", "5", 1)}));
  damaged["metadata"]["resourceVersion"] = "11";
  f.client.add_watch(
      {{line("MODIFIED", damaged), line("MODIFIED", object("a", "12", 2))}, true, {}});
  const Informer<Item> informer = f.start();
  EXPECT_THAT(f.changes.wait_for(2), ElementsAre("a: none -> 1", "a: 1 -> 2"));
}

TEST(InformerTest, EndsPromptlyInAListErrorLoopAndInAnIdleWatch) {
  Fixture failing;  // nothing scripted: every list fails
  { const Informer<Item> informer = failing.start(); }
  Fixture idle;
  idle.client.add_list(list_of("10", {object("a", "3", 1)}));
  {
    const Informer<Item> informer = idle.start();
    idle.changes.wait_for(1);
  }
  EXPECT_TRUE(idle.store.has_synced());
}

TEST(StoreTest, GroupsFollowTheirValues) {
  Store<Item> store([](const Item& item) { return item.owner; });
  store.put({"ns", "a"}, Item{"a", 1, "u1"}, "1");
  store.put({"ns", "b"}, Item{"b", 2, "u1"}, "2");
  store.put({"ns", "c"}, Item{"c", 3, ""}, "3");
  EXPECT_EQ(store.find("u1").size(), 2U);
  EXPECT_EQ(store.find("").size(), 0U);
  store.put({"ns", "a"}, Item{"a", 1, "u2"}, "4");
  EXPECT_EQ(store.find("u1").size(), 1U);
  EXPECT_EQ(store.find("u2").size(), 1U);
  store.put({"ns", "b"}, std::nullopt, "5");
  EXPECT_EQ(store.find("u1").size(), 0U);
  EXPECT_EQ(store.keys(), (std::vector<ObjectKey>{{"ns", "a"}, {"ns", "c"}}));
  EXPECT_EQ(store.generation(), 5U);
  EXPECT_EQ(store.version(), "5");
}

TEST(StoreTest, ReplaceTellsWhatWasDeletedAndKeepsOnlyTheNew) {
  Store<Item> store;
  EXPECT_FALSE(store.has_synced());
  store.replace({{{"ns", "a"}, Item{"a", 1, ""}}, {{"ns", "b"}, Item{"b", 2, ""}}}, "5");
  EXPECT_TRUE(store.has_synced());
  const auto changes = store.replace({{{"ns", "b"}, Item{"b", 3, ""}}}, "9");
  ASSERT_EQ(changes.size(), 2U);
  EXPECT_EQ(changes[0].key.name, "a");
  EXPECT_EQ(changes[0].before->value, 1);
  EXPECT_FALSE(changes[0].after.has_value());
  EXPECT_EQ(changes[1].before->value, 2);
  EXPECT_EQ(changes[1].after->value, 3);
  EXPECT_EQ(store.size(), 1U);
  EXPECT_EQ(store.list().front().value, 3);
}

}  // namespace
}  // namespace lockstep::kube
