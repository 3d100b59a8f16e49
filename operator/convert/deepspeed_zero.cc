// zero_optimization of a DeepSpeed configuration: strategy, offload, buckets.
#include <algorithm>

#include "operator/convert/deepspeed.h"

namespace lockstep::convert {
namespace {

using nlohmann::json;

constexpr int64_t kBytesPerGradient = 4;  // gradients travel in fp32
constexpr int64_t kMinBucketBytes = 64 << 10;
constexpr int64_t kMaxBucketBytes = int64_t{4} << 30;

std::optional<int64_t> stage_of(const Draft& draft) {
  const json* stage = draft.key("zero_optimization.stage");
  return stage == nullptr ? std::optional<int64_t>(0) : whole(*stage);
}

std::optional<Verdict> take_section(const json& value, Draft& draft) {
  if (!value.is_boolean()) return std::nullopt;
  // An early form: true is stage 1.
  return draft.map("train.parallelism.strategy", value.get<bool>() ? "zero1" : "ddp");
}

std::optional<Verdict> take_stage(const json& value, Draft& draft) {
  const std::optional<int64_t> stage = whole(value);
  if (!stage || *stage < 0 || *stage > 3)
    return broken("must be 0, 1, 2 or 3, found " + value.dump());
  if (*stage == 0) return draft.map("train.parallelism.strategy", "ddp");
  return draft.map("train.parallelism.strategy",
                   std::string("zero").append(std::to_string(*stage)));
}

std::optional<Verdict> take_mics(const json& value, Draft& draft) {
  const std::optional<int64_t> size = whole(value);
  if (!size) return broken("must be a number of ranks, found " + value.dump());
  if (*size <= 0) return mapped("off, as here");
  if (stage_of(draft) != 3) return broken("MiCS needs stage 3");
  if (*size == 1) return refused("groups of one rank are no sharding: choose strategy ddp");
  return draft.map("train.parallelism.shardRanks", *size);
}

std::optional<Verdict> take_bucket(const json& value, Draft& draft) {
  const std::string field = "train.parallelism.bucketBytes";
  if (is_auto(value)) return mapped("bucketBytes keeps its default, 25Mi");
  const std::optional<int64_t> elems = whole(value);
  if (!elems || *elems < 0) return broken("must be a number of elements, found " + value.dump());
  const int64_t capped = std::min(*elems, kMaxBucketBytes);  // the product stays in range
  const int64_t bytes = std::clamp(capped * kBytesPerGradient, kMinBucketBytes, kMaxBucketBytes);
  if (bytes != capped * kBytesPerGradient || capped != *elems) {
    return draft.change(field, bytes, "the nearest size that there is here");
  }
  return draft.map(field, bytes, "in bytes of fp32");
}

std::optional<Verdict> take_gather_on_save(const json& value, Draft& draft) {
  if (is_auto(value)) return mapped("the model is always exported whole");
  if (!value.is_boolean()) return broken("must be true or false, found " + value.dump());
  if (!value.get<bool>()) {
    return changed("the model is always exported whole; export.atEnd: false leaves it out");
  }
  const auto enabled = [&draft](const char* section) {
    const json* found = draft.key(std::string(section).append(".enabled"));
    return found != nullptr && *found == true;
  };
  const bool bf16 = enabled("bf16") || enabled("bfloat16");
  if (!bf16 && !enabled("fp16")) return mapped("the model is always exported whole");
  return draft.map("train.export.dtype", bf16 ? "bf16" : "fp16", "the model is exported whole");
}

// A device of offload_optimizer or offload_param.
Take offload_to(const char* field, bool needs_stage_3) {
  return [field, needs_stage_3](const json& value, Draft& draft) -> std::optional<Verdict> {
    if (value != "none" && value != "cpu" && value != "nvme") {
      return broken("must be none, cpu or nvme, found " + value.dump());
    }
    const std::optional<int64_t> stage = stage_of(draft);
    if (value != "none" && needs_stage_3 && stage != 3) return broken("needs stage 3");
    if (value != "none" && stage == 0) return broken("needs stage 1, 2 or 3");
    return draft.map(field, value);
  };
}

Take nvme_path(const char* section) {
  return [section](const json& value, Draft& draft) -> std::optional<Verdict> {
    const std::string device = std::string("zero_optimization.").append(section).append(".device");
    if (draft.text(device) != "nvme") return mapped("of no effect: the device is not nvme");
    if (!misfit("train.offload.parameters", "nvme").text.empty() &&
        std::string(section) == "offload_param") {
      return refused("parameters cannot be on nvme in this version");
    }
    return draft.map("train.offload.nvmePath", value);
  };
}

std::optional<Verdict> take_pin(const json& value, Draft& draft) {
  const json* other = draft.find("train.offload.pinMemory");
  if (other != nullptr && value.is_boolean() && *other != value) {
    return changed("one setting for both here: pinMemory is " + other->dump());
  }
  return draft.map("train.offload.pinMemory", value);
}

// The old one-word forms of offload.
Take offload_flag(const char* field) {
  return [field](const json& value, Draft& draft) -> std::optional<Verdict> {
    if (!value.is_boolean()) return broken("must be true or false, found " + value.dump());
    return value.get<bool>() ? draft.map(field, "cpu") : mapped("off, as here");
  };
}

void add_offload(Table& table) {
  const std::string root = "zero_optimization.";
  table.insert(table.end(),
               {{root + "offload_optimizer.device", offload_to("train.offload.optimizer", false)},
                {root + "offload_param.device", offload_to("train.offload.parameters", true)},
                {root + "offload_optimizer.nvme_path", nvme_path("offload_optimizer")},
                {root + "offload_param.nvme_path", nvme_path("offload_param")},
                {root + "offload_optimizer.pin_memory", take_pin},
                {root + "offload_param.pin_memory", take_pin},
                {root + "offload_optimizer.ratio",
                 always(1.0, "all of the optimizer's state is moved, or none")},
                {root + "cpu_offload", offload_flag("train.offload.optimizer")},
                {root + "cpu_offload_param", offload_flag("train.offload.parameters")},
                {root + "cpu_offload_params", offload_flag("train.offload.parameters")},
                {root + "cpu_offload_use_pin_memory", take_pin}});
  constexpr const char* kOwnPieces = "pieces and their overlap are the runtime's choice";
  for (const char* const key : {"buffer_count", "pipeline", "pipeline_read", "pipeline_write",
                                "fast_init", "super_offload", "cpuadam_cores_perc"}) {
    table.push_back({root + "offload_optimizer." + key, without_effect(kOwnPieces)});
  }
  for (const char* const key : {"buffer_count", "buffer_size", "max_in_cpu"}) {
    table.push_back({root + "offload_param." + key, without_effect(kOwnPieces)});
  }
}

// What the runtime decides by itself.
void add_without_effect(Table& table) {
  const std::string root = "zero_optimization.";
  constexpr const char* kUnits = "a unit is a layer: parallelism.prefetchUnits counts them";
  constexpr const char* kAllSharded = "every weight is sharded, small ones too";
  constexpr const char* kSchedule = "the runtime's own: it changes no number";
  for (const char* const key :
       {"stage3_prefetch_bucket_size", "prefetch_bucket_size", "stage3_max_live_parameters",
        "max_live_parameters", "stage3_max_reuse_distance", "max_reuse_distance",
        "stage3_module_granularity_threshold", "leaf_module"}) {
    table.push_back({root + key, without_effect(kUnits)});
  }
  for (const char* const key :
       {"stage3_param_persistence_threshold", "param_persistence_threshold",
        "stage3_model_persistence_threshold", "model_persistence_threshold"}) {
    table.push_back({root + key, without_effect(kAllSharded)});
  }
  for (const char* const key :
       {"sub_group_size", "round_robin_gradients", "ignore_unused_parameters", "legacy_stage1",
        "use_multi_rank_bucket_allreduce", "stage3_use_all_reduce_for_fetch_params",
        "stage3_allgather_sequential", "stage3_partition_stream_chunk_size",
        "memory_efficient_linear", "pipeline_loading_checkpoint", "override_module_apply",
        "log_trace_cache_warnings", "enable_sanity_checks",
        "save_muon_momentum_buffer_in_memory"}) {
    table.push_back({root + key, without_effect(kSchedule)});
  }
}

}  // namespace

Table deepspeed_zero_rows() {
  const std::string root = "zero_optimization.";
  constexpr const char* kLossy = "rounds what ranks exchange; only reduceDtype: bf16 does so here";
  Table table = {
      {"zero_optimization", take_section},
      {root + "stage", take_stage},
      {root + "mics_shard_size", take_mics},
      {root + "mics_hierarchical_params_gather",
       always(false, "weights are gathered in one exchange")},
      {root + "reduce_bucket_size", take_bucket},
      {root + "allgather_bucket_size",
       without_effect("weights are gathered by layer, not by element")},
      {root + "allgather_partitions", always(true, "updated weights are always all-gathered")},
      {root + "reduce_scatter", always(true, "gradients are always reduce-scattered")},
      {root + "overlap_comm", always(true, "exchanges always run behind computation")},
      {root + "contiguous_gradients", always(true, "gradients always live in flat buffers")},
      {root + "stage3_gather_16bit_weights_on_model_save", take_gather_on_save},
      {root + "gather_16bit_weights_on_model_save", take_gather_on_save},
      {root + "stage3_gather_fp16_weights_on_model_save", take_gather_on_save},
      {root + "elastic_checkpoint",
       without_effect("every checkpoint is read by any number of ranks")},
      {root + "load_from_fp32_weights", always(true, "masters are always kept and read in fp32")},
      {root + "zero_hpz_partition_size",
       always(1, "no second copy of the shards; parallelism.shardRanks shards in groups")},
      {root + "zero_quantized_weights", refuse_unless_off(kLossy)},
      {root + "zero_quantized_nontrainable_weights", refuse_unless_off(kLossy)},
      {root + "zero_quantized_gradients", refuse_unless_off(kLossy)},
      {root + "zeropp_loco_param", refuse_unless_off(kLossy)},
      {root + "zenflow", refuse_unless_off("ZenFlow delays updates: other numbers")},
  };
  add_without_effect(table);
  add_offload(table);
  return table;
}

}  // namespace lockstep::convert
