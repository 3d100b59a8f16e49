#include "tests/support/process_kubelet/kubelet.h"

#include <csignal>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include <fcntl.h>
#include <unistd.h>

#include "tests/support/process_kubelet/pod_json.h"
#include "tests/support/process_kubelet/pod_process.h"

namespace lockstep::testing {

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

const kube::ResourceType kPods{"", "v1", "pods"};
const kube::ResourceType kNodes{"", "v1", "nodes"};
const kube::ResourceType kConfigMaps{"", "v1", "configmaps"};

std::string now_rfc3339() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

std::string read_file(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// The last 2 KiB of a log, as FallbackToLogsOnError reports it.
std::string tail(const std::string& text) {
  constexpr size_t kLimit = 2048;
  return text.size() <= kLimit ? text : text.substr(text.size() - kLimit);
}

template <typename T>
const kube::ApiError* error_of(const kube::ApiResult<T>& result) {
  return std::get_if<kube::ApiError>(&result);
}

void log_error(const std::string& what, const kube::ApiError& error) {
  std::cerr << "process-kubelet: " << what << ": " << error.error.message << std::endl;
}

}  // namespace

// Well within the controller manager's grace of 50 s, after which the node counts as lost.
constexpr std::chrono::seconds kHeartbeat{10};

ProcessKubelet::ProcessKubelet(kube::Client& client, KubeletOptions options)
    : client_(client), options_(std::move(options)) {
  fs::create_directories(fs::path(options_.state_dir) / "pods");
  write_hosts();
}

ProcessKubelet::~ProcessKubelet() {
  for (const auto& [uid, pod] : pods_) {
    if (pod.pid > 0 && !pod.exit_code) kill(-pod.pid, SIGKILL);
  }
}

bool ProcessKubelet::register_node() {
  const json node = {
      {"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", options_.node}}}};
  const auto created = client_.create({kNodes, "", "", ""}, node);
  const kube::ApiError* error = error_of(created);
  if (error != nullptr && error->error.code != common::ErrorCode::kAlreadyExists) return false;
  return tell_ready();
}

bool ProcessKubelet::tell_ready() {
  next_heartbeat_ = std::chrono::steady_clock::now() + kHeartbeat;
  const json ready = {{"status",
                       {{"conditions", json::array({{{"type", "Ready"},
                                                     {"status", "True"},
                                                     {"reason", "ProcessKubelet"},
                                                     {"lastHeartbeatTime", now_rfc3339()},
                                                     {"lastTransitionTime", now_rfc3339()}}})}}}};
  return error_of(client_.patch({kNodes, "", options_.node, "status"}, kube::PatchType::kMerge,
                                ready)) == nullptr;
}

void ProcessKubelet::sync() {
  if (std::chrono::steady_clock::now() >= next_heartbeat_ && !tell_ready()) {
    return;  // a later sync tries again
  }
  const auto listed = client_.list({kPods, "", "", ""}, {}, {});
  if (const kube::ApiError* error = error_of(listed)) return log_error("list pods", *error);
  const json& pods = std::get<json>(listed);
  for (const json& pod : pods["items"]) sync_pod(pod);
  forget_deleted(pods);
}

void ProcessKubelet::sync_pod(const json& pod) {
  const std::string node = pod["spec"].value("nodeName", "");
  if (node.empty()) {
    const bool is_ours = pod["spec"].value("schedulerName", "") == "default-scheduler";
    const bool is_gated = !pod["spec"].value("schedulingGates", json::array()).empty();
    const bool is_in_gang = pod["spec"].contains("schedulingGroup");  // for gang_double to place
    const bool may_be_bound = is_ours && !is_gated && !is_in_gang;
    if (may_be_bound && !pod["metadata"].contains("deletionTimestamp")) bind_pod(pod);
    return;
  }
  if (node != options_.node) return;
  Pod& state = pods_[pod["metadata"]["uid"].get<std::string>()];
  if (state.name.empty()) {
    state.name = pod["metadata"]["name"];
    state.ns = pod["metadata"]["namespace"];
    state.directory = (fs::path(options_.state_dir) / "pods" / state.name).string();
  }
  const bool deleting = pod["metadata"].contains("deletionTimestamp");
  const std::string phase = pod["status"].value("phase", "Pending");
  if (state.pid < 0 && !deleting && phase == "Pending") start_pod(pod, state);
  if (state.pid > 0 && !state.exit_code) state.exit_code = reap_pod_process(state.pid);
  report(pod, state);
  if (deleting) terminate(pod, state);
}

void ProcessKubelet::bind_pod(const json& pod) {
  const json binding = {
      {"apiVersion", "v1"},
      {"kind", "Binding"},
      {"metadata", {{"name", pod["metadata"]["name"]}}},
      {"target", {{"apiVersion", "v1"}, {"kind", "Node"}, {"name", options_.node}}}};
  const auto bound = client_.create(
      {kPods, pod["metadata"]["namespace"], pod["metadata"]["name"], "binding"}, binding);
  if (const kube::ApiError* error = error_of(bound)) log_error("bind", *error);
}

std::optional<std::string> ProcessKubelet::volume_source(const json& volume, const Pod& state) {
  const std::string name = volume["name"];
  if (volume.contains("hostPath")) return volume["hostPath"]["path"].get<std::string>();
  fs::path folder = fs::path(state.directory) / "volumes" / name;
  if (volume.contains("persistentVolumeClaim")) {
    folder = fs::path(options_.state_dir) / "volumes" / state.ns /
             volume["persistentVolumeClaim"]["claimName"].get<std::string>();
  }
  fs::create_directories(folder);
  if (volume.contains("configMap")) {
    const auto found =
        client_.get({kConfigMaps, state.ns, volume["configMap"]["name"].get<std::string>(), ""});
    if (error_of(found) != nullptr) return std::nullopt;
    for (const auto& [key, value] : std::get<json>(found)["data"].items()) {
      std::ofstream(folder / key) << value.get<std::string>();
    }
  }
  return folder.string();
}

void ProcessKubelet::start_pod(const json& pod, Pod& state) {
  const json& container = pod["spec"]["containers"][0];
  PodCommand command;
  std::map<std::string, std::string> sources;
  for (const json& volume : pod["spec"].value("volumes", json::array())) {
    const std::optional<std::string> source = volume_source(volume, state);
    if (!source) return;  // a later sync tries again
    sources[volume["name"].get<std::string>()] = *source;
  }
  fs::create_directories(state.directory);
  for (const json& mount : container.value("volumeMounts", json::array())) {
    const std::string target = mount["mountPath"];
    if (target == "/dev/shm") continue;  // the sandbox gives every pod its own
    if (target == "/tmp") continue;      // the overlay's, below which the binaries may lie
    command.sandbox.mounts.push_back(
        {sources.at(mount["name"].get<std::string>()), target, mount.value("readOnly", false)});
  }
  state.ip = "127.77.0." + std::to_string(next_address_++ % 250 + 1);
  for (const std::string& name : host_names(pod)) addresses_[name] = state.ip;
  write_hosts();

  command.environment = container_environment(pod, state.ip, options_.node);
  command.environment.push_back("PATH=" + options_.bin_dir + ":/usr/local/bin:/usr/bin:/bin");
  command.environment.push_back("HOSTNAME=" + state.name);
  command.environment.push_back("HOME=/root");
  // Stands for the network namespace that a container would have, and for all addresses in it.
  const std::string listen = "LOCKSTEP_LISTEN_ADDRESS=";
  std::erase_if(command.environment, [&](const auto& one) { return one.starts_with(listen); });
  command.environment.push_back(listen + state.ip);
  command.argv = container.value("command", std::vector<std::string>{});
  for (const json& argument : container.value("args", json::array()))
    command.argv.push_back(argument);
  command.working_dir = container.value("workingDir", options_.working_dir);
  command.log_file = state.directory + "/log";
  command.sandbox.state_dir = state.directory;
  command.sandbox.hosts_file = options_.state_dir + "/hosts";
  command.sandbox.termination_file = state.directory + "/termination";
  command.sandbox.shared = {options_.working_dir};
  if (!options_.library_dir.empty()) command.sandbox.shared.push_back(options_.library_dir);
  std::ofstream(command.sandbox.termination_file, std::ios::trunc);

  state.started_at = now_rfc3339();
  state.pid = start_pod_process(command);
  std::ofstream(state.directory + "/pid") << state.pid << "\n";
}

void ProcessKubelet::report(const json& pod, Pod& state) {
  if (state.pid < 0) return;
  const bool ended = state.exit_code.has_value();
  if (ended ? state.reported_end : state.reported_running) return;
  PodStatusInput input{state.ip, state.started_at, std::nullopt};
  if (ended) {
    TerminatedContainer end{*state.exit_code, "", state.started_at, now_rfc3339()};
    end.message = read_file(state.directory + "/termination");
    if (end.message.empty() && end.exit_code != 0)
      end.message = tail(read_file(state.directory + "/log"));
    input.terminated = end;
  }
  const json patch = {{"metadata", {{"uid", pod["metadata"]["uid"]}}},
                      {"status", pod_status(pod, input)}};
  const auto patched =
      client_.patch({kPods, state.ns, state.name, "status"}, kube::PatchType::kMerge, patch);
  if (const kube::ApiError* error = error_of(patched))
    return log_error("status of " + state.name, *error);
  (ended ? state.reported_end : state.reported_running) = true;
}

void ProcessKubelet::terminate(const json& pod, Pod& state) {
  const auto now = std::chrono::steady_clock::now();
  if (state.pid > 0 && !state.exit_code) {
    const auto grace =
        std::chrono::seconds(pod["metadata"].value("deletionGracePeriodSeconds", 30));
    if (!state.kill_at) kill(state.pid, SIGTERM);
    // A later delete may shorten the grace period, never lengthen it.
    state.kill_at = std::min(state.kill_at.value_or(now + grace), now + grace);
    if (now >= *state.kill_at) kill(-state.pid, SIGKILL);
    return;
  }
  kube::DeleteOptions options;
  options.grace_period_seconds = 0;
  options.uid = pod["metadata"]["uid"];
  const auto removed = client_.remove({kPods, state.ns, state.name, ""}, options);
  if (const kube::ApiError* error = error_of(removed)) log_error("delete " + state.name, *error);
}

void ProcessKubelet::forget_deleted(const json& pods) {
  for (auto entry = pods_.begin(); entry != pods_.end();) {
    bool present = false;
    for (const json& pod : pods["items"]) present |= pod["metadata"]["uid"] == entry->first;
    Pod& state = entry->second;
    if (!present && state.pid > 0 && !state.exit_code) {  // forced deletion
      kill(-state.pid, SIGKILL);
      state.exit_code = reap_pod_process(state.pid);
    }
    const bool gone = !present && (state.pid < 0 || state.exit_code.has_value());
    entry = gone ? pods_.erase(entry) : std::next(entry);
  }
}

void ProcessKubelet::write_hosts() {
  // Rewritten in place: the sandboxes hold this very file. At once, for somebody may be reading it:
  // a rank 0 that does not find itself listens on all addresses.
  std::string text = "127.0.0.1 localhost\n";
  for (const auto& [name, address] : addresses_) text += address + " " + name + "\n";
  const int file =
      open((options_.state_dir + "/hosts").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  const bool is_written =
      pwrite(file, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()) &&
      ftruncate(file, static_cast<off_t>(text.size())) == 0;
  if (!is_written) std::cerr << "process-kubelet: cannot write the hosts file\n";
  close(file);
}

}  // namespace lockstep::testing
