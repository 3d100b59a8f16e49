// Runs of a tiny job with faults in their ranks, beside one that is never disturbed.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/faults/rank_forks.h"
#include "tests/support/tiny_job.h"

namespace lockstep::faults {

struct Sharing {
  const char* name = "";
  const char* strategy = "ddp";
  int ranks = 1;
  int shard_ranks = 0;
};
const std::vector<Sharing>& all_sharings();

class FaultyRuns {
 public:
  // A rank that is stopped, or that never comes to the meeting, is waited for this long.
  static constexpr std::chrono::seconds kTimeout{5};
  static constexpr int64_t kSteps = 40;
  static constexpr int64_t kCheckpointEvery = 2;

  // Trains the undisturbed run.
  FaultyRuns();

  // One attempt of `run`. Keeps a reference to this object.
  support::GangOptions options(const std::string& run, const Sharing& sharing, int attempt,
                               const std::string& backend = "auto");
  // Has the rank of `options` do what faulty_runtime.cc reads in `how`. Returns the path of a file
  // that is there once it was done.
  std::string strike(support::GangOptions& options, int rank, nlohmann::json how) const;

  std::string path(const std::string& run) const { return folder_.path(run); }
  // The newest published step; 0 if there is none.
  int64_t newest_checkpoint(const std::string& run) const;
  // Adds a test failure if the run has other weights or losses than the undisturbed one.
  void expect_undisturbed_bits(const std::string& run) const;

 private:
  support::TemporaryFolder folder_;
  RankForks forks_;
};

}  // namespace lockstep::faults
