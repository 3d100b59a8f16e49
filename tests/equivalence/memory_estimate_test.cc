// estimate_memory() against what real ranks report of themselves: their own count of buffers, and
// the resident memory that the kernel counts. Bound: 10 %.
#include <filesystem>
#include <map>
#include <sstream>

#include <gtest/gtest.h>

#include "runtime/common/estimate_memory.h"
#include "runtime/common/teacher_model.h"
#include "tests/support/paths.h"
#include "tests/support/tiny_job.h"

namespace lockstep::equivalence {
namespace {

using common::Strategy;
using support::Gang;
using support::TinyJob;
using Sizes = std::map<std::string, int64_t>;  // buffer_bytes, resident_peak_bytes, ...

constexpr double kBound = 0.10;

// The numbers of the log's line "memory when=WHEN ...".
Sizes read_memory(const std::string& log, const std::string& when) {
  Sizes sizes;
  const std::size_t at = log.find("when=" + when + " ");
  if (at == std::string::npos) return sizes;
  std::istringstream line(log.substr(at, log.find('\n', at) - at));
  for (std::string field; line >> field;) {
    const std::size_t equals = field.find('=');
    const std::string value = field.substr(equals + 1);
    if (value.find_first_not_of("0123456789") == std::string::npos) {
      sizes[field.substr(0, equals)] = std::stoll(value);
    }
  }
  return sizes;
}

class MemoryEstimateTest : public testing::Test {
 protected:
  void SetUp() override {
    support::write_text(folder_.path("corpus.txt"), support::tiny_corpus(40000));
  }

  nlohmann::json tiny(int ranks, const std::string& strategy) const {
    return support::to_json(TinyJob{
        .ranks = ranks, .strategy = strategy, .data = folder_.path("corpus.txt"), .steps = 2});
  }

  // 13 M parameters: 200 MiB of state, beside which libraries and the corpus weigh little.
  nlohmann::json medium(int ranks, const std::string& strategy) const {
    nlohmann::json job = tiny(ranks, strategy);
    job["train"]["model"]["config"].update({{"vocab_size", 2048},
                                            {"hidden_size", 512},
                                            {"intermediate_size", 1376},
                                            {"num_hidden_layers", 4},
                                            {"num_attention_heads", 8},
                                            {"num_key_value_heads", 8},
                                            {"head_dim", 64}});
    job["train"]["batch"] = {{"globalBatchSize", 4}, {"microBatchSize", 1}};
    job["train"]["steps"] = 1;
    return job;
  }

  // Logs of all ranks of a finished run.
  std::vector<std::string> train(const nlohmann::json& job, const std::string& name,
                                 int attempt = 0) const {
    const int ranks = job["ranks"].get<int>();
    Gang gang({.runtime = support::kRuntimeProgram,
               .job = job,
               .folder = folder_.path(name + ".files"),
               .output = folder_.path(name),
               .num_ranks = ranks,
               .attempt = attempt});
    EXPECT_EQ(gang.wait(), std::vector<int>(static_cast<std::size_t>(ranks), 0)) << gang.log(0);
    std::vector<std::string> logs;
    logs.reserve(static_cast<std::size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank) logs.push_back(gang.log(rank));
    return logs;
  }

  static common::MemoryEstimate estimate(const nlohmann::json& job) {
    const nlohmann::json& train = job["train"];
    const std::string name = train["parallelism"]["strategy"].get<std::string>();
    const std::map<std::string, Strategy> strategies = {{"ddp", Strategy::kDdp},
                                                        {"zero1", Strategy::kZero1},
                                                        {"zero2", Strategy::kZero2},
                                                        {"zero3", Strategy::kZero3}};
    return common::estimate_memory(common::decode_with_teacher(train).value(), strategies.at(name),
                                   job["ranks"].get<int64_t>());
  }

  // A file with rows of tokens.
  std::string rows() const {
    std::string lines;
    for (int row = 0; row < 8; ++row) {
      lines += nlohmann::json{{"input_ids", std::vector<int>(48, 7 + row)}}.dump() + "\n";
    }
    const std::string path = folder_.path("rows.jsonl");
    support::write_text(path, lines);
    return path;
  }

  support::TemporaryFolder folder_;
};

TEST_F(MemoryEstimateTest, IsWithinTenPercentOfWhatRanksAllocate) {
  for (const std::string strategy : {"ddp", "zero1", "zero2", "zero3"}) {
    for (const int ranks : {1, 2, 3}) {
      const nlohmann::json job = tiny(ranks, strategy);
      const std::string name = strategy + "-" + std::to_string(ranks);
      const auto estimated = static_cast<double>(estimate(job).buffers());
      int64_t most = 0;
      for (const std::string& log : train(job, name)) {
        most = std::max(most, read_memory(log, "end")["buffer_peak_bytes"]);
      }
      EXPECT_NEAR(static_cast<double>(most), estimated, kBound * estimated) << name;
    }
  }
}

// Weights beside adapters have no master, no gradient and no moment, and no place in a snapshot.
TEST_F(MemoryEstimateTest, AdaptersAreWithinTenPercentOfWhatRanksAllocate) {
  nlohmann::json base = medium(1, "ddp");
  train(base, "base");
  const nlohmann::json config = base["train"]["model"]["config"];
  for (const std::string strategy : {"ddp", "zero1", "zero2", "zero3"}) {
    for (const auto& [ranks, precision] : {std::pair(1, "fp32"), std::pair(2, "bf16")}) {
      nlohmann::json job = medium(ranks, strategy);
      job["train"]["precision"] = precision;
      job["train"]["model"] = {{"path", folder_.path("base/model")}};
      job["train"]["lora"] = {{"rank", 8}};
      const std::string name = strategy + precision;
      const std::vector<std::string> logs = train(job, name);
      job["train"]["model"]["config"] = config;  // as the ranks have read it
      const common::MemoryEstimate memory = estimate(job);
      const auto estimated = static_cast<double>(memory.buffers());
      for (const std::string& log : logs) {
        EXPECT_NEAR(static_cast<double>(read_memory(log, "end")["buffer_peak_bytes"]), estimated,
                    kBound * estimated)
            << name;
      }
      const int64_t state = memory.weights + memory.gradients + memory.optimizer;
      EXPECT_LT(state, common::num_parameters(common::decode_train(job["train"]).model) *
                           (precision == std::string("fp32") ? 5 : 3))
          << name;
    }
  }
}

// A teacher's weights, activations and chunk of logits are among those of the student.
TEST_F(MemoryEstimateTest, ATeacherIsWithinTenPercentOfWhatRanksAllocate) {
  const nlohmann::json base = medium(1, "ddp");
  train(base, "base");
  for (const std::string strategy : {"ddp", "zero1", "zero3"}) {
    for (const auto& [ranks, precision] : {std::pair(1, "fp32"), std::pair(2, "bf16")}) {
      nlohmann::json job = medium(ranks, strategy);
      job["train"]["precision"] = precision;
      job["train"]["task"] = "distill";
      job["train"]["distill"] = {{"teacher", folder_.path("base/model")}};
      job["train"]["data"].update({{"format", "tokens"}, {"train", rows()}});
      job["train"]["model"]["config"]["num_hidden_layers"] = 2;
      const std::string name = "taught-" + strategy + precision;
      const auto estimated = static_cast<double>(estimate(job).buffers());
      for (const std::string& log : train(job, name)) {
        EXPECT_NEAR(static_cast<double>(read_memory(log, "end")["buffer_peak_bytes"]), estimated,
                    kBound * estimated)
            << name;
      }
    }
  }
}

// Model states fall by what the estimate says lies on storage, to the byte, and no snapshot of them
// is in memory either.
TEST_F(MemoryEstimateTest, OffloadTakesTheOptimizersStateOutOfMemory) {
  for (const auto& [strategy, precision] : std::vector<std::pair<std::string, std::string>>{
           {"ddp", "fp32"}, {"zero1", "bf16"}, {"zero3", "fp32"}}) {
    nlohmann::json job = medium(2, strategy);
    job["train"]["precision"] = precision;
    job["train"]["offload"]["nvmePath"] = folder_.path("");
    const std::string log_kept = train(job, strategy + "-kept").front();
    job["train"]["offload"]["optimizer"] = "nvme";
    const common::MemoryEstimate memory = estimate(job);
    ASSERT_GT(memory.nvme, 0);
    for (const std::string& log : train(job, strategy + "-moved")) {
      Sizes end = read_memory(log, "end");
      const auto estimated = static_cast<double>(memory.buffers());
      EXPECT_NEAR(static_cast<double>(end["buffer_peak_bytes"]), estimated, kBound * estimated);
      EXPECT_EQ(read_memory(log_kept, "loaded")["buffer_bytes"] -
                    read_memory(log, "loaded")["buffer_bytes"],
                memory.nvme - memory.windows);
      EXPECT_NE(log.find("part=optimizer bytes=" + std::to_string(memory.nvme) + " "),
                std::string::npos)
          << log;
      const auto added = static_cast<double>(memory.buffers() + memory.snapshot);
      const int64_t growth =
          end["resident_peak_bytes"] - read_memory(log, "start")["resident_bytes"];
      EXPECT_NEAR(static_cast<double>(growth), added, kBound * added) << strategy;
    }
  }
}

TEST_F(MemoryEstimateTest, OffloadTakesActivationsOutOfMemory) {
  nlohmann::json job = medium(2, "zero1");
  job["train"]["model"]["config"]["num_hidden_layers"] = 8;
  job["train"]["offload"]["nvmePath"] = folder_.path("");
  const int64_t kept = estimate(job).activations;
  job["train"]["offload"]["activations"] = "nvme";
  const common::MemoryEstimate memory = estimate(job);
  EXPECT_LT(memory.activations, kept - memory.nvme / 2);
  for (const std::string& log : train(job, "moved")) {
    const auto estimated = static_cast<double>(memory.buffers());
    EXPECT_NEAR(static_cast<double>(read_memory(log, "end")["buffer_peak_bytes"]), estimated,
                kBound * estimated);
    EXPECT_NE(log.find("part=activations bytes=" + std::to_string(memory.nvme) + " "),
              std::string::npos)
        << log;
  }
}

TEST_F(MemoryEstimateTest, KnowsToTheByteWhatEachOptimizerKeeps) {
  nlohmann::json job = tiny(2, "zero1");
  const auto held = [&](const std::string& name) {
    return read_memory(train(job, name).front(), "loaded")["buffer_bytes"];
  };
  const int64_t held_by_adamw = held("adamw");
  const int64_t moments_of_adamw = estimate(job).optimizer;
  for (const double momentum : {0.0, 0.9}) {
    job["train"]["optimizer"] = {{"name", "sgd"}, {"momentum", momentum}};
    EXPECT_EQ(held_by_adamw - held("sgd-" + std::to_string(momentum)),
              moments_of_adamw - estimate(job).optimizer);
  }
}

TEST_F(MemoryEstimateTest, IsWithinTenPercentOfResidentMemoryAndOfItsGrowth) {
  for (const auto& [ranks, precision] :
       std::vector<std::pair<int, std::string>>{{1, "fp32"}, {2, "fp32"}, {2, "bf16"}}) {
    nlohmann::json job = medium(ranks, ranks == 1 ? "ddp" : "zero3");
    job["train"]["precision"] = precision;
    const common::MemoryEstimate memory = estimate(job);
    const auto estimated = static_cast<double>(memory.buffers());
    const auto added = static_cast<double>(memory.buffers() + memory.snapshot);
    const auto total = static_cast<double>(memory.total());
    const std::vector<std::string> logs = train(job, precision + std::to_string(ranks));
    for (const std::string& log : logs) {
      Sizes end = read_memory(log, "end");
      EXPECT_NEAR(static_cast<double>(end["buffer_peak_bytes"]), estimated, kBound * estimated);
      const int64_t growth =
          end["resident_peak_bytes"] - read_memory(log, "start")["resident_bytes"];
      EXPECT_NEAR(static_cast<double>(growth), added, kBound * added)
          << ranks << " ranks, " << precision;
      EXPECT_NEAR(static_cast<double>(end["resident_peak_bytes"]), total, kBound * total);
    }
  }
}

TEST_F(MemoryEstimateTest, CountsLibTorchWhereGlooIsAskedFor) {
  nlohmann::json job = tiny(2, "ddp");
  const auto resident = [&](const std::string& backend) {
    job["train"]["communication"]["backend"] = backend;
    return static_cast<double>(read_memory(train(job, backend).front(), "start")["resident_bytes"]);
  };
  const double without = resident("auto");
  const auto estimated = static_cast<double>(estimate(job).process);
  const double with = resident("gloo");
  const double more = static_cast<double>(estimate(job).process) - estimated;
  EXPECT_NEAR(with - without, more, kBound * with);
}

TEST_F(MemoryEstimateTest, CountsComputeCopiesAndWhatFrozenUnitsLack) {
  const auto expect_within_bound = [&](const nlohmann::json& job, const std::string& name) {
    const auto estimated = static_cast<double>(estimate(job).buffers());
    int64_t most = 0;
    for (const std::string& log : train(job, name)) {
      most = std::max(most, read_memory(log, "end")["buffer_peak_bytes"]);
    }
    EXPECT_NEAR(static_cast<double>(most), estimated, kBound * estimated) << name;
  };
  for (const std::string strategy : {"ddp", "zero1", "zero2", "zero3"}) {
    for (const int ranks : {1, 3, 4}) {
      nlohmann::json job = tiny(ranks, strategy);
      job["train"]["precision"] = ranks == 1 ? "fp16" : "bf16";
      job["train"]["activationCheckpointing"] = ranks == 3 ? "selective" : "none";
      expect_within_bound(job, strategy + "-" + std::to_string(ranks));
    }
  }
  nlohmann::json hybrid = tiny(4, "zero3");
  hybrid["train"]["precision"] = "bf16";
  hybrid["train"]["parallelism"]["shardRanks"] = 2;
  expect_within_bound(hybrid, "hybrid");
  for (const std::string strategy : {"ddp", "zero3"}) {
    nlohmann::json frozen = tiny(2, strategy);
    frozen["train"]["model"]["frozen"] = {"embedding", "layer.1"};
    expect_within_bound(frozen, "frozen-" + strategy);
  }
}

TEST_F(MemoryEstimateTest, CountsExpertsAndThePairsThatTheyCompute) {
  for (const auto& [strategy, ranks, precision, checkpointing] :
       std::vector<std::tuple<std::string, int, std::string, std::string>>{
           {"ddp", 1, "fp32", "none"},
           {"zero1", 2, "bf16", "selective"},
           {"zero3", 3, "fp32", "block"},
           {"zero3", 2, "bf16", "none"}}) {
    nlohmann::json job = tiny(ranks, strategy);
    job["train"]["precision"] = precision;
    job["train"]["activationCheckpointing"] = checkpointing;
    job["train"]["model"]["config"].update({{"model_type", "qwen3_moe"},
                                            {"num_local_experts", 6},
                                            {"num_experts_per_tok", 3},
                                            {"moe_intermediate_size", 40}});
    const auto estimated = static_cast<double>(estimate(job).buffers());
    const std::string name = std::string("experts-").append(strategy).append(precision);
    for (const std::string& log : train(job, name)) {
      EXPECT_NEAR(static_cast<double>(read_memory(log, "end")["buffer_peak_bytes"]), estimated,
                  kBound * estimated)
          << name;
    }
  }
}

TEST_F(MemoryEstimateTest, CountsWhatATiedHeadBorrowsAndWhatCheckpointingSaves) {
  nlohmann::json job = tiny(2, "zero3");
  job["train"]["model"]["config"]["tie_word_embeddings"] = true;
  job["train"]["activationCheckpointing"] = "selective";
  const auto estimated = static_cast<double>(estimate(job).buffers());
  for (const std::string& log : train(job, "tied")) {
    EXPECT_NEAR(static_cast<double>(read_memory(log, "end")["buffer_peak_bytes"]), estimated,
                kBound * estimated);
  }
}

// Neither initial weights, pretrained ones nor a checkpoint is ever whole in a rank that owns a
// slice: until the first step resident memory grows by the rank's own state and the buffers of a
// step only.
TEST_F(MemoryEstimateTest, LoadingPeaksAtTheRanksOwnShard) {
  nlohmann::json job = medium(4, "zero3");
  job["train"]["checkpoint"] = {{"everySteps", 1}};
  const common::MemoryEstimate memory = estimate(job);
  const auto loaded = static_cast<double>(memory.buffers() - memory.partial_sums);
  const auto whole_weights =
      static_cast<double>(4 * common::num_parameters(common::decode_train(job["train"]).model));
  ASSERT_GT(whole_weights, 3 * kBound * loaded) << "a whole copy would not be seen";
  const auto expect_loaded_within_bound = [&](const std::vector<std::string>& logs) {
    for (const std::string& log : logs) {
      Sizes sizes = read_memory(log, "loaded");
      EXPECT_NEAR(static_cast<double>(sizes["buffer_peak_bytes"]), loaded, kBound * loaded);
      const int64_t growth =
          sizes["resident_peak_bytes"] - read_memory(log, "start")["resident_bytes"];
      EXPECT_LT(static_cast<double>(growth), (1 + kBound) * loaded);
    }
  };
  expect_loaded_within_bound(train(job, "initial"));
  job["train"]["steps"] = 2;
  std::filesystem::remove(folder_.path("initial") + "/finished.json");
  const std::vector<std::string> resumed = train(job, "initial", 1);
  EXPECT_NE(resumed[0].find("resumed"), std::string::npos) << resumed[0];
  expect_loaded_within_bound(resumed);
  job["train"]["model"] = {{"path", folder_.path("initial") + "/model"}};
  const std::vector<std::string> pretrained = train(job, "pretrained");
  EXPECT_NE(pretrained[0].find("pretrained"), std::string::npos) << pretrained[0];
  expect_loaded_within_bound(pretrained);
}

}  // namespace
}  // namespace lockstep::equivalence
