#include "tests/operator/controller/crash_life.h"

#include <algorithm>
#include <csignal>
#include <fstream>
#include <stdexcept>
#include <utility>
#include <variant>

#include "operator/plan/names.h"
#include "tests/support/process_kubelet/kubelet.h"

namespace lockstep::control {

using nlohmann::json;

namespace {

const kube::ResourceType kPods{"", "v1", "pods"};
const kube::ResourceType kNodes{"", "v1", "nodes"};

bool is_done(const kube::ApiResult<json>& answer) {
  return std::holds_alternative<json>(answer);
}

void must_be_done(const kube::ApiResult<json>& answer) {
  if (const auto* error = std::get_if<kube::ApiError>(&answer)) {
    throw std::runtime_error(error->error.message);
  }
}

bool holds(const json& status, const std::string& type) {
  for (const json& condition : status.value("conditions", json::array())) {
    if (condition["type"] == type) return condition["status"] == "True";
  }
  return false;
}

// Whether Scheduled or Running was ever seen as true depends on who was alive when. So does whether
// a pod that is being drained was seen ending, with the condition and the exit code that say so, or
// was gone already.
json summary(const json& status) {
  json text = {{"state", status.value("state", "")},
               {"attempt", status.value("attempt", 0)},
               {"restarts", status.value("restarts", 0)},
               {"ranks", status.value("ranks", json())},
               {"budget", status.value("budget", json())}};
  json failure = status.value("firstFailure", json::object());
  const std::string reason = failure.value("reason", "");
  if (reason == "DisruptionTarget" || reason == "PodDeleted") {
    failure["reason"] = "DisruptionTarget or PodDeleted";
    failure.erase("exitCode");
  }
  for (const char* field : {"rank", "attempt", "exitCode", "reason"}) {
    text["firstFailure"][field] = failure.value(field, json());
  }
  return text;
}

bool patch_spec(Life& life, const json& spec) {
  return is_done(life.client().patch(life.job_path(), kube::PatchType::kMerge, {{"spec", spec}}));
}

}  // namespace

ChildWatch::ChildWatch(kube::Client& client, const std::string& ns) {
  for (const char* plural : {"pods", "services", "configmaps"}) {
    const kube::ResourcePath path{{"", "v1", plural}, ns, "", ""};
    const auto listed = client.list(path, {}, {});
    const std::string version = std::get<json>(listed)["metadata"]["resourceVersion"];
    threads_.emplace_back([this, &client, path, version](const std::stop_token& stop) {
      std::string since = version;
      while (!stop.stop_requested()) {
        client.stream(path, "watch=true&timeoutSeconds=300&resourceVersion=" + since, stop,
                      [&](std::string_view line) {
                        since = take(path.type.plural, json::parse(line));
                        return true;
                      });
      }
    });
  }
}

Seen ChildWatch::of(const std::string& job) {
  const std::lock_guard lock(mutex_);
  return seen_[job];
}

std::string ChildWatch::take(const std::string& plural, const json& event) {
  const json& metadata = event.at("object").at("metadata");
  const std::string job = metadata.value("labels", json::object()).value(plan::kJobNameLabel, "");
  const std::string name = metadata.at("name");
  const std::string child =
      plural + "/job" + (name.size() >= job.size() ? name.substr(job.size()) : name);
  const std::lock_guard lock(mutex_);
  if (event["type"] == "ADDED") seen_[job].created.insert(child);
  if (event["type"] == "DELETED") seen_[job].deleted.insert(child);
  return metadata.at("resourceVersion");
}

Lane::Lane()
    : client_(connect_to_real_server()), ns_(*client_, "crash"), watch_(*client_, ns_.name()) {}

bool kill_rank_1(Life& life) {
  pid_t pid = 0;
  const std::string folder = required_env("LOCKSTEP_TEST_PODS") + "/" + life.pod_path().name;
  std::ifstream(folder + "/pid") >> pid;
  return pid > 0 && kill(pid, SIGKILL) == 0;
}

bool evict_rank_1(Life& life) {
  const json eviction = {{"apiVersion", "policy/v1"},
                         {"kind", "Eviction"},
                         {"metadata", {{"name", life.pod_path().name}}}};
  return is_done(life.client().create(life.pod_path("eviction"), eviction));
}

bool lose_node_of_rank_1(Life& life) {
  return is_done(life.client().remove({kNodes, "", life.doomed_node(), ""}, {}));
}

bool suspend(Life& life) {
  return patch_spec(life, {{"suspend", true}});
}
bool resume(Life& life) {
  return patch_spec(life, {{"suspend", false}});
}
bool scale_to_two(Life& life) {
  return patch_spec(life, {{"ranks", 2}});
}

Life::Life(Lane& lane, const Scenario& scenario, std::string job)
    : lane_(lane), scenario_(scenario), job_(std::move(job)) {}

Life::~Life() {
  client().remove(job_path(), {.grace_period_seconds = {}, .propagation = "Background"});
  if (scenario_.has_doomed_node) client().remove({kNodes, "", doomed_node(), ""}, {});
}

kube::ResourcePath Life::job_path() const {
  return {kTrainingJobs, lane_.ns(), job_, ""};
}
kube::ResourcePath Life::pod_path(const std::string& subresource) const {
  return {kPods, lane_.ns(), job_ + "-0-1", subresource};
}
std::string Life::doomed_node() const {
  return lane_.ns() + "-" + job_;
}

bool Life::run(int call, bool after, const Seen* expected, End& end) {
  if (scenario_.has_doomed_node) create_doomed_node();
  create();
  auto process = std::make_unique<OperatorProcess>(
      lane_.ns(), OperatorProcess::Options{call, after, scenario_.user_deletes});
  bool has_died = false;
  await("end of " + job_, [&] {
    if (!has_died && process->has_died()) {
      has_died = true;
      process = std::make_unique<OperatorProcess>(
          lane_.ns(), OperatorProcess::Options{0, false, scenario_.user_deletes});
    }
    return step() && (has_died || !scenario_.user_deletes || is_all_made_and_gone());
  });
  const auto job = client().get(job_path());
  end.status =
      summary(is_done(job) ? std::get<json>(job).value("status", json::object()) : json::object());
  await_objects(expected);
  end.seen = lane_.watch().of(job_);
  return has_died;
}

bool Life::step() {
  if (scenario_.has_doomed_node) schedule();
  const auto job = client().get(job_path());
  if (const auto* error = std::get_if<kube::ApiError>(&job)) {
    return *scenario_.state == '\0' && error->error.code == common::ErrorCode::kNotFound;
  }
  const json status = std::get<json>(job).value("status", json::object());
  if (num_done_ < scenario_.deeds.size()) {
    const Deed& deed = scenario_.deeds[num_done_];
    if (status.value("state", "") == deed.state && deed.act(*this)) ++num_done_;
  }
  return *scenario_.state != '\0' && (holds(status, "Succeeded") || holds(status, "Failed"));
}

// True once no operator has anything left to do for a job that its user deleted under it: it was
// still making pods then, and where it dies at a later write that is to be seen.
bool Life::is_all_made_and_gone() {
  const Seen seen = lane_.watch().of(job_);
  return seen.created.size() == scenario_.num_created && seen.created == seen.deleted;
}

// The last deletions may be under way when the job has ended.
void Life::await_objects(const Seen* expected) {
  await("objects of " + job_, [&] {
    const Seen seen = lane_.watch().of(job_);
    if (scenario_.user_deletes && expected != nullptr) {
      // Whoever finds the job gone makes nothing more of it, and what there was goes with it.
      return seen.created == seen.deleted &&
             std::includes(expected->created.begin(), expected->created.end(), seen.created.begin(),
                           seen.created.end());
    }
    if (expected != nullptr) return seen == *expected;
    return seen.created.size() == scenario_.num_created &&
           seen.deleted.size() == scenario_.num_deleted;
  });
}

void Life::create() {
  json body = {{"apiVersion", "lockstep.dev/v1alpha1"},
               {"kind", "TrainingJob"},
               {"metadata", {{"name", job_}}},
               {"spec", {{"ranks", 3}, {"command", {"/bin/sh", "-c", scenario_.script}}}}};
  body["spec"].update(scenario_.spec);
  if (scenario_.has_doomed_node) body["spec"]["template"]["spec"]["schedulerName"] = "this-test";
  must_be_done(client().create({kTrainingJobs, lane_.ns(), "", ""}, body));
}

void Life::create_doomed_node() {
  must_be_done(client().create(
      {kNodes, "", "", ""},
      {{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", doomed_node()}}}}));
  const json ready = {{"type", "Ready"}, {"status", "True"}};
  must_be_done(client().patch({kNodes, "", doomed_node(), "status"}, kube::PatchType::kMerge,
                              {{"status", {{"conditions", json::array({ready})}}}}));
}

// Binds every pod to the process kubelet's node, but rank 1 of the first attempt to the doomed one,
// whose kubelet, this test, says that it runs.
void Life::schedule() {
  const auto pods =
      client().list({kPods, lane_.ns(), "", ""},
                    {.label_selector = std::string(plan::kJobNameLabel) + "=" + job_}, {});
  if (!is_done(pods)) return;
  for (const json& pod : std::get<json>(pods)["items"]) {
    if (pod["spec"].contains("nodeName")) continue;
    const std::string name = pod["metadata"]["name"];
    const bool is_doomed = name == pod_path().name;
    client().create({kPods, lane_.ns(), name, "binding"},
                    {{"apiVersion", "v1"},
                     {"kind", "Binding"},
                     {"metadata", {{"name", name}}},
                     {"target",
                      {{"kind", "Node"},
                       {"name", is_doomed ? doomed_node() : testing::KubeletOptions{}.node}}}});
    if (!is_doomed) continue;
    client().patch(pod_path("status"), kube::PatchType::kMerge,
                   {{"status", {{"phase", "Running"}}}});
  }
}

}  // namespace lockstep::control
