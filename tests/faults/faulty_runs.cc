#include "tests/faults/faulty_runs.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include <gtest/gtest.h>

#include "tests/support/paths.h"

namespace lockstep::faults {

using support::Gang;
using support::GangOptions;
using support::read_curve;
using support::read_text;

const std::vector<Sharing>& all_sharings() {
  static const std::vector<Sharing> sharings = {
      {"ddp", "ddp", 2}, {"zero1", "zero1", 2}, {"zero2", "zero2", 2}, {"zero3", "zero3", 3}};
  return sharings;
}

FaultyRuns::FaultyRuns() {
  support::write_text(path("corpus.txt"), support::tiny_corpus(40000));
  Gang gang(options("undisturbed", {"ddp", "ddp", 1}, 0));
  EXPECT_EQ(gang.wait(), std::vector<int>{0}) << gang.log(0);
}

GangOptions FaultyRuns::options(const std::string& run, const Sharing& sharing, int attempt,
                                const std::string& backend) {
  GangOptions options{.runtime = support::kFaultyRuntime,
                      .job = support::to_json({.ranks = sharing.ranks,
                                               .strategy = sharing.strategy,
                                               .shard_ranks = sharing.shard_ranks,
                                               .backend = backend,
                                               .data = path("corpus.txt"),
                                               .steps = kSteps,
                                               .checkpoint_every = kCheckpointEvery}),
                      .folder = path(run + ".files"),
                      .output = path(run),
                      .num_ranks = sharing.ranks,
                      .attempt = attempt,
                      .launch = [this](const auto& env, const std::string& log) {
                        return forks_.launch(env, log);
                      }};
  options.job["train"]["communication"]["timeoutSeconds"] = kTimeout.count();
  return options;
}

std::string FaultyRuns::strike(GangOptions& options, int rank, nlohmann::json how) const {
  std::string mark = options.folder + "/struck-" + std::to_string(options.attempt);
  how["mark"] = mark;
  options.rank_env[rank]["LOCKSTEP_TEST_FAULT"] = how.dump();
  return mark;
}

int64_t FaultyRuns::newest_checkpoint(const std::string& run) const {
  int64_t newest = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(path(run) + "/checkpoints", error), end;
       !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with("step-")) newest = std::max<int64_t>(newest, std::stoll(name.substr(5)));
  }
  return newest;
}

void FaultyRuns::expect_undisturbed_bits(const std::string& run) const {
  const auto weights = [this](const std::string& name) {
    return read_text(path(name) + "/model/model.safetensors");
  };
  EXPECT_FALSE(weights("undisturbed").empty());
  EXPECT_TRUE(weights(run) == weights("undisturbed")) << "other weights";
  EXPECT_EQ(read_curve(path(run)), read_curve(path("undisturbed")));
}

}  // namespace lockstep::faults
