#include "tests/operator/controller/operator_run.h"

#include <utility>

#include <gtest/gtest.h>

namespace lockstep::control {

using nlohmann::json;

namespace {

constexpr int kMaxRounds = 300;

ClusterView::Options view_options() {
  return {{}, [](const kube::ObjectKey&) {}, [](const std::string&) {}};
}

common::Result<common::JobProgress> nobody_answers(const ProgressTarget&) {
  return common::Error{common::ErrorCode::kUnavailable, "no rank answers here", ""};
}

void step_pod(FakeApiServer& server, const json& pod, const PodScript& script) {
  const kube::ObjectKey key = kube::key_of(pod);
  if (pod["metadata"].contains("deletionTimestamp")) return server.erase("pods", key);
  const std::string phase = pod.value("status", json::object()).value("phase", "Pending");
  server.edit("pods", key, [&](json& now) {
    if (!now["spec"].contains("nodeName")) {
      now["spec"]["nodeName"] = key.name == "demo-0-1" ? "node-2" : "node-1";
    } else if (phase == "Pending") {
      now["status"] = {{"phase", "Running"}, {"podIP", "10.0.0.1"}};
    } else if (phase == "Running") {
      const std::string next = script(key.name);
      if (next == "Running") return;
      const json exit = {{"exitCode", next == "Failed" ? 1 : 0},
                         {"finishedAt", "2027-01-15T08:00:00Z"}};
      now["status"] = {
          {"phase", next},
          {"containerStatuses", {{{"name", "trainer"}, {"state", {{"terminated", exit}}}}}}};
    }
  });
}

void drop_times(json& value) {
  if (value.is_object()) {
    for (const char* name : {"lastTransitionTime", "startTime", "completionTime", "time",
                             "restartNotBefore", "lastUpdateTime", "goodput"}) {
      value.erase(name);
    }
  }
  if (value.is_structured()) {
    for (json& member : value) drop_times(member);
  }
}

}  // namespace

json demo_job(int ranks) {
  const json train = {{"model",
                       {{"config",
                         {{"model_type", "llama"},
                          {"vocab_size", 256},
                          {"hidden_size", 64},
                          {"intermediate_size", 128},
                          {"num_hidden_layers", 2},
                          {"num_attention_heads", 2},
                          {"num_key_value_heads", 2}}}}},
                      {"tokenizer", {{"type", "bytes"}}},
                      {"data", {{"train", "/data"}, {"sequenceLength", 32}}},
                      {"batch", {{"globalBatchSize", 12}, {"microBatchSize", 1}}},
                      {"steps", 10}};
  return {{"apiVersion", "lockstep.dev/v1alpha1"},
          {"kind", "TrainingJob"},
          {"metadata", {{"name", kDemo.name}, {"namespace", kDemo.ns}, {"generation", 1}}},
          {"spec",
           {{"ranks", ranks},
            {"image", "runtime:test"},
            {"output", {{"persistentVolumeClaim", {{"claimName", "runs"}}}}},
            {"train", train}}}};
}

OperatorRun::Process::Process(OperatorRun& run)
    : view(run.server_, view_options()),
      poller({}, run.fetch_,
             [&run](const kube::ObjectKey&) {
               ++run.num_news_;
               run.num_news_.notify_all();
             }),
      reconciler(run.server_, view, poller, {{}, [&run] { return run.now_; }}) {}

OperatorRun::OperatorRun(PodScript script, ProgressPoller::Fetch fetch)
    : script_(std::move(script)), fetch_(fetch ? std::move(fetch) : nobody_answers) {
  for (const char* name : {"node-1", "node-2"}) {
    const json ready = {{"type", "Ready"}, {"status", "True"}};
    server_.add("nodes", {{"metadata", {{"name", name}, {"namespace", ""}}},
                          {"status", {{"conditions", json::array({ready})}}}});
  }
}

void OperatorRun::start_operator() {
  process_.reset();  // its watches end before the new ones begin
  server_.revive();
  process_ = std::make_unique<Process>(*this);
  server_.await_delivery();
}

common::Result<Outcome> OperatorRun::reconcile() {
  server_.await_delivery();
  return process_->reconciler.reconcile(kDemo);
}

bool OperatorRun::settle() {
  for (int round = 0; round < kMaxRounds; ++round) {
    const int64_t before = server_.version();
    try {
      const common::Result<Outcome> outcome = reconcile();
      requeue_after_ = outcome ? outcome->requeue_after : std::nullopt;
      if (outcome && server_.version() == before) return true;
    } catch (const OperatorCrash&) {
      ++num_crashes_;
      return false;
    }
  }
  ADD_FAILURE() << "the operator never comes to rest";
  return true;
}

bool OperatorRun::step_kubelet() {
  const int64_t before = server_.version();
  for (const json& pod : server_.objects("pods")) step_pod(server_, pod, script_);
  server_.collect_garbage();
  return server_.version() != before;
}

void OperatorRun::run_until(const std::function<bool(const json& job)>& holds) {
  for (int round = 0; round < kMaxRounds; ++round) {
    if (!settle()) {
      start_operator();
      continue;
    }
    if (holds(job())) return;
    if (step_kubelet() || !requeue_after_) continue;
    now_ += std::chrono::ceil<std::chrono::seconds>(*requeue_after_);
  }
  ADD_FAILURE() << "the job never comes to what was waited for";
}

void OperatorRun::run_to_rest() {
  for (int round = 0; round < kMaxRounds; ++round) {
    if (!settle()) {
      start_operator();
      continue;
    }
    if (step_kubelet()) continue;
    if (!requeue_after_) return;
    now_ += std::chrono::ceil<std::chrono::seconds>(*requeue_after_);
  }
  ADD_FAILURE() << "the job never comes to rest";
}

json OperatorRun::job() const {
  return server_.object("trainingjobs", kDemo).value_or(json());
}

EndState end_state(OperatorRun& run) {
  EndState end;
  const json job = run.job();
  if (!job.is_null()) end.status = job.value("status", json());
  drop_times(end.status);
  for (const char* plural : {"pods", "services", "configmaps"}) {
    for (const json& object : run.server().objects(plural)) {
      end.left.insert(std::string(plural) + "/" + kube::key_of(object).name);
    }
  }
  for (const std::string& write : run.server().writes()) {
    const std::string object = write.substr(write.find(' ') + 1);
    if (object.starts_with("events/")) {
      end.events.insert(object);
    } else if (write.starts_with("create ")) {
      end.created.insert(object);
    } else if (write.starts_with("delete ")) {
      end.deleted.insert(object);
    }
  }
  return end;
}

}  // namespace lockstep::control
