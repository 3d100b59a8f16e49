#include "tests/cluster/faulty_cluster.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <utility>
#include <variant>

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "operator/controller/controller.h"
#include "operator/kube/http_client.h"
#include "operator/kube/kubeconfig.h"
#include "operator/kube/object_key.h"

namespace lockstep::testing {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

namespace {

const kube::ResourceType kNamespaces{"", "v1", "namespaces"};
const kube::ResourceType kAccounts{"", "v1", "serviceaccounts"};
const kube::ResourceType kBindings{"rbac.authorization.k8s.io", "v1", "clusterrolebindings"};
const kube::ResourceType kPods{"", "v1", "pods"};
const kube::ResourceType kJobs{"lockstep.dev", "v1alpha1", "trainingjobs"};
constexpr std::chrono::milliseconds kLook{50};

json value_of(const kube::ApiResult<json>& result) {
  if (const auto* error = std::get_if<kube::ApiError>(&result)) {
    throw std::runtime_error(error->error.message);
  }
  return std::get<json>(result);
}

kube::ClientConfig admin_config() {
  const std::string path = kube::read_env("LOCKSTEP_TEST_KUBECONFIG").value_or("");
  if (path.empty()) throw std::runtime_error("LOCKSTEP_TEST_KUBECONFIG is not set");
  const auto config =
      kube::load_kubeconfig({.path = path, .context = ""}, kube::read_env, kube::read_file);
  if (!config) throw std::runtime_error(config.error().message);
  return *config;
}

json meta(const std::string& kind, const std::string& api_version, const std::string& name) {
  return {{"apiVersion", api_version}, {"kind", kind}, {"metadata", {{"name", name}}}};
}

}  // namespace

FaultyCluster::FaultyCluster(const std::string& job, uint64_t seed)
    : job_(job),
      ns_(job + "-" + std::to_string(std::chrono::system_clock::now().time_since_epoch().count())),
      admin_(admin_config()) {
  auto client = kube::make_http_client(admin_, {});
  if (!client) throw std::runtime_error(client.error().message);
  client_ = std::move(client).value();
  value_of(client_->create({kNamespaces, "", "", ""}, meta("Namespace", "v1", ns_)));
  value_of(client_->create({kAccounts, ns_, "", ""}, meta("ServiceAccount", "v1", "operator")));
  // All rights: those of the chart are held by the scenarios.
  json binding = meta("ClusterRoleBinding", "rbac.authorization.k8s.io/v1", ns_);
  binding["roleRef"] = {{"apiGroup", "rbac.authorization.k8s.io"},
                        {"kind", "ClusterRole"},
                        {"name", "cluster-admin"}};
  binding["subjects"] =
      json::array({{{"kind", "ServiceAccount"}, {"name", "operator"}, {"namespace", ns_}}});
  value_of(client_->create({kBindings, "", "", ""}, binding));
  folder_ = ::testing::TempDir() + "faults-XXXXXX";
  if (mkdtemp(folder_.data()) == nullptr) throw std::runtime_error("no folder");
  rotate_token(new_token());
  proxy_ = std::make_unique<FaultProxy>(admin_, seed);
  pod_watch_ = std::jthread(
      [this, since = version()](const std::stop_token& stop) { follow_pods(stop, since); });
}

FaultyCluster::~FaultyCluster() {
  proxy_->end();
  if (operator_.joinable()) {
    eventfd_write(stop_signal_, 1);
    operator_.join();
    close(stop_signal_);
  }
  pod_watch_.request_stop();
  pod_watch_.join();
  client_->remove({kJobs, ns_, job_, ""}, {});
  client_->remove({kBindings, "", ns_, ""}, {});
  client_->remove({kNamespaces, "", ns_, ""}, {});
  std::filesystem::remove_all(folder_);
}

void FaultyCluster::start_operator() {
  control::ControllerOptions options;
  options.cluster.server = proxy_->url();
  options.cluster.token_file = folder_ + "/token";
  options.namespaces = {ns_};
  options.settings.runtime_image = "example.invalid/runtime:test";
  options.listen_address = "127.0.0.1";
  options.port = 0;
  options.num_workers = 2;
  options.request_timeout = std::chrono::seconds(2);
  options.watch_timeout = std::chrono::seconds(2);
  stop_signal_ = eventfd(0, EFD_CLOEXEC);
  operator_ = std::jthread([options, signal = stop_signal_] {
    const auto ran = control::run_controller(options, signal);
    EXPECT_TRUE(ran.has_value()) << ran.error().message;
  });
}

void FaultyCluster::restart_operator() {
  eventfd_write(stop_signal_, 1);
  operator_.join();
  close(stop_signal_);
  start_operator();
}

void FaultyCluster::create_job() {
  json job = meta("TrainingJob", "lockstep.dev/v1alpha1", job_);
  job["spec"] = {
      {"ranks", 2},
      {"command",
       {"/bin/sh", "-c",
        "test $LOCKSTEP_ATTEMPT = 0 || exec sleep 4; test $RANK = 1 && exit 1; exec sleep 600"}}};
  value_of(client_->create({kJobs, ns_, "", ""}, job));
}

std::string FaultyCluster::new_token() {
  json request = {{"apiVersion", "authentication.k8s.io/v1"},
                  {"kind", "TokenRequest"},
                  {"spec", json::object()}};
  return value_of(
      client_->create({kAccounts, ns_, "operator", "token"}, request))["status"]["token"];
}

void FaultyCluster::rotate_token(const std::string& token) {
  // By renaming, as a kubelet does: a reader sees the one or the other.
  const std::string next = folder_ + "/next";
  std::ofstream(next) << token;
  std::filesystem::rename(next, folder_ + "/token");
}

std::string FaultyCluster::version() {
  return value_of(client_->list({kPods, ns_, "", ""}, {}, {}))["metadata"]["resourceVersion"];
}

void FaultyCluster::follow_pods(const std::stop_token& stop, const std::string& since) {
  const std::string query = "watch=true&timeoutSeconds=3600&resourceVersion=" + since;
  const auto error =
      client_->stream({kPods, ns_, "", ""}, query, stop, [this](std::string_view line) {
        const json event = json::parse(line);
        const json& metadata = event.at("object").at("metadata");
        const kube::MutexLock lock(mutex_);
        pods_[metadata.at("name")].insert(metadata.at("uid"));
        return true;
      });
  EXPECT_FALSE(error.has_value()) << error->error.message;
}

std::map<std::string, std::set<std::string>> FaultyCluster::pods_ever() const {
  const kube::MutexLock lock(mutex_);
  return pods_;
}

std::set<std::string> FaultyCluster::gang(int attempt) const {
  const std::string prefix = job_ + "-" + std::to_string(attempt) + "-";
  return {prefix + "0", prefix + "1"};
}

bool FaultyCluster::await_pods(const std::set<std::string>& names) {
  const Clock::time_point deadline = Clock::now() + kLimit;
  while (Clock::now() < deadline) {
    std::set<std::string> missing = names;
    for (const auto& [name, uids] : pods_ever()) missing.erase(name);
    if (missing.empty()) return true;
    std::this_thread::sleep_for(kLook);
  }
  return false;
}

bool FaultyCluster::await_writes(int64_t count) {
  const Clock::time_point deadline = Clock::now() + kLimit;
  while (proxy_->counts().writes < count) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

json FaultyCluster::await_end() {
  const Clock::time_point deadline = Clock::now() + kLimit;
  json status;
  while (Clock::now() < deadline) {
    status = value_of(client_->get({kJobs, ns_, job_, ""})).value("status", json::object());
    const std::string state = status.value("state", "");
    if (state == "Succeeded" || state == "Failed") break;
    std::this_thread::sleep_for(kLook);
  }
  return status;
}

bool FaultyCluster::comes_to_rest(std::chrono::seconds length) {
  const Clock::time_point deadline = Clock::now() + kLimit;
  while (Clock::now() < deadline) {
    const int64_t writes = proxy_->counts().writes;
    std::this_thread::sleep_for(length);
    if (proxy_->counts().writes == writes) return true;
  }
  return false;
}

}  // namespace lockstep::testing
