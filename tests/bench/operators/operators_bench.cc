// The operator's figures on a real control plane without nodes, as a table; run by operators.sh.
// operators-bench --kubeconfig FILE --operator PROGRAM --controllers PID --server PID
// --work FOLDER [--quick]
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <string>
#include <variant>
#include <vector>

#include <CLI/CLI.hpp>

#include "operator/kube/http_client.h"
#include "operator/kube/kubeconfig.h"
#include "tests/bench/operators/bench_cluster.h"

namespace lockstep::bench {
namespace {

using nlohmann::json;

constexpr int kConnections = 8;  // of the client that creates
constexpr int kRanks = 4;
constexpr std::chrono::seconds kLimit{300};

struct Options {
  std::string kubeconfig, program, work;
  pid_t controllers = 0, server = 0;
  bool quick = false;  // a tenth of everything: to see that the benchmark works
};

std::unique_ptr<kube::Client> connect(const Options& options) {
  const auto config =
      kube::load_kubeconfig({options.kubeconfig, ""}, kube::read_env, kube::read_file);
  if (!config) throw std::runtime_error(config.error().message);
  auto client = kube::make_http_client(*config, {.user_agent = "operators-bench"});
  if (!client) throw std::runtime_error(client.error().message);
  return std::move(client).value();
}

// One measurement's namespace, emptied with this, so that the next one is alone.
class Namespace {
 public:
  Namespace(kube::Client& client, std::string name) : client_(client), name_(std::move(name)) {
    value_of(client_.create(
        {{"", "v1", "namespaces"}, "", "", ""},
        {{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", name_}}}}));
    const auto end = Clock::now() + kLimit;
    while (std::holds_alternative<kube::ApiError>(
        client_.get({{"", "v1", "serviceaccounts"}, name_, "default", ""}))) {
      if (Clock::now() > end) throw std::runtime_error("no default service account in time");
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  ~Namespace() {
    // Not by the controllers, whose limits would have them busy for minutes.
    const auto drop = [&](const kube::ResourceType& type) {
      client_.remove({type, name_, "", ""}, {.grace_period_seconds = 0, .propagation = "Orphan"});
    };
    drop(kJobs);
    drop({"batch", "v1", "jobs"});
    drop(kPods);
    drop({"", "v1", "configmaps"});
    client_.remove({{"", "v1", "namespaces"}, "", name_, ""}, {});
  }
  Namespace(const Namespace&) = delete;
  Namespace& operator=(const Namespace&) = delete;
  const std::string& name() const { return name_; }

 private:
  kube::Client& client_;
  const std::string name_;
};

std::string job_name(int index) {
  return "job-" + std::to_string(index);
}

json training_job(const std::string& name, int ranks) {
  return {{"apiVersion", "lockstep.dev/v1alpha1"},
          {"kind", "TrainingJob"},
          {"metadata", {{"name", name}}},
          {"spec", {{"ranks", ranks}, {"command", {"/bin/true"}}}}};
}

void print_row(const std::string& figure, const std::string& value, const std::string& target) {
  std::printf("| %s | %s | %s |\n", figure.c_str(), value.c_str(), target.c_str());
  std::fflush(stdout);
}

std::string text(double value, const char* unit, int decimals = 2) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.*f %s", decimals, value, unit);
  return buffer;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// `count` jobs of kRanks ranks each: seconds from the first POST to the last pod's ADDED; `cost`
// gets the operator's. `pod` gets one of the pods made.
double operator_creates(kube::Client& client, const Options& options, const std::string& ns_name,
                        int count, Usage& cost, json* pod = nullptr) {
  const Namespace ns(client, ns_name);
  PodWatch watch(client, ns.name());
  const Operator op(options.program, options.kubeconfig, ns.name(),
                    options.work + "/" + ns_name + ".log");
  const double idle_cpu = op.usage().cpu_seconds;
  const auto begin = Clock::now();
  in_parallel(count, kConnections, [&](int i) {
    value_of(client.create({kJobs, ns.name(), "", ""}, training_job(job_name(i), kRanks)));
  });
  const auto end = watch.await_pods(static_cast<std::size_t>(count * kRanks), kLimit);
  cost = op.usage();
  cost.cpu_seconds -= idle_cpu;
  if (pod != nullptr) *pod = value_of(client.get({kPods, ns.name(), job_name(0) + "-0-0", ""}));
  return Seconds(end - begin).count();
}

// The same pods by a client alone.
double client_creates(kube::Client& client, const std::string& ns_name, const json& like,
                      int count) {
  const Namespace ns(client, ns_name);
  PodWatch watch(client, ns.name());
  json pod = {{"apiVersion", "v1"}, {"kind", "Pod"}, {"spec", like.at("spec")}};
  pod["metadata"] = {{"labels", like.at("metadata").at("labels")}};
  pod["spec"].erase("volumes");  // the server adds the token's again, under another name
  for (json& container : pod["spec"]["containers"]) container.erase("volumeMounts");
  const auto begin = Clock::now();
  in_parallel(count * kRanks, kConnections, [&](int i) {
    json one = pod;
    one["metadata"]["name"] = "raw-" + std::to_string(i);
    value_of(client.create({kPods, ns.name(), "", ""}, one));
  });
  return Seconds(watch.await_pods(static_cast<std::size_t>(count * kRanks), kLimit) - begin)
      .count();
}

// The same number of pods by indexed Jobs of the real controller manager.
double indexed_jobs_create(kube::Client& client, const std::string& ns_name, int count) {
  const Namespace ns(client, ns_name);
  PodWatch watch(client, ns.name());
  json spec = {{"completionMode", "Indexed"}, {"completions", kRanks}, {"parallelism", kRanks}};
  spec["template"]["spec"] = {{"restartPolicy", "Never"},
                              {"containers", {{{"name", "trainer"}, {"image", "bench:1"}}}}};
  const auto begin = Clock::now();
  in_parallel(count, kConnections, [&](int i) {
    value_of(client.create({{"batch", "v1", "jobs"}, ns.name(), "", ""},
                           {{"apiVersion", "batch/v1"},
                            {"kind", "Job"},
                            {"metadata", {{"name", job_name(i)}}},
                            {"spec", spec}}));
  });
  return Seconds(watch.await_pods(static_cast<std::size_t>(count * kRanks), kLimit) - begin)
      .count();
}

void measure_creation(kube::Client& client, const Options& options) {
  const int count = options.quick ? 10 : 100;
  std::vector<double> raw;
  std::vector<double> ours;
  std::vector<double> ratios;
  std::vector<double> server_ratios;  // what the API server computed for it
  json pod;
  Usage cost;
  for (int round = 0; round < 3; ++round) {
    const std::string suffix = std::to_string(round);
    const double before = usage_of(options.server).cpu_seconds;
    ours.push_back(operator_creates(client, options, "ours-" + suffix, count, cost, &pod));
    const double between = usage_of(options.server).cpu_seconds;
    raw.push_back(client_creates(client, "raw-" + suffix, pod, count));
    const double after = usage_of(options.server).cpu_seconds;
    ratios.push_back(ours.back() / raw.back());
    server_ratios.push_back((between - before) / (after - between));
  }
  const std::string what = std::to_string(count) + " jobs x 4 pods, first POST to last pod: ";
  print_row(what + "raw creation by a client, 8 connections", text(median(raw), "s"), "");
  print_row(what + "TrainingJobs", text(median(ours), "s"), "");
  print_row("ratio of the two (median of 3 rounds)", text(median(ratios), "x"), "at most 1.2 x");
  print_row("the same of the API server's CPU, namespaces and clean-up included",
            text(median(server_ratios), "x"), "");
  print_row("operator's CPU for them", text(cost.cpu_seconds, "s"), "");
  print_row(what + "indexed Jobs, controller manager's stock limit",
            text(indexed_jobs_create(client, "indexed", count), "s"), "(peer)");
  print_row("kube-controller-manager after that",
            text(usage_of(options.controllers).resident_mb, "MB resident", 1), "(peer)");
}

// Jobs that are created, run and finished, and what that costs.
void measure_lives(kube::Client& client, const Options& options) {
  const int count = options.quick ? 100 : 1000;
  const Namespace ns(client, "lives");
  const Operator op(options.program, options.kubeconfig, ns.name(), options.work + "/lives.log");
  std::this_thread::sleep_for(std::chrono::seconds(2));
  const Usage idle = op.usage();
  print_row("operator at rest, no jobs", text(idle.resident_mb, "MB resident", 1), "at most 10 MB");
  PodPlayer player(client, ns.name(), [](const std::string&) { return false; });
  PodWatch watch(client, ns.name(), [&](const json& event) { player.on_event(event); });
  const auto before = op.requests();
  const auto begin = Clock::now();
  in_parallel(count, kConnections, [&](int i) {
    value_of(client.create({kJobs, ns.name(), "", ""}, training_job(job_name(i), kRanks)));
  });
  watch.await_pods(static_cast<std::size_t>(count * kRanks), kLimit);
  const auto is_finished = [&] {
    for (const json& job : value_of(client.list({kJobs, ns.name(), "", ""}, {}, {}))["items"]) {
      if (job.value("status", json::object()).value("state", "") != "Succeeded") return false;
    }
    return true;
  };
  while (!is_finished()) {
    if (Clock::now() - begin > kLimit) throw std::runtime_error("the jobs did not end in time");
    std::this_thread::sleep_for(std::chrono::milliseconds(250));
  }
  const double seconds = Seconds(Clock::now() - begin).count();
  const Usage busy = op.usage();
  const std::string what = std::to_string(count) + " jobs x 4 pods created, run and finished: ";
  print_row(what + "time (the played kubelet's part included)", text(seconds, "s", 1), "");
  double calls = 0;
  std::string by_method;
  for (const auto& [method, number] : op.requests()) {
    const auto old = before.find(method);
    const double own = (number - (old == before.end() ? 0 : old->second)) / count;
    calls += own;
    by_method += (by_method.empty() ? "" : ", ") + method + " " + text(own, "", 2);
  }
  print_row(what + "API calls per job", text(calls, "(", 1) + by_method + ")", "");
  print_row(what + "CPU",
            text(busy.cpu_seconds - idle.cpu_seconds, "s", 2) + ", " +
                text((busy.cpu_seconds - idle.cpu_seconds) * 1000 / count, "ms per job", 2),
            "");
  print_row("operator's peak in that", text(busy.peak_mb, "MB resident", 1),
            "at most 30 MB at 4,000 pods");
}

void measure_wide_job(kube::Client& client, const Options& options) {
  const int ranks = options.quick ? 100 : 1000;
  const Namespace ns(client, "wide");
  PodWatch watch(client, ns.name());
  const Operator op(options.program, options.kubeconfig, ns.name(), options.work + "/wide.log");
  const auto begin = Clock::now();
  value_of(client.create({kJobs, ns.name(), "", ""}, training_job("wide", ranks)));
  const auto end = watch.await_pods(static_cast<std::size_t>(ranks), kLimit);
  print_row("one job of " + std::to_string(ranks) + " ranks, POST to last pod",
            text(Seconds(end - begin).count(), "s"), "at most 5 s");
}

// A rank that fails, and a node that is lost: until others see what the operator does about it.
void measure_reactions(kube::Client& client, const Options& options) {
  const int rounds = options.quick ? 1 : 5;
  const Namespace ns(client, "reactions");
  put_node(client, "bench", true);
  PodPlayer player(client, ns.name(), [](const std::string&) { return true; });
  PodWatch watch(client, ns.name(), [&](const json& event) { player.on_event(event); });
  const Operator op(options.program, options.kubeconfig, ns.name(),
                    options.work + "/reactions.log");
  const auto runs = [&](const std::string& job) {
    const json status =
        value_of(client.get({kJobs, ns.name(), job, ""})).value("status", json::object());
    return status.value("ranks", json::object()).value("running", 0) == kRanks;
  };
  const auto start = [&](const std::string& job) {
    value_of(client.create({kJobs, ns.name(), "", ""}, training_job(job, kRanks)));
    const auto end = Clock::now() + kLimit;
    while (!runs(job)) {
      if (Clock::now() > end) throw std::runtime_error(job + " does not run in time");
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  };
  std::vector<double> to_deletion;
  std::vector<double> to_gang;
  for (int round = 0; round < rounds; ++round) {
    const std::string job = "failing-" + std::to_string(round);
    start(job);
    const auto begin = Clock::now();
    player.end(job + "-0-1", 1);
    to_deletion.push_back(Seconds(watch.await_deletion_of(job + "-0-") - begin).count());
    to_gang.push_back(Seconds(watch.await_pods_of(job + "-1-", kRanks) - begin).count());
  }
  const auto worst = [](const std::vector<double>& all) {
    return *std::max_element(all.begin(), all.end());
  };
  print_row(
      "a rank fails, to the first deletion seen (median, worst)",
      text(median(to_deletion) * 1000, "ms", 0) + ", " + text(worst(to_deletion) * 1000, "ms", 0),
      "under 100 ms");
  print_row("a rank fails, to all pods of the new gang (median, worst)",
            text(median(to_gang), "s") + ", " + text(worst(to_gang), "s"), "under 2 s");
  start("stranded");
  const auto begin = Clock::now();
  client.remove({kNodes, "", "bench", ""}, {});
  const auto acted = watch.await_deletion_of("stranded-0-");
  print_row("a node is taken away, to the first deletion seen",
            text(Seconds(acted - begin).count(), "s"), "at most 10 s");
  put_node(client, "bench", true);
}

void measure_slope(kube::Client& client, const Options& options) {
  const std::vector<int> counts =
      options.quick ? std::vector<int>{10, 50} : std::vector<int>{100, 500, 1000, 2000};
  std::vector<double> per_job;
  for (const int count : counts) {
    Usage cost;
    const double seconds =
        operator_creates(client, options, "slope-" + std::to_string(count), count, cost);
    per_job.push_back(cost.cpu_seconds * 1000 / count);
    print_row(std::to_string(count) + " jobs x 4 pods created",
              text(seconds, "s", 1) + ", " + text(per_job.back(), "ms CPU per job", 2) + ", " +
                  text(cost.peak_mb, "MB peak", 1),
              "");
  }
  print_row("CPU per job, most jobs over fewest", text(per_job.back() / per_job.front(), "x"),
            "linear: about 1 x");
}

int run(int argc, char** argv) {
  CLI::App app("Measures lockstep-operator on a real control plane without nodes.");
  Options options;
  app.add_option("--kubeconfig", options.kubeconfig)->required();
  app.add_option("--operator", options.program)->required();
  app.add_option("--controllers", options.controllers, "process id of the controller manager")
      ->required();
  app.add_option("--server", options.server, "process id of the API server")->required();
  app.add_option("--work", options.work, "folder of the operators' logs")->required();
  app.add_flag("--quick", options.quick);
  CLI11_PARSE(app, argc, argv);
  const std::unique_ptr<kube::Client> client = connect(options);
  put_node(*client, "bench", true);
  std::printf("| figure | measured | target |\n|---|---|---|\n");
  measure_creation(*client, options);
  measure_reactions(*client, options);
  measure_wide_job(*client, options);
  measure_lives(*client, options);
  measure_slope(*client, options);
  return 0;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  try {
    return lockstep::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "operators-bench: %s\n", error.what());
    return 1;
  }
}
