// The launcher with real processes: shells that stand for ranks.
#include "runtime/launch/launcher.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/common/exit_code.h"

namespace lockstep::launch {
namespace {

using common::TerminationMessage;

constexpr std::chrono::seconds kLiveness{60};

std::string read_text(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

bool await(const std::function<bool()>& holds) {
  const auto limit = Clock::now() + kLiveness;
  while (!holds()) {
    if (Clock::now() > limit) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

// It is there and not only waits to be reaped by whoever took it over.
bool is_alive(pid_t pid) {
  const std::string stat = read_text("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t name_end = stat.rfind(')');
  return name_end != std::string::npos && stat.substr(name_end + 2, 1) != "Z";
}

// The launcher of ranks 2, 3, ... of six, as a process of its own.
class LauncherTest : public ::testing::Test {
 protected:
  LauncherTest() { std::filesystem::create_directories(folder_); }
  ~LauncherTest() override {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    std::filesystem::remove_all(folder_);
  }

  void start(int num_ranks, const std::string& script,
             std::chrono::milliseconds end_patience = kEndPatience) {
    start_program(num_ranks, {"/bin/sh", "-c", script}, end_patience);
  }

  void start_program(int num_ranks, const std::vector<std::string>& command,
                     std::chrono::milliseconds end_patience = kEndPatience) {
    common::WorkerEnv env;
    env.rank = 2;
    env.world_size = 6;
    env.local_world_size = num_ranks;
    env.ranks_per_pod = num_ranks;
    env.metrics_port = 0;
    env.listen_address = "127.0.0.1";
    env.termination_path = file("pod.end");
    pid_ = fork();
    if (pid_ != 0) return;
    setenv("FOLDER", folder_.c_str(), 1);
    if (before_launch_) before_launch_();
    const int log = open(file("log").c_str(), O_CREAT | O_WRONLY | O_APPEND, 0644);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    block_signals();
    _exit(launch(command, env, end_patience));
  }

  // The launcher's exit code; -1 if it does not end, or a signal ended it.
  int wait() {
    int status = 0;
    if (!await([&] { return waitpid(pid_, &status, WNOHANG) == pid_; })) return -1;
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  std::string file(const std::string& name) const { return folder_ + "/" + name; }
  std::string log() const { return read_text(file("log")); }
  bool has_files(const std::vector<std::string>& names) const {
    return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
      return read_text(file(name)).ends_with("\n");
    });
  }
  pid_t pid_in(const std::string& name) const { return std::stoi(read_text(file(name))); }
  TerminationMessage last_words() const {
    std::string line = read_text(file("pod.end"));
    if (line.ends_with('\n')) line.pop_back();
    return common::decode_termination_message(line).value_or(TerminationMessage{.rank = -1});
  }

  const std::string folder_ = ::testing::TempDir() + "/launcher-" + std::to_string(getpid());
  std::function<void()> before_launch_;  // in the launcher's process
  pid_t pid_ = 0;
};

// From now on this process can start threads, but no other process: as under a full table.
void refuse_forks() {
  std::array<sock_filter, 6> rules = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_clone, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[0])),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program = {rules.size(), rules.data()};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) _exit(99);
}

void allow_files(rlim_t number) {
  const rlimit files = {number, number};
  if (setrlimit(RLIMIT_NOFILE, &files) != 0) _exit(99);
}

TEST_F(LauncherTest, EveryRankKnowsItsPlaceAndAllSucceed) {
  start(3, "echo rank $RANK local $LOCAL_RANK of $LOCAL_WORLD_SIZE port $LOCKSTEP_METRICS_PORT");
  EXPECT_EQ(wait(), 0);
  const std::string text = log();
  EXPECT_NE(text.find("[rank 2] rank 2 local 0 of 3 port 0\n"), std::string::npos) << text;
  EXPECT_NE(text.find("[rank 3] rank 3 local 1 of 3 port 0\n"), std::string::npos) << text;
  EXPECT_NE(text.find("[rank 4] rank 4 local 2 of 3 port 0\n"), std::string::npos) << text;
  EXPECT_FALSE(std::filesystem::exists(file("pod.end")));
}

TEST_F(LauncherTest, TheFirstFailingRankEndsTheOthersAndIsNamed) {
  start(3, "if [ $RANK = 3 ]; then echo 'no such corpus'; exit 7; fi; sleep 1000");
  EXPECT_EQ(wait(), 7);
  EXPECT_EQ(last_words().rank, 3);
  EXPECT_EQ(last_words().reason, "ExitCode7");
  EXPECT_EQ(last_words().message, "exit code 7; last line: no such corpus");
}

TEST_F(LauncherTest, WordsOfTheRankAreThoseOfThePod) {
  start(2, R"(if [ $RANK = 2 ]; then sleep 1000; fi
              echo '{"rank":3,"step":9,"reason":"NonFinite","message":"m","hint":"h"}' \
                > $LOCKSTEP_TERMINATION_MESSAGE
              exit 84)");
  EXPECT_EQ(wait(), 84);
  EXPECT_EQ(last_words().rank, 3);
  EXPECT_EQ(last_words().step, 9);
  EXPECT_EQ(last_words().reason, "NonFinite");
  EXPECT_EQ(last_words().hint, "h");
}

TEST_F(LauncherTest, LongWordsOfTheRankAreWhole) {
  start(
      1,
      R"(printf 'noise\n{"rank":2,"step":9,"reason":"NonFinite","message":"%01500d","hint":"h"}\n\n' 7 \
                > $LOCKSTEP_TERMINATION_MESSAGE
              exit 84)");
  EXPECT_EQ(wait(), 84);
  EXPECT_EQ(last_words().reason, "NonFinite");
  EXPECT_EQ(last_words().message.size(), 1500u);
}

TEST_F(LauncherTest, KilledRankCountsAsKilled) {
  start(2, "if [ $RANK = 3 ]; then kill -9 $$; fi; sleep 1000");
  EXPECT_EQ(wait(), 137);
  EXPECT_EQ(last_words().rank, 3);
  EXPECT_EQ(last_words().message, "ended by signal 9");
}

TEST_F(LauncherTest, RankThatIgnoresItsEndIsKilled) {
  start(2, R"(if [ $RANK = 2 ]; then
                trap '' TERM; echo $$ > $FOLDER/2; while :; do sleep 0.01; done
              fi
              until [ -s $FOLDER/2 ]; do sleep 0.01; done; exit 5)",
        std::chrono::milliseconds(50));
  EXPECT_EQ(wait(), 5);
  EXPECT_EQ(last_words().rank, 3);
  EXPECT_FALSE(is_alive(pid_in("2")));
}

TEST_F(LauncherTest, SignalsAreForEveryRankAndNobodyIsCutShort) {
  start(2, R"(trap 'echo usr1; exit_code=$((10 + RANK))' USR1
              trap '[ $RANK = 2 ] || sleep 0.3; echo stopped > $FOLDER/$RANK.stopped
                    exit $exit_code' TERM
              echo ready > $FOLDER/$RANK; while :; do sleep 0.01; done)",
        std::chrono::milliseconds(1));
  ASSERT_TRUE(await([&] { return has_files({"2", "3"}); }));
  kill(pid_, SIGUSR1);
  ASSERT_TRUE(await([&] {
    const std::string text = log();
    return text.find("[rank 2] usr1") != std::string::npos &&
           text.find("[rank 3] usr1") != std::string::npos;
  }));
  kill(pid_, SIGTERM);
  EXPECT_EQ(wait(), 12) << "the first that ended";
  EXPECT_TRUE(has_files({"2.stopped", "3.stopped"}));
}

TEST_F(LauncherTest, NoRankOutlivesAKilledLauncher) {
  start(2, "echo $$ > $FOLDER/$RANK; while :; do sleep 0.01; done");
  ASSERT_TRUE(await([&] { return has_files({"2", "3"}); }));
  kill(pid_, SIGKILL);
  EXPECT_EQ(wait(), -1);
  EXPECT_TRUE(await([&] { return !is_alive(pid_in("2")) && !is_alive(pid_in("3")); }));
}

TEST_F(LauncherTest, WhatARankStartedEndsWithIt) {
  start(1, "sleep 1000 & echo $! > $FOLDER/child; exit 0");
  EXPECT_EQ(wait(), 0);
  EXPECT_TRUE(await([&] { return !is_alive(pid_in("child")); }));
}

TEST_F(LauncherTest, WhatLeftItsRankLivesOnAfterItsOwnParent) {
  start(1, R"((setsid sh -c 'sleep 1000 & echo $! > $FOLDER/daemon; echo $$ > $FOLDER/parent' &)
              while :; do sleep 0.01; done)");
  ASSERT_TRUE(await([&] { return has_files({"daemon", "parent"}); }));
  const auto is_reaped = [&] {
    return !std::filesystem::exists("/proc/" + std::to_string(pid_in("parent")));
  };
  ASSERT_TRUE(await(is_reaped));
  EXPECT_TRUE(is_alive(pid_in("daemon")));
  kill(pid_in("daemon"), SIGKILL);
}

TEST_F(LauncherTest, AProcessThatWritesForEverKeepsNobody) {
  start(1, R"((setsid sh -c 'echo $$ > $FOLDER/writer; while :; do echo y; done' &)
              until [ -s $FOLDER/writer ]; do sleep 0.01; done; exit 3)");
  EXPECT_EQ(wait(), 3);
  kill(pid_in("writer"), SIGKILL);
}

TEST_F(LauncherTest, ProgramThatIsNotThereIsNamed) {
  start_program(2, {"/no/such/program"});
  EXPECT_EQ(wait(), static_cast<int>(common::ExitCode::kInvalidConfig));
  EXPECT_EQ(last_words().reason, "InvalidConfig");
  EXPECT_EQ(last_words().message, "cannot start /no/such/program: No such file or directory");
}

TEST_F(LauncherTest, ANodeWithoutRoomForAProcessIsNoMistakeOfTheJob) {
  before_launch_ = refuse_forks;
  start(2, "exit 0");
  const int code = wait();
  EXPECT_EQ(code, static_cast<int>(common::ExitCode::kInternal));
  ASSERT_TRUE(common::find_exit_code(code));
  EXPECT_TRUE(common::find_exit_code(code)->retryable) << "the next attempt may have room";
  EXPECT_EQ(last_words().reason, "Internal");
  EXPECT_EQ(last_words().message, "cannot start /bin/sh: Resource temporarily unavailable");
}

TEST_F(LauncherTest, RanksThatWereStartedEndWithTheOneThatCouldNotBe) {
  constexpr int kRanks = 64;
  before_launch_ = [] { allow_files(kRanks); };
  start(kRanks, "echo $$ > $FOLDER/$RANK; exec sleep 1000");
  const int code = wait();
  EXPECT_EQ(code, static_cast<int>(common::ExitCode::kInternal));
  EXPECT_EQ(last_words().message, "pipe: Too many open files");
  EXPECT_TRUE(await([&] {
    for (int rank = 2; rank < 2 + kRanks; ++rank) {
      const std::string pid = read_text(file(std::to_string(rank)));
      if (pid.ends_with("\n") && is_alive(std::stoi(pid))) return false;
    }
    return true;
  }));
}

}  // namespace
}  // namespace lockstep::launch
