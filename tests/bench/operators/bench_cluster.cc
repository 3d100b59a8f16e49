#include "tests/bench/operators/bench_cluster.h"

#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <optional>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <variant>

#include <fcntl.h>
#include <httplib.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep::bench {

using nlohmann::json;

json value_of(const kube::ApiResult<json>& answer) {
  if (const auto* error = std::get_if<kube::ApiError>(&answer)) {
    throw std::runtime_error(error->error.message);
  }
  return std::get<json>(answer);
}

void in_parallel(int count, int threads, const std::function<void(int)>& one) {
  std::atomic<int> next = 0;
  std::vector<std::jthread> workers;
  for (int i = 0; i < threads; ++i) {
    workers.emplace_back([&] {
      for (int at = next++; at < count; at = next++) one(at);
    });
  }
}

PodWatch::PodWatch(kube::Client& client, std::string ns, OnEvent on_event)
    : client_(client), ns_(std::move(ns)), on_event_(std::move(on_event)) {
  const json list = value_of(client_.list({kPods, ns_, "", ""}, {}, {}));
  const std::string since = list["metadata"]["resourceVersion"];
  thread_ = std::jthread([this, since](const std::stop_token& stop) {
    const std::string query = "watch=true&timeoutSeconds=3600&resourceVersion=" + since;
    client_.stream({kPods, ns_, "", ""}, query, stop, [this](std::string_view line) {
      take(line);
      return true;
    });
  });
}

void PodWatch::take(std::string_view line) {
  const Clock::time_point now = Clock::now();
  const json event = json::parse(line);
  const json& metadata = event.at("object").at("metadata");
  {
    const kube::MutexLock lock(mutex_);
    if (event.at("type") == "ADDED") added_.try_emplace(metadata.at("name"), now);
    if (event.at("type") == "DELETED" || metadata.contains("deletionTimestamp")) {
      deleted_.try_emplace(metadata.at("name"), now);
    }
  }
  changed_.notify_all();
  if (on_event_) on_event_(event);
}

Clock::time_point PodWatch::await_pods(std::size_t count, std::chrono::seconds limit) {
  kube::MutexLock lock(mutex_);
  const auto deadline = Clock::now() + limit;
  while (added_.size() < count) {
    if (changed_.wait_until(mutex_, deadline) == std::cv_status::timeout) {
      throw std::runtime_error("only " + std::to_string(added_.size()) + " pods in time");
    }
  }
  Clock::time_point last{};
  for (const auto& [name, at] : added_) last = std::max(last, at);
  return last;
}

Clock::time_point PodWatch::await_pods_of(const std::string& prefix, std::size_t count) {
  constexpr std::chrono::seconds kLimit{60};
  kube::MutexLock lock(mutex_);
  const auto deadline = Clock::now() + kLimit;
  while (true) {
    std::size_t found = 0;
    Clock::time_point last{};
    for (auto it = added_.lower_bound(prefix); it != added_.end() && it->first.starts_with(prefix);
         ++it) {
      ++found;
      last = std::max(last, it->second);
    }
    if (found >= count) return last;
    if (changed_.wait_until(mutex_, deadline) == std::cv_status::timeout) {
      throw std::runtime_error("no pods " + prefix + "* in time");
    }
  }
}

Clock::time_point PodWatch::await_deletion_of(const std::string& prefix) {
  constexpr std::chrono::seconds kLimit{60};
  kube::MutexLock lock(mutex_);
  const auto deadline = Clock::now() + kLimit;
  while (true) {
    std::optional<Clock::time_point> first;
    for (auto it = deleted_.lower_bound(prefix);
         it != deleted_.end() && it->first.starts_with(prefix); ++it) {
      if (!first || it->second < *first) first = it->second;
    }
    if (first) return *first;
    if (changed_.wait_until(mutex_, deadline) == std::cv_status::timeout) {
      throw std::runtime_error("no deletion of " + prefix + "* in time");
    }
  }
}

PodPlayer::PodPlayer(kube::Client& client, std::string ns,
                     std::function<bool(const std::string&)> stays)
    : client_(client), ns_(std::move(ns)), stays_(std::move(stays)) {
  constexpr int kWorkers = 8;
  for (int i = 0; i < kWorkers; ++i) {
    workers_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }
}

PodPlayer::~PodPlayer() {
  for (std::jthread& worker : workers_) worker.request_stop();
}

void PodPlayer::on_event(const json& event) {
  const json& metadata = event.at("object").at("metadata");
  const std::string name = metadata.at("name");
  if (event.at("type") == "DELETED") return;
  const bool is_deletion = metadata.contains("deletionTimestamp");
  if (!is_deletion && event.at("type") != "ADDED") return;
  {
    const kube::MutexLock lock(mutex_);
    if (!is_deletion && !begun_.try_emplace(name, true).second) return;
    steps_.push_back({name, is_deletion});
  }
  changed_.notify_one();
}

void PodPlayer::work(const std::stop_token& stop) {
  while (true) {
    Step step;
    {
      kube::MutexLock lock(mutex_);
      if (!changed_.wait(mutex_, stop, [this] { return !steps_.empty(); })) {
        return;
      }
      step = std::move(steps_.back());
      steps_.pop_back();
    }
    if (step.is_deletion) {
      client_.remove({kPods, ns_, step.pod, ""}, {.grace_period_seconds = 0});
    } else {
      run(step.pod);
    }
  }
}

namespace {

// A patch of a pod's status: `state` is that of its container.
json pod_status(const std::string& phase, const json& state) {
  json container = {{"name", "trainer"}, {"image", "i"}, {"imageID", "i"}, {"restartCount", 0}};
  container["ready"] = phase == "Running";
  container["state"] = state;
  json status = {{"phase", phase}, {"podIP", "127.0.0.9"}};
  status["containerStatuses"] = json::array({container});
  return {{"status", status}};
}

}  // namespace

void PodPlayer::run(const std::string& pod) {
  const json binding = {{"apiVersion", "v1"},
                        {"kind", "Binding"},
                        {"metadata", {{"name", pod}}},
                        {"target", {{"apiVersion", "v1"}, {"kind", "Node"}, {"name", "bench"}}}};
  client_.create({kPods, ns_, pod, "binding"}, binding);
  const json started = {{"running", {{"startedAt", "2026-01-01T00:00:00Z"}}}};
  client_.patch({kPods, ns_, pod, "status"}, kube::PatchType::kMerge,
                pod_status("Running", started));
  if (!stays_(pod)) end(pod, 0);
}

void PodPlayer::end(const std::string& pod, int exit_code) {
  const json terminated = {{"exitCode", exit_code},
                           {"reason", exit_code == 0 ? "Completed" : "Error"},
                           {"startedAt", "2026-01-01T00:00:00Z"},
                           {"finishedAt", "2026-01-01T00:00:01Z"}};
  client_.patch({kPods, ns_, pod, "status"}, kube::PatchType::kMerge,
                pod_status(exit_code == 0 ? "Succeeded" : "Failed", {{"terminated", terminated}}));
}

void put_node(kube::Client& client, const std::string& name, bool is_ready) {
  const json node = {{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", name}}}};
  client.create({kNodes, "", "", ""}, node);  // or it is there
  const json ready = {{"type", "Ready"},
                      {"status", is_ready ? "True" : "False"},
                      {"reason", "Bench"},
                      {"lastHeartbeatTime", "2026-01-01T00:00:00Z"},
                      {"lastTransitionTime", "2026-01-01T00:00:00Z"}};
  value_of(client.patch({kNodes, "", name, "status"}, kube::PatchType::kMerge,
                        {{"status", {{"conditions", json::array({ready})}}}}));
}

Usage usage_of(pid_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  Usage usage;
  std::ifstream status(folder + "/status");
  for (std::string line; std::getline(status, line);) {
    std::istringstream words(line);
    std::string key;
    double kib = 0;
    words >> key >> kib;
    if (key == "VmRSS:") usage.resident_mb = kib / 1024;
    if (key == "VmHWM:") usage.peak_mb = kib / 1024;
  }
  std::ifstream stat(folder + "/stat");
  std::string text{std::istreambuf_iterator<char>(stat), {}};
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  constexpr int kUserTime = 11;  // counted from the state, the first field after the name
  std::string field;
  for (int i = 0; i < kUserTime; ++i) fields >> field;
  double user = 0;
  double system = 0;
  fields >> user >> system;
  usage.cpu_seconds = (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
  return usage;
}

Operator::Operator(const std::string& program, const std::string& kubeconfig, const std::string& ns,
                   const std::string& log) {
  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error("fork failed");
  if (pid_ == 0) {
    const int fd = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    dup2(fd, STDERR_FILENO);
    execl(program.c_str(), "lockstep-operator", "--kubeconfig", kubeconfig.c_str(), "--namespace",
          ns.c_str(), "--listen", "127.0.0.1", "--port", "0", "--runtime-image",
          "example.invalid/runtime:bench", nullptr);
    _exit(127);
  }
  const auto deadline = Clock::now() + std::chrono::seconds(30);
  while (Clock::now() < deadline) {
    std::ifstream in(log);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    std::smatch match;
    if (std::regex_search(text, match, std::regex("port=([0-9]+)"))) port_ = std::stoi(match[1]);
    if (port_ != 0 && !get("/readyz").empty()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  throw std::runtime_error("the operator did not become ready: see " + log);
}

Operator::~Operator() {
  kill(pid_, SIGTERM);
  waitpid(pid_, nullptr, 0);
}

std::string Operator::get(const std::string& path) const {
  httplib::Client client("127.0.0.1", port_);
  const httplib::Result answer = client.Get(path.c_str());
  return answer && answer->status == 200 ? answer->body : "";
}

std::map<std::string, double> Operator::requests() const {
  std::map<std::string, double> all;
  const std::string text = get("/metrics");
  const std::regex series(R"(rest_client_requests_total\{([^}]*)\} ([0-9.e+]+))");
  for (std::sregex_iterator it(text.begin(), text.end(), series), end; it != end; ++it) {
    std::smatch method;
    const std::string labels = (*it)[1];
    if (std::regex_search(labels, method, std::regex("method=\"([A-Z]+)\""))) {
      all[method[1]] += std::stod((*it)[2]);
    }
  }
  return all;
}

}  // namespace lockstep::bench
