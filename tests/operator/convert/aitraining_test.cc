#include "operator/convert/aitraining.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/operator/convert/import_checks.h"

namespace lockstep::convert {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

// In the shape of the distributed training guide of AITraining.
constexpr const char* kSft = R"(
task: llm-sft
base_model: meta-llama/Llama-3.2-1B
project_name: Llama_SFT
log: wandb
backend: local

data:
  path: ./chats.jsonl
  train_split: train
  valid_split: null
  chat_template: tokenizer
  column_mapping:
    text_column: text

params:
  epochs: 3
  batch_size: 2
  lr: 2e-5
  gradient_accumulation: 4
  mixed_precision: bf16
  distributed_backend: deepspeed
  peft: true
  lora_r: 16
  lora_alpha: 32
  quantization: int4

hub:
  username: me
  token: hf_abc
  push_to_hub: true
)";

TEST(AitrainingTest, SaysOfSupervisedFineTuningWhatIsMissing) {
  const Imported imported = import_valid(kSft);
  EXPECT_EQ(imported.conversion.metadata.at("name"), "llama-sft");
  EXPECT_EQ(field(imported, "train.epochs"), 3);
  EXPECT_EQ(field(imported, "train.batch"),
            json({{"microBatchSize", 2}, {"accumulationSteps", 4}}));
  EXPECT_EQ(field(imported, "train.parallelism.strategy"), "zero3");
  EXPECT_EQ(field(imported, "train.precision"), "bf16");
  EXPECT_EQ(field(imported, "train.data.train"), "./chats.jsonl");
  EXPECT_EQ(field(imported, "train.data.columns.messages"), "text");
  EXPECT_EQ(field(imported, "train.task"), "sft");
  EXPECT_EQ(field(imported, "train.tokenizer.type"), "hf");
  EXPECT_EQ(fate(imported, "log"), "changed train.logging.tensorboard");
  EXPECT_EQ(fate(imported, "base_model"), "changed train.model.path");
  EXPECT_EQ(field(imported, "train.model.path"), "hf://meta-llama/Llama-3.2-1B");
  EXPECT_EQ(fate(imported, "params.peft"), "mapped");
  EXPECT_EQ(field(imported, "train.lora"), json({{"rank", 16}, {"alpha", 32}, {"merge", true}}));
  EXPECT_EQ(fate(imported, "data.chat_template"), "mapped");
  EXPECT_EQ(fate(imported, "params.quantization"), "refused");
  EXPECT_EQ(fate(imported, "hub.push_to_hub"), "refused");
  EXPECT_EQ(fate(imported, "data.valid_split"), "mapped");
  EXPECT_THAT(imported.manifest, Not(HasSubstr("hf_abc")));
}

TEST(AitrainingTest, OfTextsWithoutATemplateAllIsLearned) {
  const std::string head = "task: llm\nbase_model: /m\nproject_name: x\nparams: {trainer: sft}\n";
  const Imported texts = import_valid(head + "data: {column_mapping: {text_column: body}}\n");
  EXPECT_EQ(field(texts, "train.task"), "sft");
  EXPECT_EQ(field(texts, "train.data.columns.text"), "body");
  EXPECT_EQ(field(texts, "train.data.loss"), "all");
  const Imported named = import_valid(head + "data: {chat_template: zephyr}\n");
  EXPECT_EQ(fate(named, "data.chat_template"), "refused");
}

TEST(AitrainingTest, TellsTheTrackersThatAreHere) {
  const auto of = [](const std::string& log) {
    return import_valid("task: llm\nbase_model: /m\nproject_name: x\nlog: " + log + "\n");
  };
  const Imported mlflow = of("mlflow");
  EXPECT_EQ(fate(mlflow, "log"), "mapped train.logging.mlflow");
  EXPECT_EQ(field(mlflow, "train.logging"),
            json({{"mlflow", {{"trackingUri", "http://mlflow:5000"}}}}));
  EXPECT_THAT(to_change(mlflow), HasSubstr("train.logging.mlflow.trackingUri"));
  EXPECT_EQ(fate(of("tensorboard"), "log"), "mapped train.logging.tensorboard");
  EXPECT_EQ(fate(of("none"), "log"), "mapped");
  for (const char* other : {"wandb", "comet_ml", "all"}) {
    EXPECT_EQ(fate(of(other), "log"), "changed train.logging.tensorboard") << other;
  }
}

// In the shape of AutoTrain's configuration for its generic trainer.
TEST(AitrainingTest, TakesContinuedPretraining) {
  const Imported imported = import_valid(R"(
task: llm
base_model: /models/small
project_name: books
log: tensorboard
backend: local-cli
data: {path: /data/books/*.txt, train_split: train, column_mapping: {text_column: body}}
params:
  block_size: 1024
  model_max_length: 2048
  epochs: 1
  batch_size: 8
  lr: 1e-4
  optimizer: adamw_torch_fused
  scheduler: cosine
  warmup_ratio: 0.05
  weight_decay: 0.1
  max_grad_norm: 0.5
  seed: 7
  save_strategy: steps
  save_steps: 250
  save_total_limit: 3
  logging_steps: 20
  disable_gradient_checkpointing: true
  distributed_backend: ddp
  packing: true
)");
  EXPECT_EQ(field(imported, "train.data.sequenceLength"), 1024);
  EXPECT_EQ(fate(imported, "params.model_max_length"), "mapped");
  EXPECT_EQ(field(imported, "train.schedule"),
            json({{"name", "cosine"}, {"warmupRatio", 0.05}, {"minLrRatio", 0.0}}));
  EXPECT_EQ(field(imported, "train.optimizer"), json({{"name", "adamw"},
                                                      {"lr", 1e-4},
                                                      {"weightDecay", 0.1},
                                                      {"gradientClip", 0.5},
                                                      {"betas", {0.9, 0.999}}}));
  EXPECT_EQ(field(imported, "train.checkpoint"), json({{"everySteps", 250}, {"keep", 3}}));
  EXPECT_EQ(field(imported, "train.logging"), json({{"tensorboard", true}, {"everySteps", 20}}));
  EXPECT_EQ(field(imported, "train.activationCheckpointing"), "none");
  EXPECT_EQ(field(imported, "train.task"), "pretrain");
  EXPECT_EQ(field(imported, "train.seed"), 7);
  EXPECT_EQ(field(imported, "train.batch.accumulationSteps"), 4);  // AITraining's default
}

TEST(AitrainingTest, PairsOfAnswersAreDpoOrOrpo) {
  const Imported imported = import_valid(
      "task: llm-dpo\nproject_name: x\nbase_model: /m\n"
      "data:\n  path: /data/pairs.jsonl\n  chat_template: tokenizer\n"
      "  column_mapping: {prompt_text_column: q, text_column: good, rejected_text_column: bad}\n"
      "params: {dpo_beta: 0.2, max_prompt_length: 128, max_completion_length: 64}\n",
      "aitraining");
  EXPECT_EQ(refusals(imported), "");
  EXPECT_EQ(field(imported, "train.task"), "dpo");
  EXPECT_EQ(field(imported, "train.preference"), json({{"beta", 0.2}}));
  EXPECT_EQ(field(imported, "train.data.columns"),
            json({{"prompt", "q"}, {"chosen", "good"}, {"rejected", "bad"}}));
  const Imported orpo = import_valid(
      "task: llm\nproject_name: x\nbase_model: /m\nparams: {trainer: orpo, dpo_beta: 0.2}\n",
      "aitraining");
  EXPECT_EQ(field(orpo, "train.task"), "orpo");
}

TEST(AitrainingTest, RewardModelsLearnFromPairsTooWithoutAdapters) {
  const std::string reward =
      "task: llm-reward\nproject_name: x\nbase_model: /m\n"
      "data:\n  path: /data/pairs.jsonl\n  chat_template: tokenizer\n"
      "  column_mapping: {text_column: good, rejected_text_column: bad}\n";
  const Imported imported = import_valid(reward, "aitraining");
  EXPECT_EQ(refusals(imported), "");
  EXPECT_EQ(field(imported, "train.task"), "reward");
  EXPECT_EQ(field(imported, "train.data.columns"), json({{"chosen", "good"}, {"rejected", "bad"}}));
  EXPECT_EQ(refusals(import_valid(reward + "params: {peft: true, lora_r: 8}\n", "aitraining")),
            "params.lora_r params.peft");
}

TEST(AitrainingTest, DistillationNamesItsTeacher) {
  const std::string distill =
      "task: llm-distillation\nproject_name: x\nbase_model: /m\n"
      "data: {path: /data/chats.jsonl, chat_template: tokenizer}\n";
  const Imported imported = import_valid(
      distill + "params: {use_distillation: true, teacher_model: org/large, distill_alpha: 0.4}\n",
      "aitraining");
  EXPECT_EQ(refusals(imported), "");
  EXPECT_EQ(field(imported, "train.task"), "distill");
  EXPECT_EQ(field(imported, "train.distill.teacher"), "hf://org/large");
  EXPECT_EQ(field(imported, "train.distill.alpha"), 0.4);
  EXPECT_EQ(field(imported, "train.distill.temperature"), 3) << "AITraining's default";
  EXPECT_THAT(fate(imported, "params.use_distillation"), HasSubstr("changed"));
  EXPECT_EQ(field(import_valid(distill, "aitraining"), "train.distill.teacher"), "/models/teacher")
      << "to be changed";
}

// AITraining's own default of the trainer takes nothing from a task that says which it is.
TEST(AitrainingTest, ATaskThatSaysWhichIsNotUndoneByADefaultTrainer) {
  for (const std::string task : {"sft", "llm-sft", "dpo"}) {
    for (const std::string trainer : {"default", "generic"}) {
      const Imported imported = import_valid("task: " + task +
                                                 "\nproject_name: x\nbase_model: /m\n"
                                                 "params: {trainer: " +
                                                 trainer + "}\ndata: {chat_template: tokenizer}\n",
                                             "aitraining");
      EXPECT_EQ(refusals(imported), "") << task << " " << trainer;
      EXPECT_EQ(field(imported, "train.task"), task == "dpo" ? "dpo" : "sft") << trainer;
      EXPECT_EQ(fate(imported, "params.trainer"), "mapped") << task << " " << trainer;
    }
  }
  const Imported plain = import_valid(
      "task: llm\nproject_name: x\nbase_model: /m\nparams: {trainer: default}\n", "aitraining");
  EXPECT_EQ(field(plain, "train.task"), "pretrain");
}

TEST(AitrainingTest, RefusesWhatIsNoTrainingOnText) {
  const auto of = [](const std::string& lines) {
    return refusals(import_valid("project_name: x\nbase_model: /m\n" + lines, "aitraining"));
  };
  EXPECT_THAT(of("task: llm-dpo\nparams: {dpo_beta: 0.2, model_ref: /r}\n"),
              HasSubstr("params.model_ref"));
  EXPECT_THAT(of("task: llm-sft\ndata: {rejected_text_column: bad}\n"),
              HasSubstr("data.rejected_text_column"));
  EXPECT_THAT(of("task: llm-grpo\n"), HasSubstr("task"));
  EXPECT_THAT(of("task: text-classification\n"), HasSubstr("task"));
  EXPECT_THAT(of("task: llm\nbackend: spaces-a10g-large\n"), HasSubstr("backend"));
  EXPECT_THAT(of("task: llm\nparams: {use_sweep: true, sweep_n_trials: 5, rl_gamma: 0.9}\n"),
              HasSubstr("params.rl_gamma params.sweep_n_trials params.use_sweep"));
  EXPECT_THAT(of("task: llm\nparams: {lora_rr: 3}\n"), HasSubstr("params.lora_rr"));
  EXPECT_THAT(of("task: llm\ndata: {path: a.arrow}\n"), HasSubstr("data.path"));
}

TEST(AitrainingTest, TakesTheSettingsOfLora) {
  const std::string head = "task: llm\nbase_model: /m\nproject_name: x\n";
  const auto lora = [&](const std::string& params) {
    return field(import_valid(head + "params: {peft: true, " + params + "}\n"), "train.lora");
  };
  EXPECT_EQ(lora("merge_adapter: false, lora_dropout: 0.1"),
            json({{"rank", 16}, {"merge", false}, {"dropout", 0.1}}));
  EXPECT_EQ(lora("lora_r: 8, target_modules: all-linear").at("targets"), json({"all-linear"}));
  EXPECT_EQ(lora("lora_r: 8, target_modules: 'q_proj, v_proj'").at("targets"),
            json({"q_proj", "v_proj"}));
}

TEST(AitrainingTest, TakesASplitForValidationAndAHubsData) {
  const Imported imported = import_valid(R"(
task: llm-generic
base_model: gpt2
project_name: split
data: {path: roneneldan/TinyStories, valid_split: validation, chat_template: none}
params: {lora_r: 8, peft: false, scheduler: constant, save_strategy: epoch, mixed_precision: none}
)");
  EXPECT_EQ(field(imported, "train.data.train"), "hf://roneneldan/TinyStories");
  EXPECT_EQ(fate(imported, "data.path"), "changed train.data.train");
  EXPECT_THAT(to_change(imported), HasSubstr("train.data.validation"));
  EXPECT_THAT(imported.manifest, HasSubstr("# data.path: fetched from the hub when ranks start"));
  EXPECT_EQ(fate(imported, "params.lora_r"), "mapped");  // of no effect
  EXPECT_EQ(fate(imported, "data.chat_template"), "mapped");
  EXPECT_EQ(field(imported, "train.precision"), "fp32");
}

TEST(AitrainingTest, TwoSlicesOfASplitHoldAShareOut) {
  const auto import = [](const std::string& train, const std::string& valid) {
    return import_valid(
        "task: llm-generic\nbase_model: /m\nproject_name: x\n"
        "data: {path: /d/a.jsonl, train_split: '" +
        train + "', valid_split: '" + valid + "', chat_template: none}\n");
  };
  struct Case {
    const char* train;
    const char* valid;
    double fraction;
  };
  for (const Case& c :
       {Case{"train[:90%]", "train[90%:]", 0.1}, Case{"train[5%:]", "train[:5%]", 0.05}}) {
    const Imported imported = import(c.train, c.valid);
    EXPECT_EQ(field(imported, "train.data.validationFraction"), c.fraction);
    EXPECT_EQ(field(imported, "train.data.validation"), nullptr);
    EXPECT_EQ(fate(imported, "data.valid_split"), "changed train.data.validationFraction");
    EXPECT_EQ(fate(imported, "data.train_split"), "mapped");
  }
  for (const Case& c : {Case{"train[:80%]", "train[90%:]", 0}, Case{"train[:90%]", "test[90%:]", 0},
                        Case{"train[:90]", "train[90:]", 0}, Case{"train[:0%]", "train[0%:]", 0}}) {
    const Imported imported = import(c.train, c.valid);
    EXPECT_EQ(field(imported, "train.data.validationFraction"), nullptr) << c.train;
    EXPECT_THAT(to_change(imported), HasSubstr("train.data.validation")) << c.train;
    EXPECT_EQ(fate(imported, "data.train_split"), "refused") << c.train;
  }
  EXPECT_THAT(fate(import("train", "train[90%:]"), "data.train_split"), HasSubstr("changed"));
}

TEST(AitrainingTest, SaysWhereABrokenFileIsBroken) {
  const auto of = [](const std::string& lines) {
    return import_broken("task: llm\nbase_model: /m\n" + lines, "aitraining");
  };
  EXPECT_THAT(of("params:\n  lr: fast\n"), HasSubstr("4 params.lr: cannot be \"fast\""));
  EXPECT_THAT(of("params: {distributed_backend: horovod}\n"),
              HasSubstr("must be ddp or deepspeed"));
  EXPECT_THAT(of("params: {save_strategy: never}\n"), HasSubstr("no, steps or epoch"));
  EXPECT_THAT(of("data: [a]\n"), HasSubstr("data: must be a map"));
  EXPECT_THAT(of("params: {epochs: 1\n"), HasSubstr("line"));
  EXPECT_THAT(import_broken("task: 3\nparams: {}\n"), HasSubstr("1 task: must be a task"));
}

TEST(AitrainingTest, GivesEveryKeyOneAnswerWhateverItsValue) {
  expect_one_answer_per_key(aitraining_table());
}

}  // namespace
}  // namespace lockstep::convert
