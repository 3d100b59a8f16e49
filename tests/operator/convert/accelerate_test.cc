#include "operator/convert/accelerate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/operator/convert/import_checks.h"

namespace lockstep::convert {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// What accelerate config writes first, whatever is asked of it.
std::string config(const std::string& rest) {
  return "compute_environment: LOCAL_MACHINE\ndebug: false\n" + rest;
}

// In the shape of Accelerate's multi-GPU example of its quick tour: two machines, eight processes.
TEST(AccelerateTest, TakesDdpOnTwoMachines) {
  const Imported imported = import_valid(config(
      "distributed_type: MULTI_GPU\ndowncast_bf16: 'no'\nenable_cpu_affinity: false\n"
      "machine_rank: 1\nmain_process_ip: 10.0.0.1\nmain_process_port: 29500\n"
      "main_training_function: main\nmixed_precision: bf16\nnum_machines: 2\nnum_processes: 8\n"
      "rdzv_backend: static\nsame_network: true\ntpu_env: []\ntpu_use_cluster: false\n"
      "tpu_use_sudo: false\nuse_cpu: false\ngpu_ids: all\n"));
  EXPECT_EQ(field(imported, "ranks"), 8);
  EXPECT_EQ(field(imported, "ranksPerPod"), 4);
  EXPECT_EQ(field(imported, "train.parallelism.strategy"), "ddp");
  EXPECT_EQ(field(imported, "train.precision"), "bf16");
  EXPECT_EQ(fate(imported, "main_process_ip"), "changed");
  EXPECT_EQ(fate(imported, "machine_rank"), "changed");
  EXPECT_EQ(fate(imported, "tpu_use_cluster"), "mapped");
  EXPECT_EQ(refusals(imported), "");
}

// In the shape of the FSDP page's example.
TEST(AccelerateTest, TakesFullyShardedDataParallel) {
  const std::string fsdp =
      "distributed_type: FSDP\nmixed_precision: 'no'\nnum_machines: 1\nnum_processes: 4\n"
      "fsdp_config:\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
      "  fsdp_backward_prefetch_policy: BACKWARD_PRE\n  fsdp_state_dict_type: SHARDED_STATE_DICT\n"
      "  fsdp_transformer_layer_cls_to_wrap: BertLayer\n  fsdp_use_orig_params: true\n"
      "  fsdp_cpu_ram_efficient_loading: true\n  fsdp_sync_module_states: true\n";
  const Imported full =
      import_valid(config(fsdp + "  fsdp_sharding_strategy: 1\n  fsdp_offload_params: true\n"
                                 "  fsdp_activation_checkpointing: true\n"));
  EXPECT_EQ(field(full, "train.parallelism.strategy"), "zero3");
  EXPECT_EQ(field(full, "train.offload"), json({{"parameters", "cpu"}, {"optimizer", "cpu"}}));
  EXPECT_EQ(field(full, "train.activationCheckpointing"), "block");
  EXPECT_EQ(field(full, "train.precision"), "fp32");
  EXPECT_EQ(fate(full, "fsdp_config.fsdp_transformer_layer_cls_to_wrap"), "changed");
  const auto strategy = [&](const std::string& line) {
    return field(import_valid(config(fsdp + line)), "train.parallelism.strategy");
  };
  EXPECT_EQ(strategy("  fsdp_sharding_strategy: SHARD_GRAD_OP\n"), "zero2");
  EXPECT_EQ(strategy("  fsdp_sharding_strategy: NO_SHARD\n"), "ddp");
  EXPECT_EQ(strategy("  fsdp_version: 2\n  fsdp_reshard_after_forward: false\n"), "zero2");
  EXPECT_EQ(strategy("  fsdp_version: 2\n  fsdp_reshard_after_forward: true\n"), "zero3");
  EXPECT_EQ(strategy(""), "zero3");
}

TEST(AccelerateTest, HybridShardingIsInsideAMachine) {
  const Imported imported = import_valid(
      config("distributed_type: FSDP\nmixed_precision: bf16\nnum_machines: 2\nnum_processes: 16\n"
             "fsdp_config: {fsdp_sharding_strategy: HYBRID_SHARD}\n"));
  EXPECT_EQ(field(imported, "train.parallelism"), json({{"strategy", "zero3"}, {"shardRanks", 8}}));
  EXPECT_EQ(field(imported, "ranksPerPod"), 8);
}

// In the shape of the DeepSpeed page's example without a file of DeepSpeed's own.
TEST(AccelerateTest, TakesTheDeepSpeedPlugin) {
  const Imported imported = import_valid(config(
      "deepspeed_config:\n  gradient_accumulation_steps: 4\n  gradient_clipping: 1.0\n"
      "  offload_optimizer_device: nvme\n  offload_optimizer_nvme_path: /scratch\n"
      "  offload_param_device: cpu\n  zero3_init_flag: true\n  zero3_save_16bit_model: true\n"
      "  zero_stage: 3\n  deepspeed_multinode_launcher: standard\n"
      "distributed_type: DEEPSPEED\nfsdp_config: {}\nmixed_precision: fp16\nnum_machines: 1\n"
      "num_processes: 2\n"));
  EXPECT_EQ(field(imported, "train.parallelism.strategy"), "zero3");
  EXPECT_EQ(field(imported, "train.offload"),
            json({{"optimizer", "nvme"}, {"nvmePath", "/scratch"}, {"parameters", "cpu"}}));
  EXPECT_EQ(field(imported, "train.export.dtype"), "fp16");
  EXPECT_EQ(field(imported, "train.batch.accumulationSteps"), 4);
  EXPECT_EQ(fate(imported, "deepspeed_config.deepspeed_multinode_launcher"), "changed");
  EXPECT_EQ(refusals(imported), "");
}

TEST(AccelerateTest, CopiesWithoutShardingAreDdp) {
  const auto of = [](const std::string& sizes) {
    return import_valid(
        config("distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 8\n"
               "parallelism_config: {" +
               sizes + "}\n"));
  };
  const Imported copies =
      of("parallelism_config_dp_replicate_size: 8, parallelism_config_dp_shard_size: 1");
  EXPECT_EQ(field(copies, "train.parallelism"), json({{"strategy", "ddp"}}));
  EXPECT_EQ(fate(copies, "parallelism_config"), "mapped train.parallelism.strategy");
  const Imported groups =
      of("parallelism_config_dp_replicate_size: 2, parallelism_config_dp_shard_size: 4");
  EXPECT_EQ(field(groups, "train.parallelism"), json({{"strategy", "zero3"}, {"shardRanks", 4}}));
}

TEST(AccelerateTest, RefusesOtherParallelismByName) {
  const Imported megatron = import_valid(
      config("distributed_type: MEGATRON_LM\nmixed_precision: bf16\nnum_processes: 8\n"
             "megatron_lm_config: {megatron_lm_tp_degree: 4, megatron_lm_pp_degree: 2}\n"));
  EXPECT_EQ(refusals(megatron), "distributed_type megatron_lm_config");
  EXPECT_THAT(megatron.manifest, HasSubstr("tensor and pipeline parallelism are not supported"));
  const Imported tensor = import_valid(config(
      "distributed_type: FSDP\nmixed_precision: fp8\nnum_processes: 8\nnum_procs: 8\n"
      "parallelism_config: {parallelism_config_tp_size: 2, parallelism_config_dp_shard_size: 4}\n"
      "deepspeed_config: {deepspeed_config_file: ds.json}\n"));
  EXPECT_EQ(refusals(tensor), "mixed_precision num_procs parallelism_config");
  EXPECT_EQ(fate(tensor, "deepspeed_config"), "mapped");  // of no effect under FSDP
  const Imported file =
      import_valid(config("distributed_type: DEEPSPEED\nmixed_precision: bf16\nnum_processes: 8\n"
                          "deepspeed_config: {deepspeed_config_file: ds.json}\n"));
  EXPECT_EQ(refusals(file), "deepspeed_config.deepspeed_config_file");
}

TEST(AccelerateTest, SaysWhereABrokenFileIsBroken) {
  EXPECT_THAT(
      import_broken(config("distributed_type: MULTI_GPU\nnum_machines: 3\nnum_processes: 8\n")),
      HasSubstr("4 num_machines: does not divide num_processes"));
  EXPECT_THAT(import_broken(config("distributed_type: 'NO'\nnum_processes: 4\n")),
              HasSubstr("3 distributed_type: is NO, and num_processes is 4"));
  EXPECT_THAT(import_broken(config("distributed_type: MULTI_GPU\nnum_processes: all\n")),
              HasSubstr("num_processes: must be a number of processes"));
  EXPECT_THAT(
      import_broken(config("distributed_type: FSDP\nfsdp_config: {fsdp_sharding_strategy: 9}\n")),
      HasSubstr("must be FULL_SHARD, SHARD_GRAD_OP"));
  EXPECT_THAT(
      import_broken(config("distributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 4}\n")),
      HasSubstr("must be 0, 1, 2 or 3, found 4"));
  EXPECT_THAT(
      import_broken(config("distributed_type: DEEPSPEED\n"
                           "deepspeed_config: {zero_stage: 2, offload_param_device: cpu}\n")),
      HasSubstr("needs zero_stage 3"));
  EXPECT_THAT(import_broken("compute_environment: MARS\n"), HasSubstr("AMAZON_SAGEMAKER"));
  EXPECT_THAT(import_broken(config("distributed_type: FSDP\nfsdp_config: 3\n")),
              HasSubstr("fsdp_config: must be a map"));
}

TEST(AccelerateTest, GivesEveryKeyOneAnswerWhateverItsValue) {
  expect_one_answer_per_key(accelerate_table());
}

}  // namespace
}  // namespace lockstep::convert
