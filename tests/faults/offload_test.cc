// Offloading with storage that is not there, too small, or fails in mid-run.
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "tests/support/paths.h"
#include "tests/support/tiny_job.h"

namespace lockstep::faults {
namespace {

using common::ExitCode;
using support::Gang;
using support::GangOptions;
using support::read_curve;
using support::TemporaryFolder;
using support::TinyJob;

class OffloadFaultsTest : public testing::Test {
 protected:
  void SetUp() override {
    support::write_text(folder_.path("corpus.txt"), support::tiny_corpus(20000));
    std::filesystem::create_directory(nvme_);
  }

  TinyJob job() const {
    return {.ranks = 2,
            .strategy = "zero1",
            .data = folder_.path("corpus.txt"),
            .steps = 400,
            .precision = "bf16",
            .offload_optimizer = "nvme",
            .nvme_path = nvme_};
  }
  GangOptions options(const TinyJob& job, const std::string& name, int attempt = 0) const {
    return {.runtime = support::kRuntimeProgram,
            .job = to_json(job),
            .folder = folder_.path(name + ".files"),
            .output = folder_.path(name),
            .num_ranks = job.ranks,
            .attempt = attempt};
  }

  TemporaryFolder folder_;
  std::string nvme_ = folder_.path("nvme");
};

// Opens the swap file of a process, which has no name in the file system any more; -1 if it has
// none.
int open_swap_file(pid_t process, int flags) {
  const std::string descriptors = "/proc/" + std::to_string(process) + "/fd";
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(descriptors, error)) {
    const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    if (error || target.find(".lockstep-swap-") == std::string::npos) continue;
    return ::open(entry.path().c_str(), flags | O_CLOEXEC);
  }
  return -1;
}

bool cut_swap_file(pid_t process) {
  const int descriptor = open_swap_file(process, O_WRONLY);
  if (descriptor < 0) return false;
  const bool was_cut = ::ftruncate(descriptor, 0) == 0;
  ::close(descriptor);
  return was_cut;
}

TEST_F(OffloadFaultsTest, APathThatIsNoFolderIsRefusedByItsField) {
  TinyJob missing = job();
  missing.nvme_path = folder_.path("missing");
  Gang gang(options(missing, "refused"));
  EXPECT_EQ(gang.wait(), (std::vector<int>{78, 78})) << gang.log(0);
  ASSERT_TRUE(gang.last_words(0));
  EXPECT_EQ(gang.last_words(0)->reason, "InvalidConfig");
  EXPECT_NE(gang.last_words(0)->message.find("train.offload.nvmePath: cannot create a file in " +
                                             missing.nvme_path + ": No such file or directory"),
            std::string::npos)
      << gang.last_words(0)->message;
}

TEST_F(OffloadFaultsTest, StorageThatFailsInMidRunEndsItAndKeepsTheCheckpoint) {
  Gang gang(options(job(), "failing"));
  ASSERT_TRUE(gang.wait_until([&] {
    return std::filesystem::exists(folder_.path("failing") + "/checkpoints/step-4/manifest.json");
  }));
  EXPECT_TRUE(std::filesystem::is_empty(nvme_)) << "the file must have no name";
  // Again and again: a write would mend a single cut.
  bool was_cut = false;
  gang.wait_until([&] {
    was_cut = (gang.pid(1) != 0 && cut_swap_file(gang.pid(1))) || was_cut;
    return false;
  });
  ASSERT_TRUE(was_cut);
  EXPECT_EQ(gang.wait(), (std::vector<int>{83, 73})) << gang.log(1);
  ASSERT_TRUE(gang.last_words(1));
  EXPECT_EQ(gang.last_words(1)->reason, "OutputUnwritable");
  EXPECT_NE(gang.last_words(1)->message.find("train.offload: "), std::string::npos);
  EXPECT_NE(gang.last_words(1)->message.find("somebody has cut it"), std::string::npos);

  Gang restart(options(job(), "failing", 1));
  ASSERT_TRUE(restart.wait_until([&] {
    return std::filesystem::exists(folder_.path("failing") + "/checkpoints/step-8/manifest.json");
  })) << restart.log(0);
  restart.send(0, SIGTERM);
  EXPECT_EQ(restart.wait(), (std::vector<int>{85, 85})) << restart.log(0);
  EXPECT_NE(restart.log(0).find("info resumed "), std::string::npos) << restart.log(0);
}

// Flips bits in what a rank has in its swap file, all over it.
bool damage_swap_file(pid_t process) {
  const int descriptor = open_swap_file(process, O_RDWR);
  if (descriptor < 0) return false;
  const off_t size = ::lseek(descriptor, 0, SEEK_END);
  bool was_damaged = false;
  for (off_t at = 100; at < size; at += 4096) {
    char byte = 0;
    if (::pread(descriptor, &byte, 1, at) != 1) break;
    byte = static_cast<char>(byte ^ 4);
    was_damaged = ::pwrite(descriptor, &byte, 1, at) == 1 || was_damaged;
  }
  ::close(descriptor);
  return was_damaged;
}

// Without the checksums the run would go on and end with other weights.
TEST_F(OffloadFaultsTest, DamagedBlocksEndTheRunWithFileAndOffset) {
  Gang gang(options(job(), "damaged"));
  ASSERT_TRUE(gang.wait_until([&] {
    return std::filesystem::exists(folder_.path("damaged") + "/checkpoints/step-4/manifest.json");
  }));
  bool was_damaged = false;
  gang.wait_until([&] {  // again and again: a write would mend it
    was_damaged = (gang.pid(1) != 0 && damage_swap_file(gang.pid(1))) || was_damaged;
    return false;
  });
  ASSERT_TRUE(was_damaged);
  EXPECT_EQ(gang.wait(), (std::vector<int>{83, 73})) << gang.log(1);
  ASSERT_TRUE(gang.last_words(1));
  const std::string message = gang.last_words(1)->message;
  EXPECT_NE(message.find("train.offload: " + nvme_ + "/.lockstep-swap-"), std::string::npos)
      << message;
  EXPECT_NE(message.find(" is damaged at byte "), std::string::npos) << message;
  EXPECT_NE(gang.last_words(1)->hint.find("sound storage"), std::string::npos);
}

// A killed rank leaves nothing under nvmePath.
TEST_F(OffloadFaultsTest, AKilledRankLeavesNothingBehind) {
  Gang gang(options(job(), "killed"));
  ASSERT_TRUE(gang.wait_until([&] {
    return std::filesystem::exists(folder_.path("killed") + "/checkpoints/step-4/manifest.json");
  }));
  gang.send(0, SIGKILL);
  gang.wait();
  EXPECT_TRUE(std::filesystem::is_empty(nvme_));
}

TEST_F(OffloadFaultsTest, CpuSaysOnceByNameThatItHasNoEffect) {
  TinyJob idle = job();
  idle.steps = 1;
  idle.offload_optimizer = "cpu";
  Gang gang(options(idle, "idle"));
  EXPECT_EQ(gang.wait(), (std::vector<int>{0, 0})) << gang.log(0);
  const std::string log = gang.log(0) + gang.log(1);
  const std::size_t at = log.find("field=train.offload.optimizer");
  ASSERT_NE(at, std::string::npos) << log;
  EXPECT_EQ(log.find("field=train.offload.optimizer", at + 1), std::string::npos);
}

}  // namespace
}  // namespace lockstep::faults
