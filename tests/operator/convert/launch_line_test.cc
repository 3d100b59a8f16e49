#include "operator/convert/launch_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/api/manifest.h"
#include "operator/convert/flags.h"
#include "operator/convert/host_file.h"
#include "operator/convert/launch_flags.h"
#include "tests/operator/convert/import_checks.h"

namespace lockstep::convert {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> words;
  std::istringstream stream(line);
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

Imported import_line(const std::string& line, const NamedFiles& files = {}) {
  return import_command_line(split(line), files,
                             {.file_name = "command line", .from = "auto", .sets = {}});
}

// A flag without dashes, as an aitraining note has it: "nproc_per_node" of "--nproc-per-node=4".
std::string bare(std::string flag) {
  flag = flag.substr(std::min(flag.find_first_not_of('-'), flag.size()));
  flag.resize(std::min(flag.find('='), flag.size()));
  std::replace(flag.begin(), flag.end(), '-', '_');
  return flag;
}

// The variables and flags of `line` that are the launcher's: those before the script.
std::vector<std::string> keys_of(const std::string& line) {
  std::vector<std::string> keys;
  bool launched = false;
  for (const std::string& word : split(line)) {
    if (word.ends_with(".py") || word == "package.train") break;
    const bool is_flag =
        word.starts_with('-') && word.find_first_not_of("-0123456789.") != std::string::npos;
    const bool is_variable = !launched && word.find('=') != std::string::npos;
    if (word == "python" || word == "python3") continue;
    if (!is_variable && !launched) {
      launched = true;
    } else if (is_flag || is_variable) {
      keys.push_back(bare(word));
    }
  }
  return keys;
}

// import_line() of what must be valid, with one note for every variable and flag.
Imported valid_line(const std::string& line, const NamedFiles& files = {}) {
  Imported imported = import_line(line, files);
  for (const common::Problem& problem : imported.conversion.problems) {
    ADD_FAILURE() << line << ": " << common::to_string(problem, "line");
  }
  const api::Manifest manifest = api::parse_manifest(imported.manifest, {.file_name = "job.yaml"});
  EXPECT_FALSE(common::has_errors(manifest.problems)) << imported.manifest;
  for (const std::string& key : keys_of(line)) {
    const std::vector<Note>& notes = imported.conversion.notes;
    EXPECT_EQ(std::count_if(notes.begin(), notes.end(),
                            [&key](const Note& note) { return bare(note.key) == key; }),
              1)
        << key << " of " << line;
  }
  return imported;
}

NamedFiles file(const std::string& path, const std::string& text) {
  return {{path, text}};
}

std::string broken_line(const std::string& line, const NamedFiles& files = {}) {
  const Imported imported = import_line(line, files);
  EXPECT_EQ(imported.manifest, "") << line;
  std::string all;
  for (const common::Problem& problem : imported.conversion.problems) {
    all.append(common::to_string(problem, "line")).append("\n");
  }
  return all;
}

// In the shape of the usage lines of torchrun's documentation.
TEST(TorchrunLineTest, TakesNodesAndProcesses) {
  const Imported imported = valid_line(
      "NCCL_DEBUG=INFO CUDA_VISIBLE_DEVICES=0,1 torchrun --nnodes=2 --nproc-per-node 8 "
      "--node_rank 0 --master-addr=10.0.0.1 --master_port 29500 train.py --lr 0.1 --nnodes 9");
  EXPECT_EQ(field(imported, "ranks"), 16);
  EXPECT_EQ(field(imported, "ranksPerPod"), 8);
  EXPECT_EQ(field(imported, "command"), json({"torchrun"}));
  EXPECT_EQ(field(imported, "args"), json({"train.py", "--lr", "0.1", "--nnodes", "9"}));
  EXPECT_EQ(field(imported, "env"), json({{{"name", "NCCL_DEBUG"}, {"value", "INFO"}}}));
  EXPECT_EQ(imported.conversion.metadata.at("name"), "train");
  EXPECT_EQ(fate(imported, "--master_addr"), "changed");
  EXPECT_EQ(fate(imported, "CUDA_VISIBLE_DEVICES"), "changed");
  EXPECT_EQ(to_change(imported), "image");
}

TEST(TorchrunLineTest, TakesElasticAndStandaloneLines) {
  const Imported elastic = valid_line(
      "torchrun --nnodes=1:4 --nproc-per-node=2 --max-restarts=3 --rdzv-id=5 "
      "--rdzv-backend=c10d --rdzv-endpoint=host:1 -m package.train");
  EXPECT_EQ(field(elastic, "ranks"), 8);
  EXPECT_EQ(fate(elastic, "--nnodes"), "changed ranks");
  EXPECT_EQ(field(elastic, "failurePolicy.maxRestarts"), 3);
  EXPECT_EQ(field(elastic, "command"), json({"torchrun", "-m"}));
  const Imported standalone =
      valid_line("python3 -m torch.distributed.run --standalone --nproc_per_node=gpu a/b.py");
  EXPECT_EQ(to_change(standalone), "image ranksPerPod");
  EXPECT_EQ(field(valid_line("torchrun --nproc-per-node=4 x.py"), "ranks"), 4);
  EXPECT_EQ(field(valid_line("python -m torch.distributed.launch --use_env x.py"), "ranks"), 1);
}

// In the shape of the multi-node lines of Accelerate's launch page.
TEST(AccelerateLineTest, KeepsWhatIsTheScripts) {
  const Imported imported = valid_line(
      "accelerate launch --multi_gpu --num_processes 8 --num_machines 2 --machine_rank 1 "
      "--main_process_ip 10.0.0.1 --main_process_port 29500 --mixed_precision=fp16 "
      "--use_deepspeed --zero_stage 3 nlp.py --epochs 3");
  EXPECT_EQ(field(imported, "ranks"), 8);
  EXPECT_EQ(field(imported, "ranksPerPod"), 4);
  EXPECT_EQ(field(imported, "args"),
            json({"--mixed_precision", "fp16", "--multi_gpu", "--use_deepspeed", "--zero_stage",
                  "3", "nlp.py", "--epochs", "3"}));
  EXPECT_EQ(field(imported, "command").at(0), "sh");
  EXPECT_THAT(field(imported, "command").at(2).get<std::string>(),
              HasSubstr("--num_processes $WORLD_SIZE --num_machines $PET_NNODES"));
  EXPECT_EQ(fate(imported, "--machine_rank"), "changed");
  EXPECT_EQ(fate(imported, "--zero_stage"), "mapped args");
}

TEST(AccelerateLineTest, ReadsItsConfiguration) {
  const std::string line = "accelerate launch --config_file fsdp.yaml train.py";
  EXPECT_THAT(files_of_command_line(split(line)), ElementsAre("fsdp.yaml"));
  const Imported imported =
      valid_line(line, file("fsdp.yaml", "num_processes: 16\nnum_machines: 2\n"));
  EXPECT_EQ(field(imported, "ranks"), 16);
  EXPECT_EQ(field(imported, "ranksPerPod"), 8);
  EXPECT_EQ(fate(imported, "fsdp.yaml: num_processes"), "mapped ranks");
  EXPECT_EQ(fate(imported, "--config_file"), "mapped args");
}

TEST(AccelerateLineTest, FlagsGoBeforeItsConfiguration) {
  const NamedFiles config = file("ac.yaml", "num_processes: 16\nnum_machines: 2\n");
  const Imported machines =
      valid_line("accelerate launch --config_file ac.yaml --num_machines 4 train.py", config);
  EXPECT_EQ(field(machines, "ranks"), 16);
  EXPECT_EQ(field(machines, "ranksPerPod"), 4);
  EXPECT_EQ(fate(machines, "--num_machines"), "mapped ranksPerPod");
  EXPECT_EQ(fate(machines, "ac.yaml: num_machines"), "none");
  const Imported processes =
      valid_line("accelerate launch --num_processes 8 --config_file ac.yaml train.py", config);
  EXPECT_EQ(field(processes, "ranks"), 8);
  EXPECT_EQ(field(processes, "ranksPerPod"), 4);
}

TEST(AccelerateLineTest, SaysWhatIsWrongWithItsConfiguration) {
  const std::string line = "accelerate launch --config_file ac.yaml train.py";
  EXPECT_THAT(broken_line(line), HasSubstr("--config_file: ac.yaml was not read"));
  const common::Error error{common::ErrorCode::kPermissionDenied, "ac.yaml: may not be read"};
  EXPECT_THAT(broken_line(line, {{"ac.yaml", error}}),
              HasSubstr("--config_file: ac.yaml: may not be read"));
  EXPECT_THAT(broken_line(line, file("ac.yaml", "a: [")), HasSubstr("ac.yaml: "));
  EXPECT_THAT(broken_line(line, file("ac.yaml", "- a\n")), HasSubstr("must be a map of keys"));
  EXPECT_THAT(broken_line(line, file("ac.yaml", "num_processes: many\n")),
              HasSubstr("ac.yaml: num_processes: must be a number of processes"));
  EXPECT_THAT(broken_line(line, file("ac.yaml", "num_processes: 8\nnum_machines: 3\n")),
              HasSubstr("ac.yaml: num_machines: does not divide num_processes"));
}

TEST(AccelerateLineTest, RefusesOtherMachines) {
  EXPECT_EQ(refusals(valid_line("accelerate launch --tpu --use_megatron_lm a.py")),
            "--tpu --use_megatron_lm");
}

// In the shape of the lines of DeepSpeed's getting-started page.
TEST(DeepSpeedLineTest, TakesAHostFile) {
  const std::string line =
      "deepspeed --hostfile=hosts --master_port 29501 train.py --deepspeed_config ds.json";
  EXPECT_THAT(files_of_command_line(split(line)), ElementsAre("hosts"));
  const NamedFiles hosts =
      file("hosts", "# two machines\nworker-1 slots=4\n\nworker-2 slots=4 # b\n");
  const Imported imported = valid_line(line, hosts);
  EXPECT_EQ(field(imported, "ranks"), 8);
  EXPECT_EQ(field(imported, "ranksPerPod"), 4);
  EXPECT_EQ(fate(imported, "--hostfile"), "mapped");
  EXPECT_EQ(fate(imported, "deepspeed"), "changed command");
  EXPECT_EQ(field(imported, "args"), json({"train.py", "--deepspeed_config", "ds.json"}));
  const Imported some =
      valid_line("deepspeed --hostfile hosts --num_nodes 1 --num_gpus 2 t.py", hosts);
  EXPECT_EQ(field(some, "ranks"), 2);
  EXPECT_EQ(fate(valid_line("deepspeed -H hosts t.py", hosts), "-H"), "mapped");
}

TEST(DeepSpeedLineTest, TakesNumbersAndRefusesSelections) {
  const Imported one = valid_line("deepspeed --num_gpus=4 train.py --deepspeed ds.json");
  EXPECT_EQ(field(one, "ranks"), 4);
  EXPECT_EQ(field(one, "ranksPerPod"), 4);
  EXPECT_EQ(field(valid_line("deepspeed --num_nodes 2 --num_gpus 4 t.py"), "ranks"), 8);
  EXPECT_EQ(to_change(valid_line("deepspeed t.py")), "image ranks");
  EXPECT_EQ(refusals(valid_line("deepspeed --include localhost:1,2 --autotuning run t.py")),
            "--autotuning --include");
}

TEST(AitrainingLineTest, IsAConfigurationInFlags) {
  const Imported imported = valid_line(
      "aitraining llm --train --model meta-llama/Llama-3.2-1B --data-path ./a.jsonl "
      "--project-name mine --trainer sft --peft --lora-r 8 --distributed-backend ddp "
      "--block_size -1 --lr 1e-4 --batch-size=4 --text-column body");
  EXPECT_EQ(field(imported, "train.batch.microBatchSize"), 4);
  EXPECT_EQ(field(imported, "train.optimizer.lr"), 1e-4);
  EXPECT_EQ(field(imported, "train.parallelism.strategy"), "ddp");
  EXPECT_EQ(field(imported, "train.data.columns.text"), "body");
  EXPECT_EQ(fate(imported, "trainer"), "mapped train.task");
  EXPECT_EQ(field(imported, "train.task"), "sft");
  EXPECT_EQ(fate(imported, "peft"), "mapped");
  EXPECT_EQ(field(imported, "train.lora.rank"), 8);
  EXPECT_EQ(imported.conversion.metadata.at("name"), "mine");
  EXPECT_THAT(refusals(valid_line("autotrain llm --model /m --learning-rat 3")),
              HasSubstr("learning_rat"));
}

TEST(AitrainingLineTest, KeepsTheVariablesBeforeIt) {
  const Imported imported =
      valid_line("NCCL_DEBUG=INFO CUDA_VISIBLE_DEVICES=0 RANK=3 aitraining llm --model /m --train");
  EXPECT_EQ(field(imported, "env"), json({{{"name", "NCCL_DEBUG"}, {"value", "INFO"}}}));
  EXPECT_EQ(fate(imported, "NCCL_DEBUG"), "mapped env");
  EXPECT_EQ(fate(imported, "CUDA_VISIBLE_DEVICES"), "changed");
  EXPECT_EQ(fate(imported, "RANK"), "changed");
}

TEST(AitrainingLineTest, AVariableIsNoFlagThatHasItsName) {
  const Imported imported = import_line("seed=1 aitraining llm --model /m --train --seed 42");
  EXPECT_EQ(field(imported, "train.seed"), 42);
  EXPECT_EQ(field(imported, "env"), json({{{"name", "seed"}, {"value", "1"}}}));
}

TEST(AitrainingLineTest, TakesMlflowFromTheVariablesBeforeIt) {
  const std::string line = " aitraining llm --model /m --train --log ";
  const Imported told = valid_line(
      "MLFLOW_TRACKING_URI=https://mlflow:5000 MLFLOW_EXPERIMENT_NAME=7 WANDB_MODE=offline" + line +
      "mlflow");
  EXPECT_EQ(field(told, "train.logging"),
            json({{"mlflow", {{"trackingUri", "https://mlflow:5000"}, {"experiment", "7"}}}}));
  EXPECT_EQ(fate(told, "MLFLOW_TRACKING_URI"), "mapped train.logging.mlflow.trackingUri");
  EXPECT_EQ(fate(told, "WANDB_MODE"), "mapped env");
  EXPECT_THAT(to_change(told), testing::Not(HasSubstr("mlflow")));
  const Imported files = valid_line("MLFLOW_TRACKING_URI=file:/runs" + line + "mlflow");
  EXPECT_EQ(refusals(files), "MLFLOW_TRACKING_URI") << "no server: only the user knows one";
  EXPECT_THAT(to_change(files), HasSubstr("train.logging.mlflow.trackingUri"));
  const Imported other = valid_line("MLFLOW_TRACKING_URI=http://mlflow:5000" + line + "wandb");
  EXPECT_EQ(fate(other, "MLFLOW_TRACKING_URI"), "mapped");
  EXPECT_EQ(field(other, "train.logging"), json({{"tensorboard", true}}));
}

TEST(LaunchLineTest, SaysWhatIsWrongWithALine) {
  EXPECT_THAT(broken_line("mpirun -np 4 train.py"), HasSubstr("no launcher that import knows"));
  EXPECT_THAT(broken_line("torchrun --nproc-per-nod 4 train.py"),
              HasSubstr("unknown flag: did you mean --nproc_per_node?"));
  EXPECT_THAT(broken_line("torchrun --nproc-per-node 4"), HasSubstr("names no script"));
  EXPECT_THAT(broken_line("torchrun --nproc-per-node"), HasSubstr("needs a value"));
  EXPECT_THAT(broken_line("torchrun --nnodes two a.py"), HasSubstr("must be a number of nodes"));
  EXPECT_THAT(broken_line("torchrun --nnodes 1 --nnodes 2 a.py"), HasSubstr("is there twice"));
  EXPECT_THAT(broken_line("accelerate launch --num_machines 3 --num_processes 8 a.py"),
              HasSubstr("does not divide num_processes"));
  EXPECT_THAT(broken_line("deepspeed --hostfile hosts a.py"),
              HasSubstr("--hostfile: hosts was not read"));
  EXPECT_THAT(broken_line("aitraining llm --config a.yaml"), HasSubstr("is a file of its own"));
  EXPECT_THAT(broken_line("aitraining llm train"), HasSubstr("is no flag"));
  EXPECT_THAT(broken_line("A=b"), HasSubstr("found nothing"));
}

TEST(HostFileTest, RefusesWhatDeepSpeedRefuses) {
  const auto broken = [](const std::string& text) {
    return broken_line("deepspeed --hostfile hosts a.py", file("hosts", text));
  };
  EXPECT_THAT(broken("a slots=4\na slots=4\n"), HasSubstr("2: hosts: a is there twice"));
  EXPECT_THAT(broken("a slots=many\n"), HasSubstr("must be like"));
  EXPECT_THAT(broken("a\n"), HasSubstr("must be like"));
  EXPECT_THAT(broken_line("deepspeed --hostfile h --num_nodes 3 a.py", file("h", "a slots=1\n")),
              HasSubstr("names fewer hosts than --num_nodes"));
  EXPECT_THAT(broken("# nobody\n"), HasSubstr("names no host"));
  EXPECT_THAT(broken("a slots=4\nb slots=8\n"), HasSubstr("b has 8 slots, and pods are alike"));
  EXPECT_THAT(broken("a slots=65\n"), HasSubstr("hosts: spec.ranksPerPod must be at most 64"));
}

TEST(LaunchLineTest, EveryFlagHasOneRow) {
  expect_one_answer_per_key(torchrun_table());
  expect_one_answer_per_key(accelerate_launch_table());
  expect_one_answer_per_key(deepspeed_launch_table());
}

TEST(LaunchLineTest, EverySwitchHasARow) {
  const auto has_row = [](const Table& table, const std::string& key) {
    return std::any_of(table.begin(), table.end(), [&](const Row& row) { return row.key == key; });
  };
  for (const std::string& name : torchrun_switches()) {
    EXPECT_TRUE(has_row(torchrun_table(), name)) << name;
  }
  for (const std::string& name : accelerate_switches()) {
    EXPECT_TRUE(has_row(accelerate_launch_table(), name)) << name;
  }
  for (const std::string& name : deepspeed_switches()) {
    EXPECT_TRUE(has_row(deepspeed_launch_table(), name)) << name;
  }
}

TEST(FlagsTest, ReadsValuesAsYamlDoes) {
  EXPECT_EQ(flag_value("4"), 4);
  EXPECT_EQ(flag_value("1e-4"), 1e-4);
  EXPECT_EQ(flag_value("true"), true);
  EXPECT_EQ(flag_value("a: b"), "a: b");
  EXPECT_EQ(flag_value("[x"), "[x");
  EXPECT_EQ(flag_value(""), "");
}

}  // namespace
}  // namespace lockstep::convert
