// Runs of real ranks whose weights and losses are compared bit by bit.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/paths.h"
#include "tests/support/tiny_job.h"

namespace lockstep::equivalence {

using support::Gang;
using support::GangOptions;
using support::read_curve;
using support::read_text;
using support::TemporaryFolder;
using support::tiny_corpus;
using support::TinyJob;

// Enough that offloaded activations leave memory.
constexpr int kLayers = 4;

// Ways to share 24 micro-batches; hybrid is zero3 in groups of two ranks or more.
struct Sharing {
  std::string strategy;
  int shard_ranks = 0;
  int ranks = 1;
};

inline std::vector<Sharing> all_sharings() {
  std::vector<Sharing> sharings;
  for (const std::string strategy : {"ddp", "zero1", "zero2", "zero3"}) {
    for (const int ranks : {1, 2, 3, 4, 8}) sharings.push_back({strategy, 0, ranks});
  }
  sharings.push_back({"zero3", 2, 4});
  sharings.push_back({"zero3", 2, 8});
  sharings.push_back({"zero3", 4, 8});
  sharings.push_back({"zero3", 3, 6});
  return sharings;
}

// The strategy, or "hybrid".
inline std::string name_of(const Sharing& sharing) {
  return sharing.shard_ranks > 0 ? "hybrid" : sharing.strategy;
}

inline const std::vector<std::string>& all_precisions() {
  static const std::vector<std::string> precisions = {"fp32", "bf16", "fp16"};
  return precisions;
}

inline const std::vector<std::string>& all_checkpointings() {
  static const std::vector<std::string> modes = {"none", "block", "selective"};
  return modes;
}

inline const std::vector<std::string>& all_offloads() {
  static const std::vector<std::string> targets = {"none", "nvme"};
  return targets;
}

inline TinyJob shared_by(const Sharing& sharing) {
  return {.ranks = sharing.ranks,
          .strategy = sharing.strategy,
          .shard_ranks = sharing.shard_ranks,
          .micro_batches = 24,
          .layers = kLayers};
}

class SameBitsTest : public testing::Test {
 protected:
  void SetUp() override { support::write_text(folder_.path("corpus.txt"), tiny_corpus(40000)); }

  GangOptions options(const TinyJob& job, const std::string& name, int attempt = 0) const {
    TinyJob with_data = job;
    with_data.data = folder_.path("corpus.txt");
    with_data.nvme_path = folder_.path("");
    return {.runtime = support::kRuntimeProgram,
            .job = to_json(with_data),
            .folder = folder_.path(name + ".files"),
            .output = folder_.path(name),
            .num_ranks = job.ranks,
            .attempt = attempt};
  }

  void train(const TinyJob& job, const std::string& name, int attempt = 0) const {
    Gang gang(options(job, name, attempt));
    EXPECT_EQ(gang.wait(), std::vector<int>(static_cast<std::size_t>(job.ranks), 0)) << gang.log(0);
  }

  // Starts an attempt and sends `signal_number` to `rank` in mid-run, after a checkpoint. Where the
  // machine let the run end before the signal, the run is begun anew.
  std::vector<int> interrupt(const TinyJob& job, const std::string& name, int rank,
                             int signal_number) const {
    constexpr int kMaxRuns = 20;
    for (int run = 0; run < kMaxRuns; ++run) {
      std::filesystem::remove_all(folder_.path(name));
      Gang gang(options(job, name));
      gang.wait_until([&] {
        return std::filesystem::exists(folder_.path(name) + "/checkpoints/step-8/manifest.json");
      });
      gang.send(rank, signal_number);
      const std::vector<int> exit_codes = gang.wait();
      if (exit_codes[static_cast<std::size_t>(rank)] != 0) return exit_codes;
    }
    ADD_FAILURE() << "the signal never came in mid-run";
    return {};
  }

  // As if the run had been lost after its checkpoint of `step`.
  void forget_after_step(const std::string& name, int64_t step) const {
    const std::filesystem::path output = folder_.path(name);
    ASSERT_TRUE(std::filesystem::exists(output / "checkpoints" / ("step-" + std::to_string(step))));
    std::filesystem::remove(output / "finished.json");
    std::filesystem::remove_all(output / "model");
    for (int64_t later = step + 1; later <= 12; ++later) {
      std::filesystem::remove_all(output / "checkpoints" / ("step-" + std::to_string(later)));
    }
  }

  // One rank's runs of 24 micro-batches, each in the folder of its precision's name.
  void train_references() const {
    for (const std::string& precision : all_precisions()) {
      train({.ranks = 1, .micro_batches = 24, .layers = kLayers, .precision = precision},
            precision);
      ASSERT_EQ(read_curve(folder_.path(precision)).size(), 12u);
    }
  }

  // Trains as a job of 24 micro-batches does and compares with the reference of its precision.
  // Returns the name of its folder.
  std::string expect_same_bits_of(const TinyJob& job) const {
    const std::string name =
        job.precision + "-" + job.strategy + "-" + std::to_string(job.shard_ranks) + "-" +
        std::to_string(job.ranks) + "-" + job.activation_checkpointing + "-" + job.backend + "-" +
        std::to_string(job.bucket_bytes) + "-" + std::to_string(job.prefetch_units) + "-" +
        job.offload_optimizer + "-" + job.offload_activations;
    train(job, name);
    expect_same(name, job.precision);
    return name;
  }

  void forget(const std::string& name) const {
    std::filesystem::remove_all(folder_.path(name));
    std::filesystem::remove_all(folder_.path(name + ".files"));
  }

  std::string weights_path(const std::string& name) const {
    return folder_.path(name) + "/model/model.safetensors";
  }

  void expect_same(const std::string& name, const std::string& reference) const {
    const std::string weights = read_text(weights_path(reference));
    ASSERT_FALSE(weights.empty());
    EXPECT_TRUE(read_text(weights_path(name)) == weights)
        << name << ": weights differ from " << reference;
    EXPECT_EQ(read_curve(folder_.path(name)), read_curve(folder_.path(reference)));
  }

  TemporaryFolder folder_;
};

}  // namespace lockstep::equivalence
