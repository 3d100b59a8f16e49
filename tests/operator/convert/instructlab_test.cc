#include "operator/convert/instructlab.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/operator/convert/import_checks.h"

namespace lockstep::convert {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// In the shape of what `ilab config init` writes.
TEST(InstructLabTest, TakesTheTrainSectionAndNamesTheOthers) {
  const Imported imported = import_valid(R"(
version: 1.0.0
chat: {model: /cache/models/small.gguf, max_tokens: null}
evaluate: {gpus: null}
general: {log_level: INFO}
generate: {pipeline: simple}
serve: {backend: null}
train:
  additional_args: {}
  ckpt_output_dir: /data/checkpoints
  data_output_dir: /data/internal
  data_path: /data/datasets/messages.jsonl
  deepspeed_cpu_offload_optimizer: true
  effective_batch_size: 3840
  is_padding_free: false
  lora_quantize_dtype: nf4
  lora_rank: 0
  max_batch_len: 10000
  max_seq_len: 4096
  model_path: instructlab/granite-7b-lab
  nproc_per_node: 4
  num_epochs: 10
  phased_phase1_num_epochs: 10
  save_samples: 250000
)");
  EXPECT_EQ(field(imported, "ranks"), 4);
  EXPECT_EQ(field(imported, "train.batch.globalBatchSize"), 3840);
  EXPECT_EQ(field(imported, "train.checkpoint.everySteps"), 65);
  EXPECT_EQ(field(imported, "train.data.sequenceLength"), 4096);
  EXPECT_EQ(field(imported, "train.offload.optimizer"), "cpu");
  EXPECT_EQ(field(imported, "train.precision"), "bf16");
  EXPECT_EQ(fate(imported, "chat"), "changed");
  EXPECT_EQ(fate(imported, "train.lora_quantize_dtype"), "mapped");
  EXPECT_EQ(field(imported, "train.data.train"), "/data/datasets/messages.jsonl");
  EXPECT_EQ(field(imported, "train.task"), "sft");
  EXPECT_EQ(fate(imported, "train.model_path"), "changed train.model.path");
}

// In the shape of the profiles that come with ilab: adapters are off, and what belongs to them is
// there all the same.
TEST(InstructLabTest, TakesTheArgumentsOfItsProfiles) {
  const std::string arguments =
      "  additional_args: {learning_rate: 2e-5, warmup_steps: 25, lora_alpha: 32, "
      "lora_dropout: 0.1, deepspeed_cpu_offload_optimizer_pin_memory: false, "
      "deepspeed_cpu_offload_optimizer_ratio: 1}\n";
  const Imported full = import_valid(
      "train:\n  data_path: /d.jsonl\n  effective_batch_size: 128\n  lora_rank: 0\n"
      "  deepspeed_cpu_offload_optimizer: true\n" +
          arguments + "models: []\nmetadata: {gpu_count: 4}\n",
      "instructlab");
  EXPECT_EQ(refusals(full), "");
  EXPECT_EQ(fate(full, "train.additional_args.lora_alpha"), "mapped");  // of no effect
  EXPECT_EQ(field(full, "train.offload"), json({{"optimizer", "cpu"}, {"pinMemory", false}}));
  EXPECT_EQ(fate(full, "models"), "changed");
  const Imported adapted =
      import_valid("train:\n  data_path: /d.jsonl\n  lora_rank: 4\n" + arguments, "instructlab");
  EXPECT_EQ(field(adapted, "train.lora"), json({{"rank", 4}, {"alpha", 32}, {"dropout", 0.1}}));
}

TEST(InstructLabTest, TakesItsTwoBackends) {
  const auto strategy = [](const std::string& backend) {
    return field(import_valid("train: {distributed_backend: " + backend + "}\n", "instructlab"),
                 "train.parallelism.strategy");
  };
  EXPECT_EQ(strategy("fsdp"), "zero3");
  EXPECT_EQ(strategy("deepspeed"), "zero2");
}

// In the shape of a guide for RHEL AI.
TEST(InstructLabTest, TakesTheShapeOfGuides) {
  const Imported imported = import_valid(R"(
model: {base: granite-7b-base, max_seq_length: 4096}
train:
  distributed: true
  num_gpus: 4
  deepspeed: {enabled: true, zero_stage: 3, config_path: ds.json}
  batch_size: 8
  gradient_accumulation_steps: 4
  effective_batch_size: 128
  gradient_checkpointing: true
  mixed_precision: bf16
)");
  EXPECT_EQ(field(imported, "train.parallelism.strategy"), "zero3");
  EXPECT_EQ(field(imported, "train.batch"),
            json({{"globalBatchSize", 128}, {"microBatchSize", 8}}));
  EXPECT_EQ(field(imported, "train.activationCheckpointing"), "block");
  EXPECT_EQ(fate(imported, "train.deepspeed.config_path"), "refused");
}

TEST(InstructLabTest, TakesAdditionalArguments) {
  const Imported imported = import_valid(R"(
train:
  data_path: /d.jsonl
  additional_args: {learning_rate: 2e-5, warmup_steps: 25, random_seed: 42, use_dolomite: true}
  keep_last_checkpoint_only: true
)");
  EXPECT_EQ(field(imported, "train.optimizer.lr"), 2e-5);
  EXPECT_EQ(field(imported, "train.schedule.warmupSteps"), 25);
  EXPECT_EQ(field(imported, "train.seed"), 42);
  EXPECT_EQ(field(imported, "train.checkpoint.keep"), 1);
  EXPECT_EQ(fate(imported, "train.additional_args.use_dolomite"), "refused");
}

TEST(InstructLabTest, RefusesSamplesWhereNothingSaysHowManyAStepTakes) {
  EXPECT_EQ(refusals(import_valid("train: {num_epochs: 1, save_samples: 250000}\n", "instructlab")),
            "train.save_samples");
  const Imported never = import_valid("train: {num_epochs: 1, save_samples: 0}\n", "instructlab");
  EXPECT_EQ(field(never, "train.checkpoint.everySteps"), 0);
}

TEST(InstructLabTest, RefusesQuantizedAdapters) {
  const Imported imported = import_valid(
      "train: {model_path: /m, lora_rank: 4, lora_alpha: 32, lora_quantize_dtype: nf4, "
      "lora_rang: 2}\n");
  EXPECT_EQ(fate(imported, "train.lora_quantize_dtype"), "refused");
  EXPECT_EQ(fate(imported, "train.lora_rank"), "mapped train.lora.rank");
  EXPECT_EQ(field(imported, "train.lora"), json({{"rank", 4}, {"alpha", 32}}));
  EXPECT_EQ(fate(imported, "train.lora_rang"), "refused");
}

TEST(InstructLabTest, SaysWhereABrokenFileIsBroken) {
  const auto of = [](const std::string& line) {
    return import_broken("train:\n  " + line + "\n", "instructlab");
  };
  EXPECT_THAT(of("distributed_backend: mpi"),
              HasSubstr("2 train.distributed_backend: must be fsdp"));
  EXPECT_THAT(of("num_epochs: many"), HasSubstr("cannot be \"many\""));
  EXPECT_THAT(of("save_samples: many"), HasSubstr("must be a number of samples"));
  EXPECT_THAT(of("deepspeed: {enabled: true, zero_stage: 7}"), HasSubstr("must be 0, 1, 2 or 3"));
  EXPECT_THAT(of("deepspeed_cpu_offload_optimizer: 1"), HasSubstr("true or false"));
  EXPECT_THAT(import_broken("train: 3\n", "instructlab"), HasSubstr("train: must be a map"));
}

TEST(InstructLabTest, GivesEveryKeyOneAnswerWhateverItsValue) {
  expect_one_answer_per_key(instructlab_table());
}

}  // namespace
}  // namespace lockstep::convert
