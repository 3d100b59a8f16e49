#include "operator/local/process_cluster.h"

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "operator/plan/names.h"
#include "operator/plan/render.h"

namespace lockstep::local {

namespace fs = std::filesystem;
using common::Error;
using common::ErrorCode;
using common::Result;

namespace {

std::string read_text(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

Result<void> make_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error) return {};
  return Error{ErrorCode::kPermissionDenied, "cannot create " + path + ": " + error.message(),
               "choose another --output"};
}

}  // namespace

int64_t attempt_of(const nlohmann::json& pod) {
  return std::stoll(pod["metadata"]["labels"][plan::kAttemptLabel].get<std::string>());
}

ProcessCluster::ProcessCluster(ProcessClusterOptions options) : options_(std::move(options)) {}

ProcessCluster::~ProcessCluster() {
  kill_all();
}

Result<void> ProcessCluster::apply(const std::vector<plan::Action>& actions) {
  for (const plan::Action& action : actions) {
    RETURN_IF_ERROR(std::visit([this](const auto& one) { return apply_one(one); }, action));
  }
  return {};
}

std::string ProcessCluster::node_name() const {
  return "node-" + std::to_string(options_.place.node_rank);
}

std::string ProcessCluster::attempt_dir(int64_t attempt) const {
  return options_.output + "/logs/attempt-" + std::to_string(attempt);
}

std::string ProcessCluster::log_file(int64_t attempt, int64_t rank) const {
  return attempt_dir(attempt) + "/rank-" + std::to_string(rank) + ".log";
}

Result<void> ProcessCluster::apply_one(const plan::CreateConfigMap& action) {
  const fs::path folder = fs::path(options_.output) / "logs";
  RETURN_IF_ERROR(make_folder(folder.string()));
  // Nodes share the output: each has a file of its own, which no other writes while it is read.
  const std::string owner = options_.place.nodes == 1 ? "" : "." + node_name();
  const std::string path = (folder / (action.name + owner + ".json")).string();
  std::ofstream(path) << action.body["data"]["job.json"].get<std::string>();
  const auto& data = action.body["data"];
  config_maps_[action.name] = {path, data.value(plan::kTemplateKey, "")};
  return {};
}

Result<void> ProcessCluster::apply_one(const plan::CreateService& action) {
  services_.push_back({action.name, "service", "", false});
  return {};
}

Result<void> ProcessCluster::apply_one(const plan::DeleteConfigMap& action) {
  config_maps_.erase(action.name);
  return {};
}

// No queue holds a process.
Result<void> ProcessCluster::apply_one(const plan::EndPodGroup&) {
  return {};
}

// Processes have their machine already: a local run asks no scheduler for a gang.
Result<void> ProcessCluster::apply_one(const plan::CreatePodGroup&) {
  return {};
}

Result<void> ProcessCluster::apply_one(const plan::DeletePodGroup&) {
  return {};
}

// A local run ends with its job; there is no object that could outlive it.
Result<void> ProcessCluster::apply_one(const plan::DeleteJob&) {
  return {};
}

Result<void> ProcessCluster::apply_one(const plan::CreatePod& action) {
  try {
    return start(action);
  } catch (const std::system_error& error) {  // no port
    return Error{ErrorCode::kUnavailable, error.what(), "end other programs"};
  }
}

Result<void> ProcessCluster::start(const plan::CreatePod& action) {
  Process process;
  process.view.name = action.name;
  process.view.uid = "process-" + std::to_string(next_uid_++);
  process.view.attempt = attempt_of(action.body);
  process.view.rank = action.rank;
  process.view.node = options_.place.nodes == 1 ? "localhost" : node_name();
  process.view.pod_ip = "127.0.0.1";
  process.view.phase = plan::PodPhase::kRunning;
  process.view.ready = true;

  const int64_t attempt = process.view.attempt;
  RETURN_IF_ERROR(make_folder(attempt_dir(attempt)));
  ProcessPlace place;
  place.log_file = log_file(attempt, action.rank);
  process.termination_file = attempt_dir(attempt) + "/rank-" + std::to_string(action.rank) + ".end";
  std::ofstream(process.termination_file, std::ios::trunc);
  place.termination_file = process.termination_file;
  place.job_file =
      config_maps_[plan::config_map_name(
                       action.body["metadata"]["labels"][plan::kJobNameLabel].get<std::string>(),
                       attempt)]
          .job_file;
  place.output = options_.output;
  place.runtime_program = options_.runtime_program;
  place.output_mode = options_.output_mode;
  place.node = options_.place;
  place.master_port = options_.place.nodes == 1 ? master_ports_[attempt].number()
                                                : options_.place.rendezvous_port();
  place.metrics_port = process.metrics_port.number();
  ASSIGN_OR_RETURN(process.pid, start_rank(rank_command(action.body, place)));
  processes_[action.name] = std::move(process);
  return {};
}

Result<void> ProcessCluster::apply_one(const plan::DeletePod& action) {
  const auto found = processes_.find(action.name);
  if (found == processes_.end() || found->second.view.uid != action.uid) return {};
  Process& process = found->second;
  const auto grace = std::chrono::seconds(action.grace_seconds);
  const auto kill_at = std::chrono::steady_clock::now() + grace;
  if (!process.view.deleting && !process.ended()) kill(process.pid, SIGTERM);
  process.view.deleting = true;
  process.view.deletion_deadline = api::wall_clock() + grace;
  // A later deletion may shorten the grace period, never lengthen it, as in Kubernetes.
  process.kill_at = std::min(process.kill_at.value_or(kill_at), kill_at);
  return {};
}

void ProcessCluster::reap(Process& process) {
  const std::optional<int> code = reap_rank(process.pid);
  if (!code) return;
  plan::ContainerExit exit;
  exit.exit_code = *code;
  exit.reason = *code == 0 ? "Completed" : "Error";
  exit.message = read_text(process.termination_file);
  exit.finished_at = api::wall_clock();
  process.view.exit = std::move(exit);
  process.view.phase = *code == 0 ? plan::PodPhase::kSucceeded : plan::PodPhase::kFailed;
  process.view.ready = false;
}

plan::Observation ProcessCluster::observe(const std::string& owner_uid) {
  plan::Observation seen;
  for (auto entry = processes_.begin(); entry != processes_.end();) {
    Process& process = entry->second;
    if (!process.ended()) reap(process);
    if (!process.ended() && process.kill_at &&
        std::chrono::steady_clock::now() >= *process.kill_at) {
      kill(-process.pid, SIGKILL);
    }
    if (process.ended() && process.view.deleting) {
      entry = processes_.erase(entry);
      continue;
    }
    process.view.owner_uid = owner_uid;
    seen.pods.push_back(process.view);
    ++entry;
  }
  for (const auto& [name, config_map] : config_maps_) {
    seen.config_maps.push_back({name, "config-" + name, owner_uid, false, config_map.pod_template});
  }
  for (plan::ChildView service : services_) {
    service.owner_uid = owner_uid;
    seen.services.push_back(service);
  }
  return seen;
}

bool ProcessCluster::has_live_processes() const {
  for (const auto& [name, process] : processes_) {
    if (!process.ended()) return true;
  }
  return false;
}

void ProcessCluster::kill_all() {
  for (auto& [name, process] : processes_) {
    if (process.ended()) continue;
    kill(-process.pid, SIGKILL);
    while (!process.ended() && kill(process.pid, 0) == 0) reap(process);
  }
}

std::optional<int> ProcessCluster::metrics_port(int64_t attempt, int64_t rank) const {
  for (const auto& [name, process] : processes_) {
    const bool matches = process.view.attempt == attempt && process.view.rank == rank;
    if (matches && !process.ended()) return process.metrics_port.number();
  }
  return std::nullopt;
}

}  // namespace lockstep::local
