#include "runtime/common/worker_env.h"

#include <charconv>
#include <string_view>

namespace lockstep::common {
namespace {

using Lookup = std::function<std::optional<std::string>(const std::string&)>;

struct IntVariable {
  std::string name;
  int min = 0;
  int max = 0;
  std::optional<int> otherwise;  // when unset; nothing = required
};

Error invalid(const std::string& name, const std::string& found, const std::string& expected) {
  return Error{ErrorCode::kInvalidArgument, name + ": expected " + expected + ", found " + found,
               "lockstep-runtime is started by `lockstep run` or the operator, which set " + name};
}

Result<int> read_int(const Lookup& lookup, const IntVariable& variable) {
  const std::string expected =
      "a number from " + std::to_string(variable.min) + " to " + std::to_string(variable.max);
  const std::optional<std::string> text = lookup(variable.name);
  if (!text || text->empty()) {
    if (variable.otherwise) return *variable.otherwise;
    return invalid(variable.name, "nothing", expected);
  }
  int value = 0;
  const char* const end = text->data() + text->size();
  const auto [stop, status] = std::from_chars(text->data(), end, value);
  if (status != std::errc() || stop != end || value < variable.min || value > variable.max) {
    return invalid(variable.name, "'" + *text + "'", expected);
  }
  return value;
}

Result<std::string> read_text(const Lookup& lookup, const std::string& name,
                              const std::string& expected) {
  std::optional<std::string> text = lookup(name);
  if (!text || text->empty()) return invalid(name, "nothing", expected);
  return *std::move(text);
}

Result<OutputMode> read_output_mode(const Lookup& lookup) {
  const std::string name = "LOCKSTEP_OUTPUT_MODE";
  const std::string text = lookup(name).value_or("auto");
  if (text == "auto" || text.empty()) return OutputMode::kAuto;
  if (text == "resume") return OutputMode::kResume;
  if (text == "overwrite") return OutputMode::kOverwrite;
  return invalid(name, "'" + text + "'", "auto, resume or overwrite");
}

Result<DeviceChoice> read_device(const Lookup& lookup) {
  const std::string name = "LOCKSTEP_DEVICE";
  const std::string text = lookup(name).value_or("");
  if (text.empty() || text == "cpu") return DeviceChoice::kProcessor;
  if (text == "cuda") return DeviceChoice::kGpu;
  if (text == "cuda-shared") return DeviceChoice::kSharedGpu;
  return invalid(name, "'" + text + "'", "cpu, cuda or cuda-shared");
}

}  // namespace

Result<WorkerEnv> read_worker_env(const Lookup& lookup) {
  constexpr int kMaxRanks = 1 << 20;
  constexpr int kMaxPort = 65535;
  WorkerEnv env;
  ASSIGN_OR_RETURN(env.world_size, read_int(lookup, {"WORLD_SIZE", 1, kMaxRanks, {}}));
  ASSIGN_OR_RETURN(env.rank, read_int(lookup, {"RANK", 0, env.world_size - 1, {}}));
  ASSIGN_OR_RETURN(env.local_world_size,
                   read_int(lookup, {"LOCAL_WORLD_SIZE", 1, env.world_size, 1}));
  ASSIGN_OR_RETURN(env.local_rank,
                   read_int(lookup, {"LOCAL_RANK", 0, env.local_world_size - 1, 0}));
  if (env.world_size > 1) {
    ASSIGN_OR_RETURN(env.master_addr, read_text(lookup, "MASTER_ADDR", "the address of rank 0"));
    ASSIGN_OR_RETURN(env.master_port, read_int(lookup, {"MASTER_PORT", 1, kMaxPort, {}}));
  }
  ASSIGN_OR_RETURN(env.job_path, read_text(lookup, "LOCKSTEP_JOB", "the path of the job's JSON"));
  ASSIGN_OR_RETURN(env.attempt, read_int(lookup, {"LOCKSTEP_ATTEMPT", 0, 1 << 30, 0}));
  env.run_id = lookup("LOCKSTEP_RUN_ID").value_or("");
  ASSIGN_OR_RETURN(env.output,
                   read_text(lookup, "LOCKSTEP_OUTPUT", "the path of the output folder"));
  ASSIGN_OR_RETURN(env.output_mode, read_output_mode(lookup));
  ASSIGN_OR_RETURN(env.metrics_port,
                   read_int(lookup, {"LOCKSTEP_METRICS_PORT", 0, kMaxPort, 9400}));
  env.listen_address = lookup("LOCKSTEP_LISTEN_ADDRESS").value_or("0.0.0.0");
  env.shm_folder = lookup("LOCKSTEP_SHM_DIR").value_or("/dev/shm");
  ASSIGN_OR_RETURN(env.device, read_device(lookup));
  env.network_interface = lookup("GLOO_SOCKET_IFNAME").value_or("");
  env.termination_path = lookup("LOCKSTEP_TERMINATION_MESSAGE").value_or("/dev/termination-log");
  env.metrics_port_file = lookup("LOCKSTEP_METRICS_PORT_FILE").value_or("");
  ASSIGN_OR_RETURN(env.ranks_per_pod, read_int(lookup, {"LOCKSTEP_RANKS_PER_POD", 1,
                                                        env.local_world_size - env.local_rank, 1}));
  ASSIGN_OR_RETURN(env.grace_seconds, read_int(lookup, {"LOCKSTEP_GRACE_SECONDS", 1, 1 << 20, 30}));
  return env;
}

}  // namespace lockstep::common
