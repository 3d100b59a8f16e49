#include "tests/support/mlflow_server/mlflow_server.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <regex>
#include <sstream>
#include <string_view>
#include <utility>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace lockstep::support {
namespace {

using nlohmann::json;

constexpr std::string_view kPrefix = "/api/2.0/mlflow/";

// As mlflow/utils/validation.py has them.
constexpr std::size_t kMaxMetrics = 1000;
constexpr std::size_t kMaxParams = 100;
constexpr std::size_t kMaxTags = 100;
constexpr std::size_t kMaxEntries = 1000;
constexpr std::size_t kMaxBatchBytes = 1000000;
constexpr std::size_t kMaxKey = 250;
constexpr std::size_t kMaxParam = 6000;
constexpr std::size_t kMaxTag = 8000;

bool is_key(const json& key) {
  static const std::regex allowed("[A-Za-z0-9_.: /-]+");
  if (!key.is_string()) return false;
  const auto text = key.get<std::string>();
  return text.size() <= kMaxKey && std::regex_match(text, allowed);
}

bool is_text(const json& entry, std::size_t longest) {
  return entry.contains("value") && entry["value"].is_string() &&
         entry["value"].get<std::string>().size() <= longest;
}

bool is_value(const json& value) {
  return value.is_number() || value == "NaN" || value == "Infinity" || value == "-Infinity";
}

std::string query_of(const std::string& target, const std::string& name) {
  const std::size_t at = target.find(name + "=");
  return at == std::string::npos ? "" : target.substr(at + name.size() + 1);
}

json error(const char* code, const std::string& message) {
  return {{"error_code", code}, {"message", message}};
}

json info_of(const ToldRun& run) {
  return {{"run_id", run.id},
          {"experiment_id", run.experiment},
          {"status", run.status},
          {"lifecycle_stage", run.is_deleted ? "deleted" : "active"}};
}

}  // namespace

std::vector<int64_t> ToldRun::steps_of(const std::string& key) const {
  std::vector<int64_t> steps;
  for (const ToldMetric& metric : metrics) {
    if (metric.key == key) steps.push_back(metric.step);
  }
  return steps;
}

MlflowServer::MlflowServer() {
  experiments_["Default"] = "0";
  thread_ = std::jthread([this](const std::stop_token& stop) { serve(stop); });
}

MlflowServer::~MlflowServer() = default;

void MlflowServer::add_fault(MlflowFault fault) {
  const std::lock_guard lock(mutex_);
  faults_.push_back(std::move(fault));
}

void MlflowServer::require_authorization(const std::string& value) {
  const std::lock_guard lock(mutex_);
  authorization_ = value;
}

void MlflowServer::delete_run(const std::string& id) {
  const std::lock_guard lock(mutex_);
  if (ToldRun* const run = find(id)) run->is_deleted = true;
}

std::vector<ToldRun> MlflowServer::runs() const {
  const std::lock_guard lock(mutex_);
  return runs_;
}

std::vector<std::string> MlflowServer::violations() const {
  const std::lock_guard lock(mutex_);
  return violations_;
}

int MlflowServer::count(const std::string& path) const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(std::count_if(
      paths_.begin(), paths_.end(),
      [&path](const std::string& asked) { return asked.find(path) != std::string::npos; }));
}

void MlflowServer::serve(const std::stop_token& stop) {
  constexpr int kLookEveryMs = 5;
  std::vector<std::jthread> serving;
  while (!stop.stop_requested()) {
    pollfd entry{listener_.fd(), POLLIN, 0};
    if (poll(&entry, 1, kLookEveryMs) <= 0) continue;
    const int fd = accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    ++connections_;
    if (is_down_) {
      close(fd);
      continue;
    }
    serving.emplace_back([this, fd] {
      serve_one(fd);
      close(fd);
    });
  }
}

bool MlflowServer::read_request(int fd, Request& request) {
  std::string text;
  std::array<char, 65536> buffer{};
  std::size_t head_end = std::string::npos;
  std::size_t body_bytes = 0;
  while (head_end == std::string::npos || text.size() < head_end + 4 + body_bytes) {
    const ssize_t size = recv(fd, buffer.data(), buffer.size(), 0);
    if (size <= 0) return false;
    text.append(buffer.data(), static_cast<std::size_t>(size));
    if (head_end != std::string::npos) continue;
    head_end = text.find("\r\n\r\n");
    if (head_end == std::string::npos) continue;
    std::istringstream lines(text.substr(0, head_end + 2));
    lines >> request.method >> request.target;
    std::string line;
    std::getline(lines, line);
    while (std::getline(lines, line) && line.find(':') != std::string::npos) {
      const std::size_t colon = line.find(':');
      std::string name = line.substr(0, colon);
      std::transform(name.begin(), name.end(), name.begin(),
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      request.headers[name] = line.substr(colon + 2, line.size() - colon - 3);
    }
    if (const auto length = request.headers.find("content-length");
        length != request.headers.end()) {
      body_bytes = std::stoul(length->second);
    }
  }
  request.body = text.substr(head_end + 4);
  return true;
}

void MlflowServer::serve_one(int fd) {
  timeval limit{.tv_sec = 10, .tv_usec = 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  Request request;
  if (!read_request(fd, request)) return;
  const MlflowFault fault = take_fault(request.target);
  std::this_thread::sleep_for(fault.delay);
  const Answer told = fault.status != 0 ? Answer{fault.status, fault.body} : answer(request);
  if (fault.loses_answer) return;
  std::string text = "HTTP/1.1 " + std::to_string(told.status) +
                     " X\r\nContent-Type: application/json\r\nConnection: close\r\n"
                     "Content-Length: " +
                     std::to_string(told.body.size()) + "\r\n\r\n" + told.body;
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t sent = send(fd, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    rest.remove_prefix(static_cast<std::size_t>(sent));
  }
}

MlflowFault MlflowServer::take_fault(const std::string& path) {
  const std::lock_guard lock(mutex_);
  paths_.push_back(path);
  const auto found = std::find_if(faults_.begin(), faults_.end(), [&path](const MlflowFault& one) {
    return path.find(one.path) != std::string::npos;
  });
  if (found == faults_.end()) return {};
  MlflowFault fault = *found;
  faults_.erase(found);
  return fault;
}

MlflowServer::Answer MlflowServer::refuse(const std::string& message) {
  violations_.push_back(message);
  return {400, error("INVALID_PARAMETER_VALUE", message).dump()};
}

ToldRun* MlflowServer::find(const std::string& id) {
  const auto found =
      std::find_if(runs_.begin(), runs_.end(), [&id](const ToldRun& run) { return run.id == id; });
  return found == runs_.end() ? nullptr : &*found;
}

MlflowServer::Answer MlflowServer::answer(const Request& request) {
  const std::lock_guard lock(mutex_);
  if (!request.target.starts_with(kPrefix)) return refuse("no path of MLflow: " + request.target);
  const auto header = [&request](const char* name) {
    const auto found = request.headers.find(name);
    return found == request.headers.end() ? std::string() : found->second;
  };
  if (!authorization_.empty() && header("authorization") != authorization_) {
    return {403, error("PERMISSION_DENIED", "you may not").dump()};
  }
  json body;
  if (request.method == "POST") {
    if (header("content-type") != "application/json") return refuse("no JSON, says its type");
    body = json::parse(request.body, nullptr, false);
    if (!body.is_object()) return refuse("no object: " + request.body.substr(0, 100));
  }
  const std::string rest = request.target.substr(kPrefix.size());
  const std::string path = rest.substr(0, rest.find('?'));
  return carry_out(request, path, body);
}

MlflowServer::Answer MlflowServer::carry_out(const Request& request, const std::string& path,
                                             const json& body) {
  const bool is_get = path == "experiments/get-by-name" || path == "runs/get";
  if (request.method != (is_get ? "GET" : "POST")) return refuse(request.method + " " + path);
  if (path == "experiments/get-by-name") return experiment_by_name(request.target);
  if (path == "experiments/create") return create_experiment(body);
  if (path == "runs/create") return create_run(body);
  if (path == "runs/search") return search_runs(body);
  if (path == "runs/get") return get_run(request.target);
  if (path == "runs/update") return update_run(body);
  if (path == "runs/log-batch") {
    if (request.body.size() > kMaxBatchBytes) return refuse("a batch of over 1 MB");
    return log_batch(body);
  }
  return refuse("no path of MLflow: " + path);
}

MlflowServer::Answer MlflowServer::experiment_by_name(const std::string& target) const {
  const auto found = experiments_.find(query_of(target, "experiment_name"));
  if (found == experiments_.end()) {
    return {404, error("RESOURCE_DOES_NOT_EXIST", "no such experiment").dump()};
  }
  return {200,
          json{{"experiment", {{"experiment_id", found->second}, {"lifecycle_stage", "active"}}}}
              .dump()};
}

MlflowServer::Answer MlflowServer::create_experiment(const json& body) {
  const std::string name = body.value("name", "");
  if (name.empty()) return refuse("an experiment without a name");
  if (experiments_.contains(name)) {
    return {400, error("RESOURCE_ALREADY_EXISTS", name).dump()};
  }
  experiments_[name] = std::to_string(experiments_.size());
  return {200, json{{"experiment_id", experiments_[name]}}.dump()};
}

MlflowServer::Answer MlflowServer::create_run(const json& body) {
  const std::string experiment = body.value("experiment_id", "");
  const bool is_known =
      std::any_of(experiments_.begin(), experiments_.end(),
                  [&experiment](const auto& entry) { return entry.second == experiment; });
  if (!is_known) return refuse("no such experiment: " + experiment);
  if (!body.contains("start_time") || !body["start_time"].is_number_integer()) {
    return refuse("a run without a start");
  }
  ToldRun run{.id = "run" + std::to_string(runs_.size()),
              .experiment = experiment,
              .name = body.value("run_name", ""),
              .start_time = body["start_time"].get<int64_t>()};
  for (const json& tag : body.value("tags", json::array())) run.tags[tag["key"]] = tag["value"];
  runs_.push_back(run);
  return {200, json{{"run", {{"info", info_of(run)}}}}.dump()};
}

MlflowServer::Answer MlflowServer::search_runs(const json& body) const {
  // "tags.`KEY` = 'VALUE'"
  static const std::regex filter("tags\\.`([^`]+)` = '([^']*)'");
  const std::string text = body.value("filter", "");
  std::smatch parts;
  json found = json::array();
  if (std::regex_match(text, parts, filter)) {
    for (const ToldRun& run : runs_) {
      const auto tag = run.tags.find(parts[1]);
      const bool is_it = tag != run.tags.end() && tag->second == parts[2] && !run.is_deleted;
      if (is_it) found.push_back({{"info", info_of(run)}});
    }
  }
  return {200, found.empty() ? "{}" : json{{"runs", found}}.dump()};
}

MlflowServer::Answer MlflowServer::get_run(const std::string& target) const {
  const std::string id = query_of(target, "run_id");
  for (const ToldRun& run : runs_) {
    if (run.id == id) return {200, json{{"run", {{"info", info_of(run)}}}}.dump()};
  }
  return {404, error("RESOURCE_DOES_NOT_EXIST", "no such run").dump()};
}

MlflowServer::Answer MlflowServer::update_run(const json& body) {
  static const std::vector<std::string> kStatuses = {"RUNNING", "SCHEDULED", "FINISHED", "FAILED",
                                                     "KILLED"};
  ToldRun* const run = find(body.value("run_id", ""));
  if (run == nullptr) return refuse("an update of no run");
  const std::string status = body.value("status", "");
  if (std::find(kStatuses.begin(), kStatuses.end(), status) == kStatuses.end()) {
    return refuse("no status: " + status);
  }
  run->status = status;
  run->end_time = body.value("end_time", int64_t{0});
  return {};
}

MlflowServer::Answer MlflowServer::log_batch(const json& body) {
  ToldRun* const run = find(body.value("run_id", ""));
  if (run == nullptr) return refuse("a batch of no run");
  if (run->is_deleted) return refuse("a batch of a deleted run");
  const json metrics = body.value("metrics", json::array());
  const json params = body.value("params", json::array());
  const json tags = body.value("tags", json::array());
  if (metrics.size() > kMaxMetrics || params.size() > kMaxParams || tags.size() > kMaxTags ||
      metrics.size() + params.size() + tags.size() > kMaxEntries) {
    return refuse("too large a batch");
  }
  for (const json& tag : tags) {
    if (!tag.contains("key") || !is_key(tag["key"]) || !is_text(tag, kMaxTag)) {
      return refuse("no tag: " + tag.dump());
    }
    run->tags[tag["key"]] = tag["value"];
  }
  const Answer answer = take_params(*run, params);
  return answer.status == 200 ? take_metrics(*run, metrics) : answer;
}

MlflowServer::Answer MlflowServer::take_params(ToldRun& run, const json& params) {
  for (const json& param : params) {
    if (!param.contains("key") || !is_key(param["key"]) || !is_text(param, kMaxParam)) {
      return refuse("no param: " + param.dump());
    }
    const auto [entry, is_new] = run.params.emplace(param["key"], param["value"]);
    if (!is_new && entry->second != param["value"]) {
      return refuse("a param that changes: " + entry->first);
    }
  }
  return {};
}

MlflowServer::Answer MlflowServer::take_metrics(ToldRun& run, const json& metrics) {
  for (const json& metric : metrics) {
    const bool is_whole = metric.contains("key") && is_key(metric["key"]) &&
                          metric.contains("value") && is_value(metric["value"]) &&
                          metric.contains("timestamp") && metric["timestamp"].is_number_integer() &&
                          metric.contains("step") && metric["step"].is_number_integer();
    if (!is_whole) return refuse("no metric: " + metric.dump());
    run.metrics.push_back({.key = metric["key"],
                           .value = metric["value"],
                           .timestamp = metric["timestamp"],
                           .step = metric["step"]});
  }
  return {};
}

}  // namespace lockstep::support
