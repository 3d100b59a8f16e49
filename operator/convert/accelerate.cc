#include "operator/convert/accelerate.h"

#include <utility>

#include "operator/convert/deepspeed.h"
#include "operator/convert/machines.h"

namespace lockstep::convert {
namespace {

using nlohmann::json;

constexpr const char* kStrategy = "train.parallelism.strategy";

bool is_kind(const Draft& draft, const std::string& kind) {
  return draft.text("distributed_type") == kind;
}

std::optional<Verdict> take_distributed_type(const json& value, Draft& draft) {
  if (!value.is_string()) return broken("must be a kind of training, found " + value.dump());
  const auto kind = value.get<std::string>();
  if (kind.starts_with("MULTI_")) return draft.map(kStrategy, "ddp");
  if (kind == "NO") {
    const json* processes = draft.number("num_processes");
    if (processes != nullptr && *processes != 1) {
      return broken("is NO, and num_processes is " + processes->dump());
    }
    return draft.map("ranks", 1);
  }
  if (kind == "FSDP") return mapped("fsdp_config says how");
  if (kind == "DEEPSPEED") return mapped("deepspeed_config says how");
  if (kind == "MEGATRON_LM") return refused("there is no Megatron-LM here");
  if (kind == "TP") return refused("tensor parallelism is not supported by this version");
  return refused(kind + " is not supported by this version");
}

std::optional<Verdict> take_precision(const json& value, Draft& draft) {
  return draft.map("train.precision", value == "no" || value == false ? json("fp32") : value);
}

std::optional<Verdict> take_sharding(const json& value, Draft& draft) {
  static const std::vector<std::pair<std::vector<json>, const char*>> strategies = {
      {{1, "FULL_SHARD"}, "zero3"}, {{2, "SHARD_GRAD_OP"}, "zero2"}, {{3, "NO_SHARD"}, "ddp"}};
  for (const auto& [names, strategy] : strategies) {
    for (const json& name : names) {
      if (value == name) return draft.map(kStrategy, strategy);
    }
  }
  const bool hybrid = value == 4 || value == "HYBRID_SHARD";
  if (!hybrid && value != 5 && value != "HYBRID_SHARD_ZERO2") {
    return broken(
        "must be FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD or "
        "HYBRID_SHARD_ZERO2, found " +
        value.dump());
  }
  if (!hybrid) return refused("zero2 inside groups is not supported; zero3 is, with shardRanks");
  const std::optional<int64_t> per_machine = processes_per_machine(draft);
  if (!per_machine || *per_machine < 2) {
    return draft.map(kStrategy, "zero3", "one machine or unknown: one group of all ranks");
  }
  Verdict group =
      draft.assume("train.parallelism.shardRanks", *per_machine, "the ranks of a machine");
  if (group.fate == Fate::kRefused) return group;
  return draft.map(kStrategy, "zero3", "sharded inside a machine");
}

// FSDP2's word for the same.
std::optional<Verdict> take_reshard(const json& value, Draft& draft) {
  if (value.is_string()) return take_sharding(value, draft);
  if (!value.is_boolean()) return broken("must be true or false, found " + value.dump());
  return draft.map(kStrategy, value.get<bool>() ? "zero3" : "zero2");
}

std::optional<Verdict> take_fsdp_offload(const json& value, Draft& draft) {
  if (!value.is_boolean()) return broken("must be true or false, found " + value.dump());
  if (!value.get<bool>()) return mapped("off, as here");
  draft.assume("train.offload.optimizer", "cpu", "FSDP moves both");
  return draft.map("train.offload.parameters", "cpu");
}

std::optional<Verdict> take_fsdp_checkpointing(const json& value, Draft& draft) {
  if (!value.is_boolean()) return broken("must be true or false, found " + value.dump());
  return draft.map("train.activationCheckpointing", value.get<bool>() ? "block" : "none");
}

Take fsdp_only(Take take) {
  return [take = std::move(take)](const json& value, Draft& draft) -> std::optional<Verdict> {
    if (!is_kind(draft, "FSDP")) return mapped("of no effect: distributed_type is not FSDP");
    return take(value, draft);
  };
}

Table fsdp_rows() {
  constexpr const char* kUnits = "a unit is a layer, whatever its class is called";
  constexpr const char* kAhead = "weights are gathered ahead: parallelism.prefetchUnits";
  constexpr const char* kLoading = "every rank reads its own slice only";
  constexpr const char* kSaved = "checkpoints are sharded, the exported model is whole";
  const std::vector<Row> rows = {
      {"fsdp_sharding_strategy", take_sharding},
      {"fsdp_reshard_after_forward", take_reshard},
      {"fsdp_offload_params", take_fsdp_offload},
      {"fsdp_activation_checkpointing", take_fsdp_checkpointing},
      {"fsdp_auto_wrap_policy", without_effect(kUnits)},
      {"fsdp_transformer_layer_cls_to_wrap", without_effect(kUnits)},
      {"fsdp_min_num_params", without_effect(kUnits)},
      {"fsdp_backward_prefetch", without_effect(kAhead)},
      {"fsdp_backward_prefetch_policy", without_effect(kAhead)},
      {"fsdp_forward_prefetch", without_effect(kAhead)},
      {"fsdp_limit_all_gathers", without_effect(kAhead)},
      {"fsdp_state_dict_type", without_effect(kSaved)},
      {"fsdp_sync_module_states", without_effect(kLoading)},
      {"fsdp_cpu_ram_efficient_loading", without_effect(kLoading)},
      {"fsdp_use_orig_params", without_effect("units are flat, and weights keep their names")},
      {"fsdp_version", without_effect("one implementation serves for both")},
  };
  Table table = {{"fsdp_config", fsdp_only([](const json&, Draft&) -> std::optional<Verdict> {
                    return std::nullopt;
                  })}};
  for (const Row& row : rows) table.push_back({"fsdp_config." + row.key, row.take});
  return table;
}

std::optional<Verdict> take_deepspeed_section(const json&, Draft& draft) {
  if (is_kind(draft, "DEEPSPEED")) return std::nullopt;
  return mapped("of no effect: distributed_type is not DEEPSPEED");
}

std::optional<Verdict> take_zero_stage(const json& value, Draft& draft) {
  const std::optional<int64_t> stage = whole(value);
  if (!stage || *stage < 0 || *stage > 3) {
    return broken("must be 0, 1, 2 or 3, found " + value.dump());
  }
  const json strategies = {"ddp", "zero1", "zero2", "zero3"};
  return draft.map(kStrategy, strategies.at(static_cast<size_t>(*stage)));
}

std::optional<Verdict> take_clip(const json& value, Draft& draft) {
  return draft.map("train.optimizer.gradientClip", is_auto(value) ? json(1.0) : value);
}

std::optional<Verdict> take_accumulation_steps(const json& value, Draft& draft) {
  if (is_auto(value)) return mapped("the training script's");
  return draft.map("train.batch.accumulationSteps", value);
}

// An offload device of deepspeed_config; parameters need stage 3.
Take device(const char* field, bool needs_stage_3) {
  return [field, needs_stage_3](const json& value, Draft& draft) -> std::optional<Verdict> {
    const json* stage = draft.number("deepspeed_config.zero_stage");
    if (value != "none" && value != "cpu" && value != "nvme") {
      return broken("must be none, cpu or nvme, found " + value.dump());
    }
    if (value != "none" && needs_stage_3 && stage != nullptr && *stage != 3) {
      return broken("needs zero_stage 3");
    }
    return draft.map(field, value);
  };
}

std::optional<Verdict> take_nvme(const json& value, Draft& draft) {
  if (is_off(value)) return mapped("not set");
  return draft.map("train.offload.nvmePath", value);
}

std::optional<Verdict> take_save_16bit(const json& value, Draft& draft) {
  if (!value.is_boolean()) return broken("must be true or false, found " + value.dump());
  const std::string precision = draft.text("mixed_precision");
  if (!value.get<bool>() || (precision != "bf16" && precision != "fp16")) {
    return mapped("the model is always exported whole");
  }
  return draft.map("train.export.dtype", precision, "the model is exported whole");
}

Table deepspeed_rows() {
  const std::string root = "deepspeed_config.";
  constexpr const char* kNoSsh = "pods are started by the operator: no ssh, no list of hosts";
  return {
      {"deepspeed_config", take_deepspeed_section},
      {root + "zero_stage", take_zero_stage},
      {root + "gradient_accumulation_steps", take_accumulation_steps},
      {root + "gradient_clipping", take_clip},
      {root + "offload_optimizer_device", device("train.offload.optimizer", false)},
      {root + "offload_param_device", device("train.offload.parameters", true)},
      {root + "offload_optimizer_nvme_path", take_nvme},
      {root + "offload_param_nvme_path", take_nvme},
      {root + "zero3_init_flag", always(true, "no rank ever makes more than its own slice")},
      {root + "zero3_save_16bit_model", take_save_16bit},
      {root + "deepspeed_config_file",
       [](const json& value, Draft&) {
         return std::optional(refused("is a file of its own: import " + value.dump() + " too"));
       }},
      {root + "deepspeed_multinode_launcher", without_effect(kNoSsh)},
      {root + "deepspeed_hostfile", without_effect(kNoSsh)},
      {root + "deepspeed_inclusion_filter", without_effect(kNoSsh)},
      {root + "deepspeed_exclusion_filter", without_effect(kNoSsh)},
      {root + "deepspeed_moe_layer_cls_names",
       without_effect("a layer is gathered with all of its experts anyway")},
  };
}

std::optional<Verdict> take_environment(const json& value, Draft&) {
  if (value == "LOCAL_MACHINE") return mapped("lockstep run is here, kubectl apply a cluster");
  if (value == "AMAZON_SAGEMAKER") return refused("jobs run on Kubernetes or here, not SageMaker");
  return broken("must be LOCAL_MACHINE or AMAZON_SAGEMAKER, found " + value.dump());
}

std::optional<Verdict> take_parallelism(const json& value, Draft& draft) {
  if (!value.is_object()) return broken("must be a map, found " + value.dump());
  for (const auto& [key, size] : value.items()) {
    const bool ours = key.ends_with("dp_replicate_size") || key.ends_with("dp_shard_size");
    if (!ours && size.is_number() && size != 1 && size != 0) {
      return refused(key +
                     ": tensor, context and sequence parallelism are not supported by this "
                     "version");
    }
  }
  const json* shard = find_path(value, "parallelism_config_dp_shard_size");
  if (shard == nullptr || *shard == 1) {
    const json* copies = find_path(value, "parallelism_config_dp_replicate_size");
    if (copies == nullptr || *copies == 1) return mapped("data parallelism only, as here");
    if (!copies->is_number()) return broken("dp_replicate_size cannot be " + copies->dump());
    return draft.map(kStrategy, "ddp", "every rank has a copy of the model: dp_shard_size is 1");
  }
  return draft.map("train.parallelism.shardRanks", *shard);
}

Table machine_rows() {
  constexpr const char* kFound = "ranks find rank 0 themselves";
  constexpr const char* kNoTpu = "TPUs are not supported by this version";
  Table table = {
      {"distributed_type", take_distributed_type},
      {"mixed_precision", take_precision},
      {"num_processes", take_processes},
      {"num_machines", take_machines},
      {"machine_rank", without_effect("one manifest is for all machines: a pod has its rank")},
      {"main_process_ip", without_effect(kFound)},
      {"main_process_port", without_effect(kFound)},
      {"rdzv_backend", without_effect(kFound)},
      {"same_network", without_effect(kFound)},
      {"gpu_ids", without_effect("resources.limits ask for GPUs, not for their numbers")},
      {"compute_environment", take_environment},
      {"main_training_function", without_effect("there is no script")},
      {"debug", without_effect("a rank that waits in a collective is named anyway")},
      {"enable_cpu_affinity", without_effect("threads per rank are fixed")},
      {"use_cpu", without_effect("ranks compute on GPUs where resources.limits ask for them")},
      {"parallelism_config", take_parallelism},
      {"megatron_lm_config",
       refuse_unless_off("Megatron-LM: tensor and pipeline parallelism are not supported by this "
                         "version")},
      {"fp8_config", refuse_unless_off("fp8 is not supported by this version")},
      {"dynamo_config", change_unless_off("kernels are compiled ahead; there is nothing to trace")},
      {"ipex_config", change_unless_off("kernels choose the processor's instructions themselves")},
      {"mpirun_config", change_unless_off("ranks are started without MPI")},
      {"command_file", refuse_unless_off("there is no script to run it before")},
      {"commands", refuse_unless_off("there is no script to run them before")},
      {"downcast_bf16", change_unless_off(kNoTpu)},
  };
  for (const char* const key :
       {"tpu_env", "tpu_use_cluster", "tpu_use_sudo", "tpu_name", "tpu_zone", "tpu_vm"}) {
    table.push_back({key, refuse_unless_off(kNoTpu)});
  }
  return table;
}

}  // namespace

const Table& accelerate_table() {
  static const Table table = joined({machine_rows(), fsdp_rows(), deepspeed_rows()});
  return table;
}

Conversion convert_accelerate(const common::Document& document) {
  Draft draft;
  Conversion conversion{.tool = "Accelerate"};
  take_all(accelerate_table(), document, draft, conversion.notes, conversion.problems);
  if (is_kind(draft, "DEEPSPEED")) draft.assume(kStrategy, "zero2", "Accelerate's default");
  if (is_kind(draft, "FSDP")) draft.assume(kStrategy, "zero3", "Accelerate's default");
  draft.fill_in("train.optimizer.lr", 3e-4, "the training script's optimizer");
  draft.fill_in("train.schedule.name", "linear", "the training script's schedule");
  if (draft.find("train.batch.accumulationSteps") != nullptr) {
    draft.fill_in("train.batch.microBatchSize", 1, "the script's batch size per process");
  }
  move_into(conversion, std::move(draft));
  return conversion;
}

}  // namespace lockstep::convert
