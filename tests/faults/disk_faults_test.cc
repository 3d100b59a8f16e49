// A full disk, torn writes, flipped bits and slow peers, as runs of ranks.
#include <array>
#include <filesystem>
#include <memory>

#include <gtest/gtest.h>
#include <signal.h>

#include "tests/faults/faulty_runs.h"

namespace lockstep::faults {
namespace {

namespace fs = std::filesystem;
using common::ExitCode;
using support::Gang;
using support::GangOptions;
using support::read_text;

constexpr Sharing kSharing = {"zero3", "zero3", 2};

class DiskFaultsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { runs = std::make_unique<FaultyRuns>(); }
  static void TearDownTestSuite() { runs.reset(); }

  // An attempt that nothing happens to.
  void finish(const std::string& run, int attempt) const {
    Gang gang(runs->options(run, kSharing, attempt));
    EXPECT_EQ(gang.wait(), (std::vector<int>{0, 0})) << gang.log(0);
    runs->expect_undisturbed_bits(run);
  }
  // A run that is lost once all its steps are saved.
  void lose_the_end(const std::string& run) const {
    Gang gang(runs->options(run, kSharing, 0));
    ASSERT_EQ(gang.wait(), (std::vector<int>{0, 0})) << gang.log(0);
    fs::remove(runs->path(run) + "/finished.json");
    fs::remove_all(runs->path(run) + "/model");
  }
  std::string shard(const std::string& run, int64_t step, int rank) const {
    return runs->path(run) + "/checkpoints/step-" + std::to_string(step) + "/rank-" +
           std::to_string(rank) + ".bin";
  }
  static void flip_a_bit(const std::string& path) {
    std::string bytes = read_text(path);
    ASSERT_GT(bytes.size(), 1000u);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    support::write_text(path, bytes);
  }
  static std::string message(const Gang& gang, int rank) {
    const auto words = gang.last_words(rank);
    return words ? words->message : "";
  }

  static inline std::unique_ptr<FaultyRuns> runs;
};

// Files that a run writes, by whom, and when.
struct Written {
  const char* name;
  const char* path;
  int rank;
  int64_t step;  // or later
};
constexpr std::array kWritten = {
    Written{"shard", "/rank-1.bin", 1, 5}, Written{"manifest", "/manifest.json", 0, 5},
    Written{"metrics", "/metrics.jsonl", 0, 5}, Written{"model", "model.safetensors", 1, 0},
    Written{"end", "finished.json", 0, 0}};

nlohmann::json when_writing(const Written& file, const char* action) {
  return {{"at", "write"}, {"what", file.path}, {"step", file.step}, {"do", action}};
}

TEST_F(DiskFaultsTest, AFullDiskEndsTheRunWithThePathAndSpaceLetsItGoOn) {
  for (const Written& file : kWritten) {
    SCOPED_TRACE(file.name);
    const std::string run = std::string("full-") + file.name;
    GangOptions options = runs->options(run, kSharing, 0);
    const std::string mark = runs->strike(options, file.rank, when_writing(file, "full"));
    Gang gang(options);
    const std::vector<int> codes = gang.wait();
    EXPECT_TRUE(fs::exists(mark));
    const int other = 1 - file.rank;
    EXPECT_EQ(codes[static_cast<std::size_t>(file.rank)],
              static_cast<int>(ExitCode::kOutputUnwritable))
        << gang.log(file.rank);
    // While the disk thread meets the full disk, training may meet it too, in another file.
    EXPECT_NE(message(gang, file.rank).find(runs->path(run)), std::string::npos)
        << message(gang, file.rank);
    EXPECT_NE(message(gang, file.rank).find("No space left on device"), std::string::npos);
    EXPECT_EQ(codes[static_cast<std::size_t>(other)], static_cast<int>(ExitCode::kPeerLost))
        << gang.log(other);
    EXPECT_NE(message(gang, other).find("rank " + std::to_string(file.rank)), std::string::npos)
        << message(gang, other);
    EXPECT_GE(runs->newest_checkpoint(run), file.step == 0 ? FaultyRuns::kSteps : 2);
    finish(run, 1);
  }
}

TEST_F(DiskFaultsTest, AWriteThatIsTornByADeathLosesNothingThatWasPublished) {
  for (const Written& file : kWritten) {
    SCOPED_TRACE(file.name);
    const std::string run = std::string("torn-") + file.name;
    GangOptions options = runs->options(run, kSharing, 0);
    const std::string mark = runs->strike(options, file.rank, when_writing(file, "tear"));
    Gang gang(options);
    const std::vector<int> codes = gang.wait();
    EXPECT_TRUE(fs::exists(mark));
    EXPECT_EQ(codes[static_cast<std::size_t>(file.rank)], -SIGKILL);
    EXPECT_EQ(codes[static_cast<std::size_t>(1 - file.rank)],
              static_cast<int>(ExitCode::kPeerLost));
    EXPECT_GE(runs->newest_checkpoint(run), file.step == 0 ? FaultyRuns::kSteps : 2);
    finish(run, 1);
  }
}

TEST_F(DiskFaultsTest, AFlippedBitInAShardIsNamedAndTheOlderCheckpointTaken) {
  const std::string run = "flipped";
  ASSERT_NO_FATAL_FAILURE(lose_the_end(run));
  ASSERT_NO_FATAL_FAILURE(flip_a_bit(shard(run, FaultyRuns::kSteps, 1)));
  Gang gang(runs->options(run, kSharing, 1));
  EXPECT_EQ(gang.wait(), (std::vector<int>{0, 0})) << gang.log(0);
  EXPECT_NE(gang.log(0).find("checkpoint damaged, using an older one"), std::string::npos);
  EXPECT_NE(gang.log(0).find("step-40/rank-1.bin"), std::string::npos) << gang.log(0);
  EXPECT_NE(gang.log(0).find("/checkpoints/step-38\n"), std::string::npos) << gang.log(0);
  EXPECT_TRUE(fs::exists(runs->path(run) + "/checkpoints/damaged-step-40"));
  runs->expect_undisturbed_bits(run);
}

TEST_F(DiskFaultsTest, FlippedBitsInAllCheckpointsEndTheRunAndTouchNothing) {
  const std::string run = "all-flipped";
  ASSERT_NO_FATAL_FAILURE(lose_the_end(run));
  for (const int64_t step :
       {FaultyRuns::kSteps - FaultyRuns::kCheckpointEvery, FaultyRuns::kSteps}) {
    ASSERT_NO_FATAL_FAILURE(flip_a_bit(shard(run, step, 1)));
  }
  Gang gang(runs->options(run, kSharing, 1));
  EXPECT_EQ(gang.wait(), (std::vector<int>{static_cast<int>(ExitCode::kCheckpointDamaged),
                                           static_cast<int>(ExitCode::kPeerLost)}))
      << gang.log(0);
  EXPECT_NE(message(gang, 0).find("step-40/rank-1.bin"), std::string::npos) << message(gang, 0);
  EXPECT_NE(message(gang, 0).find("step-38/rank-1.bin"), std::string::npos) << message(gang, 0);
  EXPECT_TRUE(fs::exists(shard(run, FaultyRuns::kSteps, 1)));
}

TEST_F(DiskFaultsTest, APeerThatAnswersSlowlyIsWaitedFor) {
  for (const std::string backend : {"shared-memory", "gloo"}) {
    SCOPED_TRACE(backend);
    const std::string run = "slow-" + backend;
    GangOptions options = runs->options(run, kSharing, 0, backend);
    const std::string mark = runs->strike(options, 1,
                                          {{"at", "communication"},
                                           {"what", "step control"},
                                           {"step", FaultyRuns::kSteps - 2},
                                           {"do", "delay"},
                                           {"milliseconds", 300}});
    Gang gang(options);
    EXPECT_EQ(gang.wait(), (std::vector<int>{0, 0})) << gang.log(0);
    EXPECT_TRUE(fs::exists(mark));
    runs->expect_undisturbed_bits(run);
  }
}

}  // namespace
}  // namespace lockstep::faults
