// The promise of the product: weights and losses are the same bits on any number of ranks, with any
// strategy and backend, and after every kind of interruption.
#include "tests/equivalence/same_bits.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>

#include <gtest/gtest.h>
#include <signal.h>

#include "runtime/checkpoint/safetensors.h"

namespace lockstep::equivalence {
namespace {

// How a run of the cover goes on after its checkpoint of step 8: under another strategy and rank
// count, offloaded if it was not, and the other way round.
struct Continuation {
  Sharing before;
  Sharing after;
};

const std::vector<Continuation>& continuations() {
  static const std::vector<Continuation> all = {
      {{"ddp", 0, 2}, {"zero1", 0, 3}},   {{"zero1", 0, 4}, {"zero2", 0, 2}},
      {{"zero2", 0, 3}, {"zero3", 0, 8}}, {{"zero3", 0, 4}, {"zero1", 0, 2}},
      {{"zero3", 2, 4}, {"ddp", 0, 1}},   {{"zero1", 0, 2}, {"zero3", 2, 8}}};
  return all;
}

const Continuation* continuation_of(const TinyJob& job) {
  for (const Continuation& one : continuations()) {
    if (one.before.strategy == job.strategy && one.before.ranks == job.ranks &&
        one.before.shard_ranks == job.shard_ranks) {
      return &one;
    }
  }
  return nullptr;
}

// Every way of sharing once, with the other choices spread so that every two of them meet; which
// CoverTest holds. same_bits_full_test runs products.
std::vector<TinyJob> cover() {
  std::vector<TinyJob> jobs;
  std::map<std::string, std::size_t> strategies;  // in order of appearance
  std::size_t place = 0;                          // among the runs of a strategy
  for (const Sharing& sharing : all_sharings()) {
    const std::size_t run = jobs.size();
    const bool is_new = strategies.emplace(name_of(sharing), strategies.size()).second;
    place = is_new ? 0 : place + 1;
    const std::size_t strategy = strategies.at(name_of(sharing));
    TinyJob job = shared_by(sharing);
    job.precision = all_precisions()[(strategy + place) % 3];
    job.activation_checkpointing = all_checkpointings()[(strategy + 2 * place) % 3];
    job.backend = run % 2 == 0 ? "shared-memory" : "gloo";
    job.bucket_bytes = run / 2 % 2 == 0 ? 65536 : 26214400;
    job.prefetch_units = std::array{0, 1, 3}[(run / 3 + 2 * strategy + place) % 3];
    job.offload_optimizer = all_offloads()[(run / 2 + place) % 2];
    job.offload_activations = all_offloads()[run / 3 % 2];
    jobs.push_back(std::move(job));
  }
  return jobs;
}

TEST(CoverTest, EveryTwoChoicesMeet) {
  const std::vector<std::vector<std::string>> choices = {
      {"ddp", "zero1", "zero2", "zero3", "hybrid"},
      {"1", "2", "3", "4", "8"},
      all_precisions(),
      all_checkpointings(),
      {"shared-memory", "gloo"},
      {"65536", "26214400"},
      {"0", "1", "3"},
      all_offloads(),
      all_offloads()};
  std::set<std::vector<std::string>> met;
  for (const TinyJob& job : cover()) {
    const std::vector<std::string> chosen = {name_of({job.strategy, job.shard_ranks, job.ranks}),
                                             std::to_string(job.ranks),
                                             job.precision,
                                             job.activation_checkpointing,
                                             job.backend,
                                             std::to_string(job.bucket_bytes),
                                             std::to_string(job.prefetch_units),
                                             job.offload_optimizer,
                                             job.offload_activations};
    for (std::size_t a = 0; a < chosen.size(); ++a) {
      for (std::size_t b = a + 1; b < chosen.size(); ++b) {
        met.insert({std::to_string(a), chosen[a], std::to_string(b), chosen[b]});
      }
    }
  }
  for (std::size_t a = 0; a < choices.size(); ++a) {
    for (std::size_t b = a + 1; b < choices.size(); ++b) {
      for (const std::string& one : choices[a]) {
        for (const std::string& other : choices[b]) {
          // Groups of ranks need more than one of them, of two ranks or more.
          if (one == "hybrid" && a == 0 && b == 1 && other != "4" && other != "8") continue;
          EXPECT_TRUE(met.contains({std::to_string(a), one, std::to_string(b), other}))
              << one << " never meets " << other;
        }
      }
    }
  }
}

TEST_F(SameBitsTest, OnAnyRankCountStrategyPrecisionAndBackend) {
  train_references();
  EXPECT_NE(read_curve(folder_.path("bf16")), read_curve(folder_.path("fp16")));
  EXPECT_NE(read_curve(folder_.path("bf16")), read_curve(folder_.path("fp32")));
  for (const TinyJob& job : cover()) {
    if (continuation_of(job) == nullptr) forget(expect_same_bits_of(job));
  }
}

// Shared memory inside hosts and slices across them; or Gloo, where hosts hold 3 and 1 ranks.
TEST_F(SameBitsTest, OnAnyGroupingOfRanksIntoHosts) {
  train({.ranks = 1, .steps = 4}, "reference");
  struct Case {
    std::vector<int> host_of;
    TinyJob job;
    std::string backend;
  };
  const std::string two_levels = "shared-memory+gloo";
  for (const Case& one : std::vector<Case>{
           {{0, 0, 1, 1}, {.ranks = 4, .strategy = "ddp"}, two_levels},
           {{0, 0, 1, 1}, {.ranks = 4, .strategy = "zero3", .shard_ranks = 2}, two_levels},
           {{0, 0, 0, 1, 1, 1}, {.ranks = 6, .strategy = "zero2"}, two_levels},
           {{0, 0, 0, 1}, {.ranks = 4, .strategy = "zero1"}, "gloo"},
       }) {
    TinyJob job = one.job;
    job.steps = 4;
    const std::string name = job.strategy + std::to_string(job.ranks);
    GangOptions grouped = options(job, name);
    for (int rank = 0; rank < job.ranks; ++rank) {
      const std::string host =
          folder_.path("host-" + std::to_string(one.host_of[static_cast<std::size_t>(rank)]));
      std::filesystem::create_directories(host);
      grouped.rank_env[rank]["LOCKSTEP_SHM_DIR"] = host;
    }
    Gang gang(grouped);
    EXPECT_EQ(gang.wait(), std::vector<int>(one.host_of.size(), 0)) << gang.log(0);
    for (int rank = 0; rank < job.ranks; ++rank) {
      EXPECT_NE(gang.log(rank).find("backend=" + one.backend + " "), std::string::npos)
          << gang.log(rank);
    }
    expect_same(name, "reference");
  }
}

TEST_F(SameBitsTest, WithTiedEmbeddings) {
  for (const std::string precision : {"fp32", "bf16"}) {
    TinyJob job = {.ranks = 1, .tie_word_embeddings = true, .precision = precision};
    train(job, precision);
    for (const std::string strategy : {"ddp", "zero3"}) {
      job.strategy = strategy;
      job.ranks = (strategy == "ddp") == (precision == "fp32") ? 3 : 4;
      train(job, precision + strategy);
      expect_same(precision + strategy, precision);
    }
  }
}

// The first and a middle unit, so that backward ends early and skips one.
// One family of every structure: norms before with windows and biases, norms after, both with
// soft-caps, LayerNorm with learned positions.
TEST_F(SameBitsTest, WithOtherFamilies) {
  const std::map<std::string, nlohmann::json> families = {
      {"qwen2", {{"use_sliding_window", true}, {"sliding_window", 17}, {"max_window_layers", 1}}},
      {"olmo2", nlohmann::json::object()},
      {"gemma2", {{"sliding_window", 17}, {"query_pre_attn_scalar", 12}}},
      {"gpt2", {{"num_key_value_heads", 4}}}};
  int ranks = 2;
  for (const auto& [family, fields] : families) {
    TinyJob job = {.ranks = 1, .steps = 4, .precision = ranks % 2 == 0 ? "fp32" : "bf16"};
    nlohmann::json config = fields;
    config["model_type"] = family;
    job.more = {{"model", {{"config", config}}}};
    train(job, family);
    job.ranks = ranks;
    job.strategy = ranks == 3 ? "ddp" : "zero3";
    job.activation_checkpointing = ranks == 2 ? "selective" : "none";
    train(job, family + "-shared");
    expect_same(family + "-shared", family);
    ranks = ranks == 4 ? 2 : ranks + 1;
  }
}

TEST_F(SameBitsTest, WithFrozenUnits) {
  TinyJob job = {.ranks = 1, .more = {{"model", {{"frozen", {"embedding", "layer.1"}}}}}};
  train(job, "reference");
  job.steps = 1;
  train(job, "one step");
  job.steps = 12;
  const auto reference = runtime::SafetensorsReader::open(weights_path("reference"));
  const auto early = runtime::SafetensorsReader::open(weights_path("one step"));
  ASSERT_TRUE(reference && early);
  const auto bytes_of = [](const runtime::SafetensorsReader& file, const std::string& name) {
    const runtime::StoredTensor& tensor = file.tensors().at(name);
    std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.num_bytes));
    EXPECT_TRUE(file.read(tensor, 0, bytes));
    return bytes;
  };
  for (const auto& [name, tensor] : reference->tensors()) {
    const bool is_frozen =
        name.starts_with("model.embed_tokens") || name.starts_with("model.layers.1.");
    EXPECT_EQ(bytes_of(*reference, name) == bytes_of(*early, name), is_frozen) << name;
  }
  for (const Sharing& sharing : std::vector<Sharing>{
           {"ddp", 0, 3}, {"zero1", 0, 2}, {"zero2", 0, 4}, {"zero3", 0, 3}, {"zero3", 2, 4}}) {
    const std::string name = name_of(sharing) + std::to_string(sharing.ranks);
    job.ranks = sharing.ranks;
    job.strategy = sharing.strategy;
    job.shard_ranks = sharing.shard_ranks;
    train(job, name);
    expect_same(name, "reference");
  }
  // `job` is hybrid on four ranks by now.
  forget_after_step("zero33", 8);
  train(job, "zero33", 1);
  expect_same("zero33", "reference");
}

// The rest of the cover: saved at step 8 by one way of sharing, finished by another.
TEST_F(SameBitsTest, AndAfterResumingUnderAnotherStrategyRankCountAndOffload) {
  train_references();
  std::size_t num_resumed = 0;
  for (const TinyJob& before : cover()) {
    const Continuation* const continuation = continuation_of(before);
    if (continuation == nullptr) continue;
    const std::string name = expect_same_bits_of(before);
    forget_after_step(name, 8);
    TinyJob after = shared_by(continuation->after);
    after.precision = before.precision;
    after.offload_optimizer = before.offload_optimizer == "none" ? "nvme" : "none";
    train(after, name, 1);
    expect_same(name, before.precision);
    ++num_resumed;
  }
  EXPECT_EQ(num_resumed, continuations().size());
}

TEST_F(SameBitsTest, AfterKillingARankInMidRun) {
  const TinyJob job{.ranks = 3, .strategy = "zero3", .steps = 80};
  train({.ranks = 1, .steps = 80}, "reference");
  const std::vector<int> exit_codes = interrupt(job, "killed", 1, SIGKILL);
  EXPECT_EQ(exit_codes, (std::vector<int>{83, -SIGKILL, 83})) << "survivors report PeerLost";
  train(job, "killed", 1);
  expect_same("killed", "reference");
}

TEST_F(SameBitsTest, AfterStoppingAtFourRanksAndResumingAtTwo) {
  train({.ranks = 1, .steps = 80}, "reference");
  const TinyJob stopped{.ranks = 4, .strategy = "zero3", .steps = 80};
  EXPECT_EQ(interrupt(stopped, "stopped", 2, SIGTERM), (std::vector<int>{85, 85, 85, 85}))
      << "one rank's wish stops all, at the same step";
  train({.ranks = 2, .strategy = "ddp", .steps = 80}, "stopped", 1);
  expect_same("stopped", "reference");
}

TEST_F(SameBitsTest, WithMomentumAloneAfterAStopAndAResumeElsewhere) {
  train({.ranks = 1, .steps = 80, .optimizer = "sgd"}, "reference");
  const TinyJob stopped{.ranks = 3, .strategy = "zero3", .steps = 80, .optimizer = "sgd"};
  EXPECT_EQ(interrupt(stopped, "stopped", 1, SIGTERM), (std::vector<int>{85, 85, 85}));
  train({.ranks = 2, .strategy = "ddp", .steps = 80, .optimizer = "sgd"}, "stopped", 1);
  expect_same("stopped", "reference");
}

// The checkpoint of another output, by name; once there are checkpoints of its own, those.
TEST_F(SameBitsTest, FromANamedCheckpointOfAnotherOutput) {
  const TinyJob first{.ranks = 2, .strategy = "zero1"};
  train(first, "reference");
  const TinyJob second{.ranks = 3, .strategy = "zero3"};
  GangOptions named = options(second, "second");
  named.job["train"]["checkpoint"]["resume"] = folder_.path("reference") + "/checkpoints/step-8";
  Gang gang(named);
  EXPECT_EQ(gang.wait(), (std::vector<int>{0, 0, 0})) << gang.log(0);
  EXPECT_TRUE(read_text(folder_.path("second") + "/model/model.safetensors") ==
              read_text(folder_.path("reference") + "/model/model.safetensors"));
  const std::vector<std::string> whole = read_curve(folder_.path("reference"));
  EXPECT_EQ(read_curve(folder_.path("second")),
            std::vector<std::string>(whole.begin() + 8, whole.end()));

  std::filesystem::remove(folder_.path("second") + "/finished.json");
  named.attempt = 1;
  Gang restart(named);
  EXPECT_EQ(restart.wait(), (std::vector<int>{0, 0, 0})) << restart.log(0);
  EXPECT_NE(restart.log(0).find(folder_.path("second") + "/checkpoints/step-12"), std::string::npos)
      << restart.log(0);
}

TEST_F(SameBitsTest, AfterTheNewestCheckpointWasTruncated) {
  train({.ranks = 1, .steps = 80}, "reference");
  const TinyJob job{.ranks = 2, .strategy = "zero3", .steps = 80};
  interrupt(job, "torn", 0, SIGTERM);
  int64_t newest = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(folder_.path("torn") + "/checkpoints")) {
    const std::string step = entry.path().filename().string();
    if (step.starts_with("step-")) newest = std::max<int64_t>(newest, std::stoll(step.substr(5)));
  }
  const std::string shard =
      folder_.path("torn") + "/checkpoints/step-" + std::to_string(newest) + "/rank-1.bin";
  std::filesystem::resize_file(shard, std::filesystem::file_size(shard) / 2);

  Gang gang(options(job, "torn", 1));
  ASSERT_EQ(gang.wait(), (std::vector<int>{0, 0})) << gang.log(0);
  EXPECT_NE(gang.log(0).find("checkpoint damaged, using an older one"), std::string::npos)
      << gang.log(0);
  EXPECT_NE(gang.log(0).find("rank-1.bin"), std::string::npos) << gang.log(0);
  expect_same("torn", "reference");
}

TEST_F(SameBitsTest, SigtermBeforeTheFirstStepEndsAtOnceAndSigintIsIgnored) {
  GangOptions alone = options({.ranks = 1}, "waiting");
  alone.job["ranks"] = 2;
  alone.env["WORLD_SIZE"] = "2";  // rank 1 never comes: rank 0 waits for it
  Gang gang(alone);
  ASSERT_TRUE(gang.wait_until([&] { return gang.log(0).find("serving") != std::string::npos; }));
  gang.send(0, SIGINT);
  gang.send(0, SIGTERM);
  EXPECT_EQ(gang.wait(), std::vector<int>{85}) << gang.log(0);
  ASSERT_TRUE(gang.last_words(0));
  EXPECT_EQ(gang.last_words(0)->reason, "Preempted");
}

TEST_F(SameBitsTest, ARestartOfAFinishedRunSucceedsAndTouchesNothing) {
  train({.ranks = 2}, "done");
  const auto written = std::filesystem::last_write_time(folder_.path("done") + "/metrics.jsonl");
  train({.ranks = 2}, "done", 1);
  EXPECT_EQ(std::filesystem::last_write_time(folder_.path("done") + "/metrics.jsonl"), written);
}

}  // namespace
}  // namespace lockstep::equivalence
