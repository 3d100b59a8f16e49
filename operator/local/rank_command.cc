#include "operator/local/rank_command.h"

#include <optional>

namespace lockstep::local {

using nlohmann::json;

namespace {

constexpr const char* kLoopback = "127.0.0.1";

// Values of the downward API, for a process; nothing if a process has none.
std::optional<std::string> field_value(const json& pod, const std::string& path) {
  if (path == "metadata.name") return pod["metadata"]["name"];
  if (path == "metadata.namespace") return pod["metadata"]["namespace"];
  if (path == "status.podIP") return kLoopback;
  if (path == "spec.nodeName") return "localhost";
  return std::nullopt;
}

std::optional<std::string> value_of(const json& pod, const json& variable) {
  if (!variable.contains("valueFrom")) return variable.value("value", "");
  const json source = variable["valueFrom"].value("fieldRef", json::object());
  return field_value(pod, source.value("fieldPath", ""));
}

}  // namespace

RankCommand rank_command(const json& pod, const ProcessPlace& place) {
  const json& container = pod["spec"]["containers"][0];
  RankCommand command;
  command.argv = container["command"].get<std::vector<std::string>>();
  for (std::string& word : command.argv) {  // a template may start it through another program
    if (word == "lockstep-runtime") word = place.runtime_program;
  }
  for (const json& argument : container.value("args", json::array()))
    command.argv.push_back(argument);

  for (const json& variable : container["env"]) {
    const std::optional<std::string> value = value_of(pod, variable);
    if (value) command.env[variable["name"]] = *value;
  }
  const bool is_alone = place.node.nodes == 1;
  const std::string master = is_alone ? kLoopback : place.node.master_host;
  const std::string master_port = std::to_string(place.master_port);
  command.env["MASTER_ADDR"] = master;
  command.env["MASTER_PORT"] = master_port;
  command.env["PET_MASTER_ADDR"] = master;
  command.env["PET_MASTER_PORT"] = master_port;
  if (!is_alone) command.env.erase("POD_IP");  // loopback, which others cannot dial
  // Every rank of the machine is a local rank, so that each takes a device of its own.
  const int64_t rank = std::stoll(command.env["RANK"]);
  const int64_t world_size = std::stoll(command.env["WORLD_SIZE"]);
  command.env["LOCAL_RANK"] = std::to_string(place.node.local_rank(rank, world_size));
  command.env["LOCAL_WORLD_SIZE"] = std::to_string(place.node.local_world_size(world_size));
  command.env["LOCKSTEP_JOB"] = place.job_file;
  command.env["LOCKSTEP_OUTPUT"] = place.output;
  command.env["LOCKSTEP_OUTPUT_MODE"] = place.output_mode;
  command.env["LOCKSTEP_METRICS_PORT"] = std::to_string(place.metrics_port);
  command.env["LOCKSTEP_LISTEN_ADDRESS"] = kLoopback;
  command.env["LOCKSTEP_TERMINATION_MESSAGE"] = place.termination_file;
  // What kernels and memory to use is the shell's to say; a pod always takes the same.
  command.env.erase("LOCKSTEP_SHM_DIR");
  command.env.erase("LOCKSTEP_DEVICE");
  command.env.erase("LOCKSTEP_ISA");
  command.env.erase("LOCKSTEP_PRODUCTS");
  command.log_file = place.log_file;
  command.termination_file = place.termination_file;
  return command;
}

}  // namespace lockstep::local
