// tests/support/object_table.h against a real kube-apiserver: random requests go to both, and both
// must answer alike and keep alike objects: a third of them in `make test`, all in `make
// test-full`. Needs LOCKSTEP_TEST_KUBECONFIG and the CRD. Run by the cluster tests only.
#include <array>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "operator/kube/client.h"
#include "tests/operator/controller/real_server.h"
#include "tests/support/object_table.h"

namespace lockstep::control {
namespace {

using kube::ApiError;
using kube::ApiResult;
using kube::ResourcePath;
using nlohmann::json;
using support::Answer;
using support::Change;
using support::Object;
using support::ObjectTable;
using support::Preconditions;
using support::Refusal;

constexpr std::array kNames = {"a", "b", "c"};
constexpr std::array kFinalizers = {"test.lockstep.dev/x", "test.lockstep.dev/y"};

struct ConfigMapType {
  using Key = int;  // place in kNames
  using Spec = int;
  using Status = int;
  static constexpr bool kNeedsVersion = false;
  static constexpr bool kHasGeneration = false;
  static constexpr bool kCountsSpecChanges = false;
  static constexpr bool kHasStatus = false;
  static int64_t grace_seconds(const Object<ConfigMapType>&, std::optional<int64_t>) { return 0; }

  static ResourcePath path() { return {{"", "v1", "configmaps"}, "", "", ""}; }
  static json body(int spec) {
    return {{"apiVersion", "v1"}, {"kind", "ConfigMap"}, {"data", {{"x", std::to_string(spec)}}}};
  }
  static int spec_of(const json& object) {
    return std::stoi(object["data"]["x"].get<std::string>());
  }
  static int status_of(const json&) { return 0; }
  static json status(int) { return json::object(); }
};

struct TrainingJobType {
  using Key = int;
  using Spec = int;
  using Status = int;
  static constexpr bool kNeedsVersion = true;
  static constexpr bool kHasGeneration = true;
  static constexpr bool kCountsSpecChanges = true;
  static constexpr bool kHasStatus = true;
  static int64_t grace_seconds(const Object<TrainingJobType>&, std::optional<int64_t>) { return 0; }

  static ResourcePath path() { return {kTrainingJobs, "", "", ""}; }
  static json body(int spec) {
    return {
        {"apiVersion", "lockstep.dev/v1alpha1"},
        {"kind", "TrainingJob"},
        // Nobody reconciles it, whatever operator may run.
        {"spec",
         {{"ranks", spec}, {"command", {"true"}}, {"image", "none"}, {"managedBy", "x.dev/y"}}}};
  }
  static int spec_of(const json& object) { return object["spec"]["ranks"]; }
  static int status_of(const json& object) {
    return object.value("/status/attempt"_json_pointer, 0);
  }
  static json status(int status) { return {{"attempt", status}}; }
};

// The spec is whether the pod has a node; it is given by a binding.
struct PodType {
  using Key = int;
  using Spec = int;
  using Status = int;  // 0 Pending, 1 Running, 2 Failed
  static constexpr bool kNeedsVersion = false;
  static constexpr bool kHasGeneration = true;
  static constexpr bool kCountsSpecChanges = false;
  static constexpr bool kHasStatus = true;
  static int64_t grace_seconds(const Object<PodType>& pod, std::optional<int64_t> wish) {
    return pod.spec == 0 || pod.status == 2 ? 0 : wish.value_or(30);
  }

  static ResourcePath path() { return {{"", "v1", "pods"}, "", "", ""}; }
  static json body(int) {
    const json container = {{"name", "c"}, {"image", "none"}};
    return {{"apiVersion", "v1"},
            {"kind", "Pod"},
            {"spec", {{"containers", json::array({container})}, {"schedulerName", "nobody"}}}};
  }
  static int spec_of(const json& object) { return object["spec"].contains("nodeName") ? 1 : 0; }
  static int status_of(const json& object) {
    const std::string phase = object["status"]["phase"];
    return phase == "Failed" ? 2 : phase == "Running" ? 1 : 0;
  }
  static json status(int status) {
    return {{"phase", status == 2 ? "Failed" : status == 1 ? "Running" : "Pending"}};
  }
};

Refusal refusal_of(const ApiResult<json>& result) {
  const auto* error = std::get_if<ApiError>(&result);
  if (error == nullptr) return Refusal::kNone;
  if (error->http_status == 404) return Refusal::kNotFound;
  if (error->reason == "AlreadyExists") return Refusal::kAlreadyExists;
  if (error->reason == "Conflict") return Refusal::kConflict;
  if (error->reason == "Invalid") return Refusal::kInvalid;
  throw std::runtime_error("an answer without a name: " + error->reason + " " +
                           error->error.message);
}

json finalizer_list(uint32_t finalizers) {
  json list = json::array();
  for (std::size_t i = 0; i < kFinalizers.size(); ++i) {
    if ((finalizers >> i & 1U) != 0) list.push_back(kFinalizers[i]);
  }
  return list;
}

// Everything that both keep of one object.
template <typename Type>
json kept(const Object<Type>& item) {
  return {{"spec", item.spec},
          {"status", item.status},
          {"generation", item.generation},
          {"deleting", item.deleting},
          {"grace", item.grace_seconds},
          {"finalizers", finalizer_list(item.finalizers)}};
}

template <typename Type>
json kept(const json& object) {
  const json& metadata = object.at("metadata");
  return {{"spec", Type::spec_of(object)},
          {"status", Type::status_of(object)},
          {"generation", metadata.value("generation", 0)},
          {"deleting", metadata.contains("deletionTimestamp")},
          {"grace", metadata.value("deletionGracePeriodSeconds", 0)},
          {"finalizers", metadata.value("finalizers", json::array())}};
}

// One type of object on both sides.
template <typename Type>
class Replay {
 public:
  Replay(kube::Client& client, std::string ns, uint64_t seed)
      : client_(client), ns_(std::move(ns)), random_(seed) {}

  // One random request to both; fails the test where they differ.
  void step() {
    const int name = below(static_cast<int>(kNames.size()));
    const std::optional<json> before = read(name);
    std::string what;
    Answer expected;
    const ApiResult<json> result = request(name, before, expected, what);
    const std::optional<json> after = read(name);
    const Answer found = {refusal_of(result), change_of(before, after)};
    ++num_requests;
    ++num_of_refusal[found.refusal];
    const Object<Type>* item = table_.find(name);
    const auto* error = std::get_if<ApiError>(&result);
    SCOPED_TRACE(what + (error == nullptr ? "" : ": " + error->error.message) +
                 "; before: " + (before ? kept<Type>(*before).dump() : "nothing"));
    ASSERT_EQ(static_cast<int>(expected.refusal), static_cast<int>(found.refusal));
    ASSERT_EQ(static_cast<int>(expected.change), static_cast<int>(found.change));
    ASSERT_EQ(item != nullptr, after.has_value());
    if (item == nullptr) return;
    ASSERT_EQ(kept(*item), kept<Type>(*after));
    versions_[item->version] = (*after)["metadata"]["resourceVersion"];
    uids_[item->uid] = (*after)["metadata"]["uid"];
  }

  int num_requests = 0;
  std::map<Refusal, int> num_of_refusal;

 private:
  int below(int limit) { return static_cast<int>(random_() % static_cast<unsigned>(limit)); }
  ResourcePath path(int name, const std::string& subresource = "") const {
    ResourcePath path = Type::path();
    path.ns = ns_;
    path.name = name < 0 ? "" : kNames[static_cast<std::size_t>(name)];
    path.subresource = subresource;
    return path;
  }
  std::optional<json> read(int name) {
    const auto result = client_.get(path(name));
    if (const auto* object = std::get_if<json>(&result)) return *object;
    return std::nullopt;
  }
  static Change change_of(const std::optional<json>& before, const std::optional<json>& after) {
    if (!before) return after ? Change::kAdded : Change::kNothing;
    if (!after) return Change::kDeleted;
    const bool is_same =
        (*before)["metadata"]["resourceVersion"] == (*after)["metadata"]["resourceVersion"];
    return is_same ? Change::kNothing : Change::kModified;
  }

  // A version that was seen once, most often the present one; a UID likewise.
  Preconditions some_preconditions(int name) {
    Preconditions only_if;
    const Object<Type>* item = table_.find(name);
    if (below(4) != 0 && item != nullptr) only_if.version = item->version;
    if (below(6) == 0 && !versions_.empty()) only_if.version = pick(versions_);
    if (below(5) == 0 && item != nullptr) only_if.uid = item->uid;
    if (below(12) == 0 && !uids_.empty()) only_if.uid = pick(uids_);
    return only_if;
  }
  int64_t pick(const std::map<int64_t, std::string>& known) {
    return std::next(known.begin(), below(static_cast<int>(known.size())))->first;
  }
  void add_preconditions(json& body, const Preconditions& only_if) const {
    if (only_if.version) body["metadata"]["resourceVersion"] = versions_.at(*only_if.version);
    if (only_if.uid) body["metadata"]["uid"] = uids_.at(*only_if.uid);
  }

  ApiResult<json> request(int name, const std::optional<json>& before, Answer& expected,
                          std::string& what) {
    switch (below(Type::kHasStatus ? 4 : 3)) {
      case 0:
        return create(name, expected, what);
      case 1:
        return replace(name, expected, what);
      case 2:
        return remove(name, expected, what);
      default:
        return replace_status(name, before, expected, what);
    }
  }
  ApiResult<json> create(int name, Answer& expected, std::string& what) {
    const int spec = is_pod() ? 0 : 1 + below(3);
    const auto finalizers = static_cast<uint32_t>(below(3) == 0 ? below(4) : 0);
    what = std::string("create ") + kNames[static_cast<std::size_t>(name)];
    json body = Type::body(spec);
    body["metadata"] = {{"name", kNames[static_cast<std::size_t>(name)]},
                        {"finalizers", finalizer_list(finalizers)}};
    expected = table_.create(counters_, name, spec, finalizers);
    return client_.create(path(-1), body);
  }
  ApiResult<json> replace(int name, Answer& expected, std::string& what) {
    if constexpr (std::is_same_v<Type, PodType>) return bind(name, expected, what);
    const Preconditions only_if = some_preconditions(name);
    const int spec = 1 + below(3);
    const auto finalizers = static_cast<uint32_t>(below(2) == 0 ? below(4) : 0);
    json body = Type::body(spec);
    body["metadata"] = {{"name", kNames[static_cast<std::size_t>(name)]},
                        {"finalizers", finalizer_list(finalizers)}};
    if (Type::kHasStatus) body["status"] = Type::status(9);  // is not listened to here
    add_preconditions(body, only_if);
    what = "replace " + body.dump();
    expected = table_.replace(counters_, name, only_if, spec, finalizers);
    return client_.replace(path(name), body);
  }
  // A pod that has a node, or is being deleted, is bound no more.
  ApiResult<json> bind(int name, Answer& expected, std::string& what) {
    const Object<Type>* item = table_.find(name);
    what = "bind";
    if (item == nullptr) {
      expected = {Refusal::kNotFound, Change::kNothing};
    } else if (item->spec != 0 || item->deleting) {
      expected = {Refusal::kConflict, Change::kNothing};
    } else {
      expected = table_.replace(counters_, name, {}, 1, item->finalizers);
    }
    const json binding = {{"apiVersion", "v1"},
                          {"kind", "Binding"},
                          {"metadata", {{"name", kNames[static_cast<std::size_t>(name)]}}},
                          {"target", {{"kind", "Node"}, {"name", "no-such-node"}}}};
    return client_.create(path(name, "binding"), binding);
  }
  ApiResult<json> replace_status(int name, const std::optional<json>& before, Answer& expected,
                                 std::string& what) {
    const Preconditions only_if = some_preconditions(name);
    const int status = below(3) + (is_pod() ? 0 : 1);  // 0: none was ever written, or Pending
    json body = before.value_or(Type::body(1));
    body["metadata"]["name"] = kNames[static_cast<std::size_t>(name)];
    body["metadata"].erase("resourceVersion");
    body["metadata"].erase("uid");
    body["status"].update(Type::status(status));
    add_preconditions(body, only_if);
    what = "status " + std::to_string(status) + " " + body["metadata"].dump();
    expected = table_.replace_status(counters_, name, only_if, status);
    return client_.replace(path(name, "status"), body);
  }
  ApiResult<json> remove(int name, Answer& expected, std::string& what) {
    const Preconditions only_if = below(2) == 0 ? Preconditions{} : some_preconditions(name);
    std::optional<int64_t> grace;
    if (is_pod() && below(2) == 0) grace = std::array{0, 1, 20, 60}[below(4)];
    kube::DeleteOptions options;
    options.grace_period_seconds = grace;
    options.propagation = "Background";
    if (only_if.version) options.resource_version = versions_.at(*only_if.version);
    if (only_if.uid) options.uid = uids_.at(*only_if.uid);
    what = "delete with grace " + (grace ? std::to_string(*grace) : "of its own");
    expected = table_.remove(counters_, name, only_if, grace);
    return client_.remove(path(name), options);
  }
  static constexpr bool is_pod() { return std::is_same_v<Type, PodType>; }

  kube::Client& client_;
  const std::string ns_;
  std::mt19937_64 random_;
  support::Counters counters_;
  ObjectTable<Type> table_;
  std::map<int64_t, std::string> versions_, uids_;  // the server's names for ours
};

class ObjectTableReplayTest : public testing::Test {
 protected:
  template <typename Type>
  void replay(const char* what, int num_requests_in_full) {
    const int num_requests = num_requests_in_full / case_stride();
    Replay<Type> replay(*client_, ns_.name(), 7);
    while (replay.num_requests < num_requests && !HasFatalFailure()) replay.step();
    std::cout << what << ": " << replay.num_requests << " requests answered alike:";
    for (const auto& [refusal, count] : replay.num_of_refusal) {
      std::cout << " "
                << std::array{"done", "NotFound", "AlreadyExists", "Conflict",
                              "Invalid"}[static_cast<std::size_t>(refusal)]
                << " " << count;
    }
    std::cout << "\n";
    EXPECT_GT(replay.num_of_refusal[Refusal::kNone], num_requests / 10);
    EXPECT_GT(replay.num_of_refusal[Refusal::kConflict], num_requests / 100);
  }

  std::unique_ptr<kube::Client> client_ = connect_to_real_server();
  TestNamespace ns_{*client_, "table"};
};

TEST_F(ObjectTableReplayTest, ConfigMapsAreKeptAsTheServerKeepsThem) {
  replay<ConfigMapType>("ConfigMaps", 600);
}

TEST_F(ObjectTableReplayTest, TrainingJobsAreKeptAsTheServerKeepsThem) {
  replay<TrainingJobType>("TrainingJobs", 800);
}

TEST_F(ObjectTableReplayTest, PodsAreKeptAsTheServerKeepsThem) {
  replay<PodType>("Pods", 800);
}

}  // namespace
}  // namespace lockstep::control
