#include "operator/convert/launch_flags.h"

#include <algorithm>

#include "operator/convert/machines.h"

namespace lockstep::convert {
namespace {

using nlohmann::json;

constexpr const char* kRankZero = "ranks find rank 0 themselves";
constexpr const char* kAllMachines = "one manifest is for all machines: a pod has its rank";
constexpr const char* kLogs = "the output of a pod is its log";
constexpr const char* kGoesAlong = "goes along in args";

std::optional<Verdict> take_nnodes(const json& value, Draft& draft) {
  std::optional<int64_t> nodes = whole(value);
  const std::string text = value.is_string() ? value.get<std::string>() : "";
  const size_t colon = text.find(':');  // MIN:MAX
  const bool elastic = colon != std::string::npos && colon > 0 && colon + 1 < text.size() &&
                       text.find_first_not_of("0123456789:") == std::string::npos;
  if (elastic) nodes = whole(json::parse(text.substr(colon + 1), nullptr, false));
  if (!nodes || *nodes < 1) return broken("must be a number of nodes, found " + value.dump());
  const int64_t ranks = *nodes * draft.count("nproc_per_node").value_or(1);
  if (!elastic) return draft.map("ranks", ranks, "nodes x processes per node");
  return draft.change("ranks", ranks, "the most; kubectl scale changes ranks at any time");
}

// deepspeed: num_gpus are of a node.
std::optional<Verdict> take_num_gpus(const json& value, Draft& draft) {
  const std::optional<int64_t> processes = whole(value);
  if (!processes || *processes < 1)
    return broken("must be a number of GPUs, found " + value.dump());
  return draft.map("ranksPerPod", *processes);
}

std::optional<Verdict> take_num_nodes(const json& value, Draft& draft) {
  const std::optional<int64_t> nodes = whole(value);
  if (!nodes || *nodes < 1) return broken("must be a number of nodes, found " + value.dump());
  if (draft.find("ranks") != nullptr) return mapped("so many hosts of the host file");
  return draft.map("ranks", *nodes * draft.count("num_gpus").value_or(1),
                   "nodes x processes per node");
}

// The launch line has read it before.
std::optional<Verdict> take_host_file(const json&, Draft&) {
  return mapped("ranks and ranksPerPod: hosts and slots");
}

Table rows_of(const std::vector<std::pair<const char*, std::vector<const char*>>>& groups) {
  Table table;
  for (const auto& group : groups) {
    for (const char* const key : group.second) table.push_back({key, without_effect(group.first)});
  }
  return table;
}

const std::vector<std::string>& kept_values() {
  static const std::vector<std::string> names = {"mixed_precision",
                                                 "gradient_accumulation_steps",
                                                 "gradient_clipping",
                                                 "zero_stage",
                                                 "offload_optimizer_device",
                                                 "offload_param_device",
                                                 "offload_optimizer_nvme_path",
                                                 "offload_param_nvme_path",
                                                 "zero3_init_flag",
                                                 "zero3_save_16bit_model",
                                                 "deepspeed_config_file",
                                                 "deepspeed_moe_layer_cls_names",
                                                 "num_cpu_threads_per_process",
                                                 "dynamo_backend",
                                                 "dynamo_mode",
                                                 "fsdp_version",
                                                 "fsdp_offload_params",
                                                 "fsdp_min_num_params",
                                                 "fsdp_sharding_strategy",
                                                 "fsdp_reshard_after_forward",
                                                 "fsdp_auto_wrap_policy",
                                                 "fsdp_transformer_layer_cls_to_wrap",
                                                 "fsdp_backward_prefetch",
                                                 "fsdp_state_dict_type",
                                                 "fsdp_forward_prefetch",
                                                 "fsdp_use_orig_params",
                                                 "fsdp_cpu_ram_efficient_loading",
                                                 "fsdp_sync_module_states",
                                                 "fsdp_activation_checkpointing",
                                                 "config_file"};
  return names;
}

const std::vector<std::string>& kept_switches() {
  static const std::vector<std::string> names = {"multi_gpu",
                                                 "cpu",
                                                 "use_deepspeed",
                                                 "use_fsdp",
                                                 "enable_cpu_affinity",
                                                 "quiet",
                                                 "q",
                                                 "dynamo_use_fullgraph",
                                                 "dynamo_use_dynamic",
                                                 "m",
                                                 "module",
                                                 "no_python",
                                                 "debug"};
  return names;
}

bool is_in(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

const std::vector<std::string>& torchrun_switches() {
  static const std::vector<std::string> names = {"standalone", "m",        "module",
                                                 "no_python",  "run_path", "use_env"};
  return names;
}

const std::vector<std::string>& accelerate_switches() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all = kept_switches();
    for (const char* const name : {"same_network", "use_megatron_lm", "tpu", "use_xpu", "ipex"}) {
      all.emplace_back(name);
    }
    return all;
  }();
  return names;
}

const std::vector<std::string>& deepspeed_switches() {
  static const std::vector<std::string> names = {"no_ssh",           "module",
                                                 "no_python",        "no_local_rank",
                                                 "force_multi",      "save_pid",
                                                 "no_ssh_check",     "enable_each_rank_log",
                                                 "elastic_training", "bind_cores_to_rank"};
  return names;
}

std::vector<std::string> kept_accelerate_flags(const json& flags) {
  std::vector<std::string> words;
  for (const auto& [name, value] : flags.items()) {
    const std::string flag = (name.size() == 1 ? "-" : "--") + name;
    if (is_in(kept_switches(), name)) {
      words.push_back(flag);
    } else if (is_in(kept_values(), name)) {
      words.push_back(flag);
      words.push_back(value.is_string() ? value.get<std::string>() : value.dump());
    }
  }
  return words;
}

const Table& torchrun_table() {
  static const Table table = [] {
    Table rows = rows_of(
        {{kRankZero,
          {"master_addr", "master_port", "rdzv_backend", "rdzv_endpoint", "rdzv_id", "rdzv_conf",
           "standalone", "local_addr", "use_env"}},
         {kAllMachines, {"node_rank"}},
         {kLogs,
          {"log_dir", "redirects", "r", "tee", "t", "local_ranks_filter", "logs_specs", "role"}},
         {"a rank that fails is seen at once", {"monitor_interval"}},
         {"processes are always spawned", {"start_method"}},
         {"goes along in command", {"m", "module", "no_python"}}});
    rows.push_back({"nnodes", take_nnodes});
    rows.push_back({"nproc_per_node", take_processes_per_pod});
    rows.push_back({"max_restarts", same("failurePolicy.maxRestarts",
                                         "of the whole gang, refilled by checkpoints")});
    rows.push_back({"run_path", refuse_unless_off("name the script, or a module with -m")});
    return rows;
  }();
  return table;
}

const Table& accelerate_launch_table() {
  static const Table table = [] {
    constexpr const char* kOther = "is not supported by this version";
    Table rows = rows_of(
        {{kRankZero,
          {"main_process_ip", "main_process_port", "rdzv_backend", "rdzv_conf", "same_network"}},
         {kAllMachines, {"machine_rank"}},
         {"resources.limits ask for GPUs, not for their numbers", {"gpu_ids"}},
         {kLogs, {"tee", "t", "log_dir", "role"}},
         {"a rank that fails is seen at once", {"monitor_interval"}},
         {"pods are started by the operator: no ssh, no list of hosts",
          {"deepspeed_hostfile", "deepspeed_exclusion_filter", "deepspeed_inclusion_filter",
           "deepspeed_multinode_launcher"}}});
    rows.push_back({"num_processes", take_processes});
    rows.push_back({"num_machines", take_machines});
    rows.push_back({"max_restarts", same("failurePolicy.maxRestarts",
                                         "of the whole gang, refilled by checkpoints")});
    for (const char* const key : {"use_megatron_lm", "tpu", "use_xpu", "ipex"}) {
      rows.push_back({key, refuse_unless_off(kOther)});
    }
    for (const auto& names : {kept_values(), kept_switches()}) {
      for (const std::string& name : names) {
        rows.push_back({name, [](const json&, Draft&) {
                          return std::optional(Verdict{.field = "args", .text = kGoesAlong});
                        }});
      }
    }
    return rows;
  }();
  return table;
}

const Table& deepspeed_launch_table() {
  static const Table table = [] {
    constexpr const char* kNoSsh = "pods are started by the operator: no ssh";
    constexpr const char* kChoose = "write ranks and ranksPerPod for the hosts that it leaves";
    Table rows = rows_of(
        {{kRankZero, {"master_addr", "master_port"}},
         {kAllMachines, {"node_rank"}},
         {kNoSsh,
          {"launcher", "launcher_args", "no_ssh", "no_ssh_check", "ssh_port", "force_multi"}},
         {kLogs, {"save_pid", "enable_each_rank_log", "log_level", "venv_script"}},
         {"the script finds LOCAL_RANK in its environment", {"no_local_rank"}},
         {"kubectl scale changes ranks at any time",
          {"elastic_training", "min_elastic_nodes", "max_elastic_nodes"}},
         {"threads per rank are fixed by resources", {"bind_cores_to_rank", "bind_core_list"}},
         {"goes along in command", {"module", "no_python"}}});
    rows.push_back({"hostfile", take_host_file});
    rows.push_back({"H", take_host_file});
    rows.push_back({"num_nodes", take_num_nodes});
    rows.push_back({"num_gpus", take_num_gpus});
    for (const char* const key : {"include", "i", "exclude", "e"}) {
      rows.push_back({key, refuse_unless_off(kChoose)});
    }
    rows.push_back({"autotuning", refuse_unless_off("lockstep estimate shows what fits")});
    return rows;
  }();
  return table;
}

}  // namespace lockstep::convert
