// operator/kube against a real kube-apiserver. Needs LOCKSTEP_TEST_KUBECONFIG, and for the test of
// a killed server LOCKSTEP_TEST_RESTART_APISERVER: a command that kills the API server with SIGKILL
// and returns once it serves again. Run by the cluster tests only.
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "operator/kube/http_client.h"
#include "operator/kube/informer.h"
#include "operator/kube/kubeconfig.h"
#include "tests/operator/kube/tunnel_proxy.h"

namespace lockstep::kube {
namespace {

using common::ErrorCode;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLimit{60};  // of liveness only
const ResourceType kConfigMaps{"", "v1", "configmaps"};

std::string required_env(const std::string& name) {
  const std::optional<std::string> value = read_env(name);
  if (!value || value->empty()) throw std::runtime_error(name + " is not set");
  return *value;
}

ClientConfig admin_config() {
  const auto config = load_kubeconfig(
      {.path = required_env("LOCKSTEP_TEST_KUBECONFIG"), .context = ""}, read_env, read_file);
  if (!config) throw std::runtime_error(config.error().message);
  return *config;
}

std::unique_ptr<Client> connect(const ClientConfig& config) {
  auto client = make_http_client(config, {});
  if (!client) throw std::runtime_error(client.error().message);
  return std::move(client).value();
}

json value_of(const ApiResult<json>& result) {
  if (const auto* error = std::get_if<ApiError>(&result)) {
    ADD_FAILURE() << error->http_status << " " << error->error.message;
    return json::object();
  }
  return std::get<json>(result);
}
ApiError error_of(const ApiResult<json>& result) {
  const auto* error = std::get_if<ApiError>(&result);
  if (error != nullptr) return *error;
  ADD_FAILURE() << "the call was not refused";
  return {};
}

// Each test works in a namespace of its own, deleted at its end.
class RealServerTest : public testing::Test {
 protected:
  void SetUp() override {
    config_ = admin_config();
    client_ = connect(config_);
    const auto now = std::chrono::system_clock::now().time_since_epoch().count();
    ns_ = "kube-test-" + std::to_string(now);
    value_of(client_->create(
        {{"", "v1", "namespaces"}, "", "", ""},
        {{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", ns_}}}}));
  }
  void TearDown() override {
    if (client_) client_->remove({{"", "v1", "namespaces"}, "", ns_, ""}, {});
  }

  ResourcePath path(const std::string& name) const { return {kConfigMaps, ns_, name, ""}; }
  json body(const std::string& name, const std::string& value) const {
    return {{"apiVersion", "v1"},
            {"kind", "ConfigMap"},
            {"metadata", {{"name", name}, {"namespace", ns_}}},
            {"data", {{"x", value}}}};
  }
  json create(const std::string& name, const std::string& value) {
    return value_of(client_->create(path(""), body(name, value)));
  }

  ClientConfig config_;
  std::unique_ptr<Client> client_;
  std::string ns_;
};

TEST_F(RealServerTest, CreatesReadsReplacesPatchesListsAndDeletes) {
  const json created = create("a", "1");
  EXPECT_EQ(created["metadata"]["managedFields"][0]["manager"], "lockstep-operator");
  json read = value_of(client_->get(path("a")));
  EXPECT_EQ(read["data"]["x"], "1");
  read["data"]["x"] = "2";
  EXPECT_EQ(value_of(client_->replace(path("a"), read))["data"]["x"], "2");
  const json patch = {{"data", {{"y", "3"}}}};
  EXPECT_EQ(value_of(client_->patch(path("a"), PatchType::kMerge, patch))["data"]["y"], "3");
  EXPECT_EQ(value_of(client_->patch(path("b"), PatchType::kApply, body("b", "9")))["data"]["x"],
            "9");
  const json listed = value_of(client_->list(
      path(""), {.label_selector = "", .field_selector = "metadata.name!=kube-root-ca.crt"}, {}));
  EXPECT_EQ(listed["items"].size(), 2U);
  value_of(client_->remove(path("a"), {}));
  EXPECT_EQ(error_of(client_->get(path("a"))).error.code, ErrorCode::kNotFound);
}

TEST_F(RealServerTest, EveryMeaningOf409IsTold) {
  const json created = create("a", "1");
  const ApiError exists = error_of(client_->create(path(""), body("a", "1")));
  EXPECT_EQ(exists.error.code, ErrorCode::kAlreadyExists);
  EXPECT_EQ(exists.http_status, 409);
  value_of(client_->patch(path("a"), PatchType::kMerge, {{"data", {{"x", "2"}}}}));
  EXPECT_EQ(error_of(client_->replace(path("a"), created)).error.code, ErrorCode::kConflict);
  const ApiError precondition = error_of(
      client_->remove(path("a"), {.grace_period_seconds = {}, .uid = "not-it", .propagation = ""}));
  EXPECT_EQ(precondition.error.code, ErrorCode::kConflict);
  EXPECT_NE(precondition.error.message.find("precondition"), std::string::npos);
  value_of(client_->remove(
      path("a"),
      {.grace_period_seconds = 0, .uid = created["metadata"]["uid"], .propagation = "Background"}));
}

TEST_F(RealServerTest, AMisspeltFieldIsRefused) {
  json misspelt = body("a", "1");
  misspelt["dota"] = 1;
  const ApiError error = error_of(client_->create(path(""), misspelt));
  EXPECT_EQ(error.error.code, ErrorCode::kInvalidArgument);
  EXPECT_NE(error.error.message.find("dota"), std::string::npos) << error.error.message;
}

TEST_F(RealServerTest, ListsInPagesAndRefusesABadContinueToken) {
  for (const char* name : {"a", "b", "c"}) create(name, "1");
  const json page = value_of(
      client_->list(path(""), {.label_selector = "", .field_selector = "", .limit = 2}, {}));
  EXPECT_EQ(page["items"].size(), 2U);
  const std::string token = page["metadata"]["continue"];
  EXPECT_FALSE(token.empty());
  const json rest = value_of(client_->list(
      path(""), {.label_selector = "", .field_selector = "", .limit = 2, .continue_token = token},
      {}));
  EXPECT_GE(rest["items"].size(), 1U);
  EXPECT_EQ(
      error_of(client_->list(
                   path(""),
                   {.label_selector = "", .field_selector = "", .limit = 2, .continue_token = "x"},
                   {}))
          .http_status,
      400);
}

// A service account's token instead of the client certificate: may read what its role says, only.
TEST_F(RealServerTest, ServiceAccountTokensAuthenticate) {
  value_of(client_->create(
      {{"", "v1", "serviceaccounts"}, ns_, "", ""},
      {{"apiVersion", "v1"}, {"kind", "ServiceAccount"}, {"metadata", {{"name", "robot"}}}}));
  const json request = {{"apiVersion", "authentication.k8s.io/v1"},
                        {"kind", "TokenRequest"},
                        {"spec", json::object()}};
  const json answer =
      value_of(client_->create({{"", "v1", "serviceaccounts"}, ns_, "robot", "token"}, request));
  ClientConfig config = config_;
  config.tls.client_cert_pem.clear();
  config.tls.client_key_pem.clear();
  config.token = answer["status"]["token"];
  const json review = {{"apiVersion", "authentication.k8s.io/v1"}, {"kind", "SelfSubjectReview"}};
  const ResourcePath whoami{{"authentication.k8s.io", "v1", "selfsubjectreviews"}, "", "", ""};
  EXPECT_EQ(value_of(connect(config)->create(whoami, review))["status"]["userInfo"]["username"],
            "system:serviceaccount:" + ns_ + ":robot");
  EXPECT_EQ(error_of(connect(config)->get(path("a"))).http_status, 403);
  config.token = "forged";
  EXPECT_EQ(error_of(connect(config)->get(path("a"))).http_status, 401);
}

// The first call fails on the wrong authority, reads the file again and goes out on the right one.
TEST_F(RealServerTest, ARotatedAuthorityIsReadAgainWhenTheServerIsNotVouchedFor) {
  std::string folder = testing::TempDir() + "ca-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  ClientConfig rotated = config_;
  rotated.tls.ca_file = folder + "/ca.crt";
  std::ofstream(rotated.tls.ca_file) << config_.tls.ca_pem;
  rotated.tls.ca_pem =
      config_.tls.client_cert_pem;  // a certificate, but no authority of the server
  EXPECT_EQ(error_of(connect(rotated)->get(path("a"))).http_status, 404);
  std::filesystem::remove_all(folder);
}

TEST_F(RealServerTest, AProxysTunnelIsVerifiedEndToEnd) {
  TunnelProxy proxy;
  ClientConfig through = config_;
  through.proxy_url = proxy.url();
  through.tls.server_name = "kubernetes.default.svc";
  {
    const auto client = connect(through);
    value_of(client->create(path(""), body("a", "1")));
    EXPECT_EQ(value_of(client->get(path("a")))["data"]["x"], "1");
  }
  EXPECT_EQ(proxy.request().substr(0, 18), "CONNECT 127.0.0.1:");
}

TEST_F(RealServerTest, InitialEventsEndWithABookmarkOfTheirVersion) {
  create("a", "1");
  WatchState state({.label_selector = "", .field_selector = "metadata.name!=kube-root-ca.crt"});
  const auto action = std::get<WatchAction>(state.next(0).action);
  ASSERT_TRUE(action.is_initial);
  int num_listed = 0;
  bool ended = false;
  const auto error = client_->stream(path(""), action.query, {}, [&](std::string_view line) {
    const EventVerdict verdict = state.on_line(line);
    if (std::holds_alternative<ListedEvent>(verdict)) ++num_listed;
    ended = std::holds_alternative<ListEnd>(verdict);
    return !ended;
  });
  EXPECT_FALSE(error.has_value()) << error->error.message;
  EXPECT_TRUE(ended);
  EXPECT_EQ(num_listed, 1);
  EXPECT_FALSE(state.version().empty());
}

TEST_F(RealServerTest, AServerThatIsNotVouchedForIsRefused) {
  ClientConfig without_ca = config_;
  without_ca.tls.ca_pem.clear();
  EXPECT_NE(error_of(connect(without_ca)->get(path("a"))).error.message.find("not trusted"),
            std::string::npos);
  ClientConfig other_name = config_;
  other_name.tls.server_name = "elsewhere.example.com";
  EXPECT_NE(error_of(connect(other_name)->get(path("a"))).error.message.find("ostname mismatch"),
            std::string::npos)
      << error_of(connect(other_name)->get(path("a"))).error.message;
  ClientConfig right_name = config_;
  right_name.tls.server_name = "kubernetes.default.svc";
  EXPECT_EQ(error_of(connect(right_name)->get(path("a"))).http_status, 404);
}

// A server that has just started knows no history.
TEST_F(RealServerTest, AnExpiredVersionIsToldAsGone) {
  ASSERT_EQ(std::system(required_env("LOCKSTEP_TEST_RESTART_APISERVER").c_str()), 0);
  json last_event;
  const auto error = client_->stream(path(""), "watch=true&resourceVersion=1&timeoutSeconds=5", {},
                                     [&](std::string_view line) {
                                       last_event = json::parse(line);
                                       return last_event["type"] != "ERROR";
                                     });
  const bool refused = error && error->error.code == ErrorCode::kGone;
  const bool told = last_event.value("/object/code"_json_pointer, 0) == 410;
  EXPECT_TRUE(refused || told) << (error ? error->error.message : last_event.dump());
}

TEST_F(RealServerTest, ASilentStreamIsCancelledAtOnce) {
  const std::string version =
      value_of(client_->list(path(""), {}, {}))["metadata"]["resourceVersion"];
  std::vector<double> latencies_ms;
  for (int i = 0; i < 10; ++i) {
    Clock::time_point asked;
    {
      std::jthread reader([&](const std::stop_token& stop) {
        const auto error =
            client_->stream(path(""), "watch=true&timeoutSeconds=300&resourceVersion=" + version,
                            stop, [](std::string_view) { return true; });
        EXPECT_FALSE(error.has_value());
      });
      // The first times in mid-handshake, the later ones in an open stream.
      std::this_thread::sleep_for(std::chrono::milliseconds(10 * i));
      asked = Clock::now();
    }
    latencies_ms.push_back(std::chrono::duration<double, std::milli>(Clock::now() - asked).count());
    EXPECT_LT(latencies_ms.back(), 5000.0);
  }
  for (const double latency : latencies_ms) std::printf("cancelled after %.1f ms\n", latency);
}

// The names and values of the namespace's ConfigMaps as an informer sees them.
struct Mirror {
  Store<std::string> store;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> troubles;

  WatchTarget target(const std::string& ns) {
    WatchTarget out;
    out.path = {kConfigMaps, ns, "", ""};
    out.selectors.field_selector = "metadata.name!=kube-root-ca.crt";
    out.on_trouble = [this](const std::string& message) {
      const std::lock_guard lock(mutex);
      troubles.push_back(message);
    };
    return out;
  }
  Informer<std::string>::Callbacks callbacks() {
    return {
        [](const json& object) { return std::optional<std::string>(object.at("data").at("x")); },
        [this](const ObjectKey&, const std::string*, const std::string*) {
          const std::lock_guard lock(mutex);
          changed.notify_all();
        }};
  }
  bool wait_until(const std::function<bool()>& holds) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, kLimit, holds);
  }
};

TEST_F(RealServerTest, AnInformerFollowsChangesAndDeletions) {
  create("a", "1");
  create("b", "2");
  Mirror mirror;
  const Informer<std::string> informer(*client_, mirror.target(ns_), mirror.store,
                                       mirror.callbacks());
  EXPECT_TRUE(mirror.wait_until([&] { return mirror.store.size() == 2; }));
  value_of(client_->patch(path("a"), PatchType::kMerge, {{"data", {{"x", "7"}}}}));
  EXPECT_TRUE(mirror.wait_until([&] { return mirror.store.get({ns_, "a"}) == "7"; }));
  value_of(client_->remove(path("b"), {}));
  EXPECT_TRUE(mirror.wait_until([&] { return !mirror.store.get({ns_, "b"}); }));
  create("b", "3");
  EXPECT_TRUE(mirror.wait_until([&] { return mirror.store.get({ns_, "b"}) == "3"; }));
}

TEST_F(RealServerTest, AnInformerOutlivesAKilledServer) {
  create("a", "1");
  Mirror mirror;
  const Informer<std::string> informer(*client_, mirror.target(ns_), mirror.store,
                                       mirror.callbacks());
  ASSERT_TRUE(mirror.wait_until([&] { return mirror.store.size() == 1; }));
  ASSERT_EQ(std::system(required_env("LOCKSTEP_TEST_RESTART_APISERVER").c_str()), 0);
  value_of(client_->patch(path("a"), PatchType::kMerge, {{"data", {{"x", "2"}}}}));
  const Clock::time_point changed_at = Clock::now();
  EXPECT_TRUE(mirror.wait_until([&] { return mirror.store.get({ns_, "a"}) == "2"; }));
  std::printf("seen %.0f ms after the change\n",
              std::chrono::duration<double, std::milli>(Clock::now() - changed_at).count());
  value_of(client_->remove(path("a"), {}));
  EXPECT_TRUE(mirror.wait_until([&] { return mirror.store.size() == 0; }));
  const std::lock_guard lock(mirror.mutex);
  for (const std::string& trouble : mirror.troubles) std::printf("trouble: %s\n", trouble.c_str());
}

}  // namespace
}  // namespace lockstep::kube
