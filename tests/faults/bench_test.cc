// `bench collectives` with real ranks: its figures, its refusals, and a rank that dies.
#include <chrono>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/common/exit_code.h"
#include "tests/support/paths.h"
#include "tests/support/rank_processes.h"

namespace lockstep::faults {
namespace {

using common::ExitCode;
using support::TemporaryFolder;
using testing::HasSubstr;
using testing::StartsWith;

class BenchTest : public testing::Test {
 protected:
  // The verb as a user runs it, in the background.
  pid_t start(const std::string& arguments) const {
    for (const char* const name : {"figures", "errors"}) {
      std::filesystem::remove(folder_.path(name));
    }
    const std::string command = std::string("exec ") + support::kRuntimeProgram +
                                " bench collectives " + arguments + " >" + folder_.path("figures") +
                                " 2>" + folder_.path("errors");
    const pid_t pid = fork();
    if (pid == 0) {
      execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      _exit(127);
    }
    return pid;
  }
  static int wait(pid_t pid) {
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  // Rank 0's first lines say that both ranks have met. Fails if the verb ends before.
  void wait_until_met(pid_t verb) const {
    while (figures().find("#wrong") == std::string::npos && errors().empty()) {
      siginfo_t ended{};
      ASSERT_EQ(waitid(P_PID, static_cast<id_t>(verb), &ended, WEXITED | WNOHANG | WNOWAIT), 0);
      ASSERT_EQ(ended.si_pid, 0) << "the verb ended with " << ended.si_status;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    EXPECT_EQ(errors(), "");
  }
  std::string figures() const { return support::read_text(folder_.path("figures")); }
  std::string errors() const { return support::read_text(folder_.path("errors")); }

  TemporaryFolder folder_;
};

// Ranks by their number: they are forked in that order.
std::vector<pid_t> children_of(pid_t pid) {
  const std::string task = "/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid);
  std::istringstream text(support::read_text(task + "/children"));
  std::vector<pid_t> children;
  for (pid_t child = 0; text >> child;) children.push_back(child);
  return children;
}

TEST_F(BenchTest, EveryVerbIsMeasuredAndNothingIsWrongOverBothBackends) {
  for (const std::string backend : {"auto", "shared-memory", "gloo"}) {
    const int code =
        wait(start("--ranks 2 --min-bytes 1Ki --max-bytes 64Ki --step-factor 64 "
                   "--iterations 3 --warmup 1 --output json --backend " +
                   backend));
    ASSERT_EQ(code, 0) << errors();
    const nlohmann::json report = nlohmann::json::parse(figures());
    EXPECT_EQ(report["backend"], backend == "gloo" ? "gloo" : "shared-memory");
    EXPECT_EQ(report["ranks"], 2);
    std::set<std::string> verbs;
    for (const nlohmann::json& line : report["results"]) {
      verbs.insert(line["verb"]);
      EXPECT_EQ(line["wrong"], 0) << line;
      EXPECT_GT(line["busBytesPerSecond"], 0) << line;
    }
    EXPECT_EQ(report["results"].size(), 8U);
    EXPECT_EQ(verbs,
              (std::set<std::string>{"all-gather", "all-reduce", "broadcast", "reduce-scatter"}));
  }
}

TEST_F(BenchTest, ATableHasALineForEachMeasurement) {
  ASSERT_EQ(wait(start("--ranks 1 --min-bytes 64 --max-bytes 64 --iterations 2")), 0) << errors();
  EXPECT_THAT(figures(), StartsWith("# 1 ranks, single"));
  for (const char* const word : {"all-reduce", "all-gather", "reduce-scatter", "broadcast",
                                 "alg (GB/s)", "bus (GB/s)", "#wrong"}) {
    EXPECT_THAT(figures(), HasSubstr(word));
  }
}

TEST_F(BenchTest, WrongInputIsOneErrorWithATypedCode) {
  const std::vector<std::pair<std::string, std::string>> table = {
      {"", "--ranks is required"},
      {"--ranks 0", "--ranks must be from 1 to 64, found 0"},
      {"--ranks two", "--ranks"},
      {"--ranks 2 --backend nccl", "--backend nccl is not supported by this version"},
      {"--ranks 2 --backend mpi", "found \"mpi\""},
      {"--ranks 2 --min-bytes many", "--min-bytes: \"many\" is no size"},
      {"--ranks 2 --max-bytes 5Gi", "--max-bytes must be from 1 to 4294967296"},
      {"--ranks 2 --min-bytes 2Ki --max-bytes 1Ki", "--min-bytes 2Ki is more than --max-bytes 1Ki"},
      {"--ranks 2 --step-factor 1", "--step-factor must be from 2"},
      {"--ranks 2 --iterations 0", "--iterations must be from 1"},
      {"--ranks 2 --warmup -1", "--warmup must be from 0"},
      {"--ranks 2 --output xml", "--output"},
      {"--ranks 2 --speed 3", "--speed"},
  };
  for (const auto& [arguments, expected] : table) {
    EXPECT_EQ(wait(start(arguments)), static_cast<int>(ExitCode::kInvalidConfig)) << arguments;
    EXPECT_THAT(errors(), HasSubstr(expected)) << arguments;
    EXPECT_EQ(figures(), "") << arguments;
  }
}

TEST_F(BenchTest, ARankThatDiesEndsItWithItsName) {
  for (const std::string backend : {"shared-memory", "gloo"}) {
    const pid_t pid = start(
        "--ranks 2 --min-bytes 64 --max-bytes 64 --iterations 1000000000 "
        "--backend " +
        backend);
    wait_until_met(pid);
    const std::vector<pid_t> ranks = children_of(pid);
    ASSERT_EQ(ranks.size(), 2U);
    kill(ranks[1], SIGKILL);
    EXPECT_EQ(wait(pid), 128 + SIGKILL);
    EXPECT_THAT(errors(), HasSubstr("rank 1 was ended by signal 9"));
    EXPECT_NE(kill(ranks[0], 0), 0) << "rank 0 is left";
  }
}

TEST_F(BenchTest, InterruptedItLeavesNoRank) {
  const pid_t pid = start("--ranks 2 --min-bytes 64 --max-bytes 64 --iterations 1000000000");
  wait_until_met(pid);
  const std::vector<pid_t> ranks = children_of(pid);
  ASSERT_EQ(ranks.size(), 2U);
  kill(pid, SIGTERM);
  EXPECT_EQ(wait(pid), 128 + SIGTERM);
  for (const pid_t rank : ranks) EXPECT_NE(kill(rank, 0), 0);
}

}  // namespace
}  // namespace lockstep::faults
