// LibTorch is loaded by ranks that meet over Gloo, and by no others.
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/comm/rendezvous.h"
#include "runtime/common/loopback_port.h"
#include "tests/runtime/comm/collective_checks.h"
#include "tests/runtime/comm/rank_threads.h"

namespace lockstep::runtime {
namespace {

using Backend = common::CommunicationConfig::Backend;

// How many of two ranks, each a process, have LibTorch in their memory once they have met.
int num_with_libtorch(Backend backend) {
  const common::LoopbackPort port;
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.push_back(fork());
    if (ranks.back() != 0) continue;
    const auto collective = connect({.rank = rank,
                                     .world_size = 2,
                                     .master_addr = "127.0.0.1",
                                     .master_port = port.number(),
                                     .backend = backend,
                                     .timeout = kGenerousTimeout});
    check_all_to_all(*collective, 100, 0);
    std::ifstream file("/proc/self/maps");
    const std::string maps(std::istreambuf_iterator<char>(file), {});
    _exit(maps.find("libtorch_cpu") != std::string::npos ? 1 : 0);
  }
  int num_loaded = 0;
  for (const pid_t rank : ranks) {
    int status = 0;
    waitpid(rank, &status, 0);
    EXPECT_TRUE(WIFEXITED(status));
    num_loaded += WEXITSTATUS(status);
  }
  return num_loaded;
}

TEST(LoadGlooTest, OnlyRanksThatMeetOverGlooLoadLibTorch) {
  // Each in a program that is started anew: what other tests loaded here stays loaded.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  using testing::ExitedWithCode;
  EXPECT_EXIT(_exit(num_with_libtorch(Backend::kAuto)), ExitedWithCode(0), "");
  EXPECT_EXIT(_exit(num_with_libtorch(Backend::kSharedMemory)), ExitedWithCode(0), "");
  EXPECT_EXIT(_exit(num_with_libtorch(Backend::kGloo)), ExitedWithCode(2), "");
}

}  // namespace
}  // namespace lockstep::runtime
