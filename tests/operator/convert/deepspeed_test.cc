#include "operator/convert/deepspeed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/operator/convert/import_checks.h"

namespace lockstep::convert {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr const char* kLacking = "train.data.sequenceLength train.data.train train.model.config";

// In the shape of the first example of deepspeed.ai/docs/config-json.
TEST(DeepSpeedTest, TakesFp16WithWarmup) {
  const Imported imported = import_valid(R"({
    "train_batch_size": 8,
    "gradient_accumulation_steps": 1,
    "optimizer": {"type": "Adam", "params": {"lr": 0.00015}},
    "fp16": {"enabled": true, "loss_scale": 128, "min_loss_scale": 2, "hysteresis": 3},
    "zero_optimization": true,
    "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 10, "warmup_max_lr": 0.001}},
    "steps_per_print": 100
  })");
  EXPECT_EQ(field(imported, "train.precision"), "fp16");
  EXPECT_EQ(field(imported, "train.lossScale"),
            json({{"static", 128}, {"min", 2}, {"hysteresis", 3}}));
  EXPECT_EQ(field(imported, "train.parallelism.strategy"), "zero1");
  EXPECT_EQ(field(imported, "train.optimizer.name"),
            "adamw");                                       // adam_w_mode is DeepSpeed's default
  EXPECT_EQ(field(imported, "train.optimizer.lr"), 0.001);  // the scheduler's
  EXPECT_EQ(fate(imported, "optimizer.params.lr"), "changed");
  EXPECT_EQ(field(imported, "train.optimizer.gradientClip"), 0.0);
  EXPECT_EQ(field(imported, "train.optimizer.weightDecay"), 0.0);
  EXPECT_EQ(field(imported, "train.optimizer.betas"), json({0.9, 0.999}));
  EXPECT_EQ(field(imported, "train.schedule"),
            json({{"name", "constant"}, {"warmupSteps", 10}, {"warmupType", "log"}}));
  EXPECT_EQ(field(imported, "train.logging.everySteps"), 100);
  EXPECT_EQ(to_change(imported), "ranks " + std::string(kLacking) + " train.steps");
}

// In the shape of the ZeRO-2 example of Transformers' DeepSpeed page: all of it "auto".
TEST(DeepSpeedTest, MarksEveryAutoThatOnlyTheScriptKnows) {
  const Imported imported = import_valid(R"({
    "fp16": {"enabled": "auto", "loss_scale": 0, "loss_scale_window": 1000, "initial_scale_power": 16,
             "hysteresis": 2, "min_loss_scale": 1},
    "bf16": {"enabled": "auto"},
    "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}},
    "scheduler": {"type": "WarmupLR",
                  "params": {"warmup_min_lr": "auto", "warmup_max_lr": "auto", "warmup_num_steps": "auto"}},
    "zero_optimization": {"stage": 2, "allgather_partitions": true, "allgather_bucket_size": 2e8,
                          "overlap_comm": true, "reduce_scatter": true, "reduce_bucket_size": 2e8,
                          "contiguous_gradients": true},
    "gradient_accumulation_steps": "auto", "gradient_clipping": "auto",
    "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto"
  })");
  EXPECT_EQ(
      to_change(imported),
      "ranks train.batch.accumulationSteps train.batch.microBatchSize " + std::string(kLacking) +
          " train.optimizer.betas train.optimizer.eps train.optimizer.lr "
          "train.optimizer.weightDecay train.precision train.schedule.warmupSteps train.steps");
  EXPECT_EQ(field(imported, "train.optimizer.gradientClip"), 1.0);
  EXPECT_EQ(field(imported, "train.parallelism.bucketBytes"), 800000000);
  EXPECT_EQ(fate(imported, "fp16.loss_scale_window"), "changed");
  EXPECT_EQ(fate(imported, "zero_optimization.overlap_comm"), "mapped");
  EXPECT_EQ(fate(imported, "zero_optimization.allgather_bucket_size"), "changed");
}

// Accelerate fills it in, as its examples leave it.
TEST(DeepSpeedTest, AModelIsExportedWholeWhateverFillsThatIn) {
  const Imported imported = import_valid(R"({
    "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1,
    "zero_optimization": {"stage": 3, "stage3_gather_16bit_weights_on_model_save": "auto"}
  })");
  EXPECT_EQ(fate(imported, "zero_optimization.stage3_gather_16bit_weights_on_model_save"),
            "mapped");
  EXPECT_EQ(refusals(imported), "");
}

// In the shape of its ZeRO-3 example with offload to the CPU.
TEST(DeepSpeedTest, TakesZero3WithOffload) {
  const Imported imported = import_valid(R"({
    "bf16": {"enabled": true},
    "fp16": {"enabled": "auto"},
    "zero_optimization": {
      "stage": 3,
      "offload_optimizer": {"device": "cpu", "pin_memory": true},
      "offload_param": {"device": "cpu", "pin_memory": true},
      "overlap_comm": true, "contiguous_gradients": true, "sub_group_size": 1e9,
      "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto",
      "stage3_param_persistence_threshold": "auto", "stage3_max_live_parameters": 1e9,
      "stage3_max_reuse_distance": 1e9, "stage3_gather_16bit_weights_on_model_save": true
    },
    "activation_checkpointing": {"partition_activations": true, "cpu_checkpointing": true, "number_checkpoints": 4},
    "train_batch_size": 64, "train_micro_batch_size_per_gpu": 2, "wall_clock_breakdown": false
  })");
  EXPECT_EQ(field(imported, "train.precision"), "bf16");
  EXPECT_EQ(field(imported, "train.parallelism.strategy"), "zero3");
  EXPECT_EQ(field(imported, "train.offload"), json({{"optimizer", "cpu"},
                                                    {"parameters", "cpu"},
                                                    {"activations", "cpu"},
                                                    {"pinMemory", true}}));
  EXPECT_EQ(field(imported, "train.activationCheckpointing"), "block");
  EXPECT_EQ(field(imported, "train.export.dtype"), "bf16");
  EXPECT_EQ(field(imported, "train.batch"), json({{"globalBatchSize", 64}, {"microBatchSize", 2}}));
  EXPECT_EQ(refusals(imported), "");
}

TEST(DeepSpeedTest, RefusesABatchForMoreRanksThanThereMayBe) {
  const Imported imported = import_valid(
      R"({"train_batch_size": 8192, "train_micro_batch_size_per_gpu": 1,
          "gradient_accumulation_steps": 1})");
  EXPECT_EQ(refusals(imported), "train_batch_size");
  EXPECT_THAT(imported.manifest, HasSubstr("spec.ranks must be at most 4096"));
  EXPECT_EQ(field(imported, "train.batch"),
            json({{"globalBatchSize", 8192}, {"microBatchSize", 1}}));
}

// With all three sizes of the batch the ranks follow, and a decaying schedule says how long to
// train.
TEST(DeepSpeedTest, InfersRanksAndSteps) {
  const Imported imported = import_valid(R"({
    "train_batch_size": 128, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 4,
    "gradient_clipping": 1.0,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.01}},
    "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_min_lr": 0, "warmup_max_lr": 1e-4,
                  "warmup_num_steps": 1000, "total_num_steps": 50000, "warmup_type": "linear"}},
    "zero_optimization": {"stage": 3, "mics_shard_size": 4, "mics_hierarchical_params_gather": true}
  })");
  EXPECT_EQ(field(imported, "ranks"), 8);
  EXPECT_EQ(field(imported, "train.batch"),
            json({{"globalBatchSize", 128}, {"microBatchSize", 4}}));
  EXPECT_EQ(field(imported, "train.steps"), 50000);
  EXPECT_EQ(field(imported, "train.schedule.minLrRatio"), 0.0);
  EXPECT_EQ(field(imported, "train.schedule.warmupType"), "linear");
  EXPECT_EQ(field(imported, "train.parallelism.shardRanks"), 4);
  EXPECT_EQ(to_change(imported), kLacking);
}

// In the shape of the ZeRO-Infinity example of deepspeed.ai/tutorials/zero.
TEST(DeepSpeedTest, RefusesByNameWhatIsNotThere) {
  const Imported imported = import_valid(R"({
    "train_micro_batch_size_per_gpu": 1,
    "zero_optimization": {
      "stage": 3,
      "offload_optimizer": {"device": "nvme", "nvme_path": "/local_nvme", "buffer_count": 4, "ratio": 0.5},
      "offload_param": {"device": "nvme", "nvme_path": "/other", "max_in_cpu": 1e9},
      "zero_quantized_weights": true
    },
    "aio": {"block_size": 262144, "queue_depth": 32},
    "tensor_parallel": {"autotp_size": 4},
    "pipeline": {"stages": 2},
    "sequence_parallel_size": 1,
    "optimizer": {"type": "Lion", "params": {"lr": 1e-4}},
    "scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 1e-5}},
    "zero_optimisation": {"stage": 2}
  })");
  EXPECT_EQ(refusals(imported),
            "zero_optimization.offload_param.device zero_optimization.offload_param.nvme_path "
            "zero_optimization.zero_quantized_weights tensor_parallel.autotp_size pipeline "
            "optimizer.type scheduler zero_optimisation");
  EXPECT_EQ(field(imported, "train.offload"),
            json({{"optimizer", "nvme"}, {"nvmePath", "/local_nvme"}}));
  EXPECT_THAT(imported.manifest,
              HasSubstr("#   tensor_parallel.autotp_size (line 10): tensor parallelism is not"));
  EXPECT_THAT(
      imported.manifest,
      HasSubstr("zero_optimisation (line 15): unknown key: did you mean zero_optimization"));
  EXPECT_EQ(fate(imported, "sequence_parallel_size"), "mapped");
  EXPECT_EQ(fate(imported, "aio.block_size"), "changed");
}

TEST(DeepSpeedTest, NamesWhatServesInPlaceOfTrackersAndProfilers) {
  const Imported imported = import_valid(R"({
    "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 8,
    "bfloat16": {"enabled": true},
    "scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 2000, "warmup_num_steps": 100,
                  "warmup_min_ratio": 0.1, "cos_min_ratio": 0.05}},
    "optimizer": {"type": "adam", "params": {"lr": 2e-4, "adam_w_mode": false}},
    "wandb": {"enabled": true, "project": "mine", "team": "ours"},
    "csv_monitor": {"enabled": true, "output_path": "logs"},
    "tensorboard": {"enabled": false, "output_path": "tb"},
    "flops_profiler": {"enabled": true, "profile_step": 5, "detailed": true},
    "communication_data_type": "bf16", "prescale_gradients": true, "wall_clock_breakdown": true
  })");
  EXPECT_EQ(fate(imported, "wandb"), "changed train.logging.tensorboard");
  EXPECT_THAT(imported.manifest, HasSubstr("tensorboard: true  # wandb: TensorBoard files"));
  EXPECT_EQ(fate(imported, "csv_monitor"), "changed");
  EXPECT_EQ(fate(imported, "tensorboard"), "mapped");
  EXPECT_EQ(field(imported, "train.logging.profile.fromStep"), 5);
  EXPECT_EQ(field(imported, "train.optimizer.name"), "adam");
  EXPECT_DOUBLE_EQ(field(imported, "train.schedule.warmupMinLr").get<double>(), 2e-5);
  EXPECT_EQ(field(imported, "train.schedule.minLrRatio"), 0.05);
  EXPECT_EQ(field(imported, "train.batch"),
            json({{"microBatchSize", 2}, {"accumulationSteps", 8}}));
  EXPECT_EQ(fate(imported, "communication_data_type"), "changed");
}

TEST(DeepSpeedTest, SaysWhereABrokenFileIsBroken) {
  const auto zero = [](const std::string& inside) {
    return import_broken("{\"zero_optimization\":\n {" + inside + "}}");
  };
  EXPECT_THAT(import_broken("{\"train_batch_size\": 8, \"zero_optimization\": {"),
              HasSubstr("line"));
  EXPECT_THAT(import_broken("{\"fp16\": {\"enabled\": true},\n\"fp16\": {}}"), HasSubstr("twice"));
  EXPECT_THAT(zero("\"stage\": 5"), HasSubstr("2 zero_optimization.stage: must be 0, 1, 2 or 3"));
  EXPECT_THAT(zero("\"stage\": \"auto\""), HasSubstr("must be 0, 1, 2 or 3, found \"auto\""));
  EXPECT_THAT(zero("\"overlap_comm\": \"auto\""), HasSubstr("cannot be \"auto\""));
  EXPECT_THAT(zero("\"stage\": 2, \"mics_shard_size\": 4"), HasSubstr("MiCS needs stage 3"));
  EXPECT_THAT(zero("\"stage\": 2, \"offload_param\": {\"device\": \"cpu\"}"),
              HasSubstr("needs stage 3"));
  EXPECT_THAT(zero("\"offload_optimizer\": {\"device\": \"gpu\"}"), HasSubstr("none, cpu or nvme"));
  EXPECT_THAT(
      import_broken(R"({"train_batch_size": 100, "train_micro_batch_size_per_gpu": 8,
                                "gradient_accumulation_steps": 4})"),
      HasSubstr("1 train_batch_size: is not a multiple of micro-batch x accumulation = 32"));
  EXPECT_THAT(import_broken(R"({"fp16": {"enabled": true}, "bf16": {"enabled": true}})"),
              HasSubstr("exclude each other"));
  EXPECT_THAT(import_broken(R"({"train_batch_size": 8, "gradient_clipping": "one"})"),
              HasSubstr("gradient_clipping: cannot be \"one\""));
  EXPECT_THAT(import_broken(R"({"train_batch_size": 8, "optimizer": "AdamW"})"),
              HasSubstr("optimizer: must be a map"));
  // Valid by itself, but no manifest: the schedule cannot be longer than training.
  EXPECT_THAT(import_broken(R"({"train_batch_size": 8, "scheduler": {"type": "WarmupDecayLR",
                                "params": {"warmup_num_steps": 100, "total_num_steps": 10}}})"),
              HasSubstr("warmupSteps: must be at most steps 10, found 100"));
}

TEST(DeepSpeedTest, GivesEveryKeyOneAnswerWhateverItsValue) {
  expect_one_answer_per_key(deepspeed_table());
}

}  // namespace
}  // namespace lockstep::convert
