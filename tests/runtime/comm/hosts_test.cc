// Ranks on several hosts: what carries their bytes, and who is named when that breaks.
#include <array>
#include <fstream>
#include <ostream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/comm/rendezvous.h"
#include "runtime/common/loopback_port.h"
#include "tests/runtime/comm/collective_checks.h"
#include "tests/runtime/comm/host_folders.h"
#include "tests/runtime/comm/rank_threads.h"

namespace lockstep::runtime {
namespace {

using testing::HasSubstr;

// Ranks on several hosts, whose folders of shared memory do not see each other.
struct Case {
  std::vector<int> host_of;
  std::string expected;
  std::string reason;  // a part of it
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << "hosts " << name_of_hosts(c.host_of);
}

class HostsTest : public testing::TestWithParam<Case> {};

RendezvousOptions hosts_options(const HostFolders& hosts, int rank, int port) {
  return {.rank = rank,
          .world_size = hosts.num_ranks(),
          .master_addr = "127.0.0.1",
          .master_port = port,
          .timeout = kGenerousTimeout,
          .shm_folder = hosts.of_rank(rank)};
}

TEST_P(HostsTest, MovesBytesOnAllLevels) {
  const Case& param = GetParam();
  const HostFolders hosts(param.host_of);
  const common::LoopbackPort port;
  run_ranks(hosts.num_ranks(), [&](int rank) {
    const auto collective = connect(hosts_options(hosts, rank, port.number()));
    EXPECT_EQ(collective->backend(), param.expected);
    EXPECT_THAT(collective->topology().reason, HasSubstr(param.reason));
    EXPECT_EQ(collective->rank(), rank);
    EXPECT_EQ(collective->world_size(), hosts.num_ranks());
    check_backend(*collective, 65536);
    check_reach(*collective, 1000);
    check_groups(*collective, 2, 4097);
  });
  EXPECT_EQ(hosts.num_files(), 0);
}

INSTANTIATE_TEST_SUITE_P(
    Hosts, HostsTest,
    testing::Values(Case{{0, 0, 0, 0}, "shared-memory", "the same segment"},
                    Case{{0, 0, 1, 1}, "shared-memory+gloo", "2 hosts of 2 ranks"},
                    Case{{0, 0, 0, 1, 1, 1}, "shared-memory+gloo", "2 hosts of 3 ranks"},
                    Case{{0, 0, 1, 1, 2, 2}, "shared-memory+gloo", "3 hosts of 2 ranks"},
                    Case{{0, 1, 2, 3}, "gloo", "no two ranks share memory"},
                    Case{{0, 0, 0, 1}, "gloo", "hosts hold 3 and 1 ranks"},
                    Case{{0, 1, 0, 1}, "gloo", "two levels need consecutive ranks"}));

// The first host has no room for a segment: a limit on the size of files stands for a full
// /dev/shm.
TEST(TwoLevelsTest, TellsWhyAHostHasNoSegment) {
  const HostFolders hosts({0, 0, 1, 1});
  const common::LoopbackPort port;
  const std::string path = hosts.of_rank(0) + "/reason-";
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    ranks.push_back(fork());
    if (ranks.back() != 0) continue;
    const rlimit small = {.rlim_cur = 4096, .rlim_max = 4096};
    signal(SIGXFSZ, SIG_IGN);
    if (rank < 2) setrlimit(RLIMIT_FSIZE, &small);
    try {
      const auto collective = connect(hosts_options(hosts, rank, port.number()));
      std::ofstream(path + std::to_string(rank))
          << collective->backend() << ": " << collective->topology().reason;
      check_all_to_all(*collective, 100, 0);
    } catch (const std::exception& error) {
      ADD_FAILURE() << "rank " << rank << ": " << error.what();
    }
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  for (const pid_t rank : ranks) {
    int status = -1;
    EXPECT_EQ(waitpid(rank, &status, 0), rank);
    EXPECT_EQ(status, 0) << "what failed in it stands above";
  }
  for (int rank = 0; rank < 4; ++rank) {
    std::ifstream file(path + std::to_string(rank));
    const std::string reason(std::istreambuf_iterator<char>(file), {});
    EXPECT_THAT(reason, testing::StartsWith("gloo: ")) << "rank " << rank;
    EXPECT_THAT(reason, HasSubstr("; rank 0: cannot reserve ")) << "rank " << rank;
  }
}

TEST(TwoLevelsTest, NamesTheRankThatDivergesOnEitherLevel) {
  const HostFolders hosts({0, 0, 1, 1});
  for (const int divergent : {1, 2}) {
    const common::LoopbackPort port;
    run_ranks(4, [&](int rank) {
      const auto collective = connect(hosts_options(hosts, rank, port.number()));
      check_divergence(*collective, divergent);
    });
  }
}

// The last rank of the second host never takes part in an operation. Three worlds at once.
TEST(TwoLevelsTest, NamesALateRankOnEitherLevel) {
  const HostFolders hosts({0, 0, 1, 1});
  const std::vector<Reach> reaches = {Reach::kWorld, Reach::kInside, Reach::kAcross};
  const std::array<common::LoopbackPort, 3> ports;
  std::array<std::atomic<int>, 3> num_timeouts{};
  std::array<std::atomic<int>, 3> num_done{};
  run_ranks(12, [&](int thread) {
    const auto world = static_cast<size_t>(thread / 4);
    const int rank = thread % 4;
    RendezvousOptions options = hosts_options(hosts, rank, ports[world].number());
    options.timeout = std::chrono::milliseconds(4000);
    const auto collective = connect(options);
    std::vector<std::byte> bytes(64);
    std::vector<std::byte> recv(64);
    std::vector<std::byte> all(4 * 64);
    try {
      if (rank != 3) {
        collective->begin_step(7);
        collective->all_to_all(bytes, recv, "unit 5", reaches[world])->wait();
        collective->all_gather(bytes, all, "unit 6")->wait();
        ADD_FAILURE() << "rank 3 did not come";
      }
    } catch (const CollectiveTimeoutError& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 3 did not arrive within 4000 ms"));
      EXPECT_THAT(error.what(), HasSubstr("step 7"));
      ++num_timeouts[world];
    } catch (const PeerLostError& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 3 did not arrive in time"));
    }
    ++num_done[world];
    while (num_done[world] < 4) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  });
  for (const std::atomic<int>& timeouts : num_timeouts) EXPECT_GE(timeouts, 1);
}

// Rank 3 of two hosts is killed between two operations; returns what the others threw.
TEST(TwoLevelsTest, NamesAKilledRankOnEitherLevel) {
  const HostFolders hosts({0, 0, 1, 1});
  const common::LoopbackPort port;
  const std::string path = hosts.of_rank(0) + "/message-";
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    ranks.push_back(fork());
    if (ranks.back() != 0) continue;
    const auto collective = connect(hosts_options(hosts, rank, port.number()));
    check_all_to_all(*collective, 100, 0);
    if (rank == 3) kill(getpid(), SIGKILL);
    std::vector<std::byte> own(5000);
    std::vector<std::byte> full(20000);
    try {
      collective->begin_step(2);
      collective->all_gather(own, full, "unit layer.3")->wait();
    } catch (const PeerLostError& error) {
      std::ofstream(path + std::to_string(rank)) << error.what();
    }
    _exit(0);
  }
  for (const pid_t rank : ranks) waitpid(rank, nullptr, 0);
  for (int rank = 0; rank < 3; ++rank) {
    std::ifstream file(path + std::to_string(rank));
    const std::string message(std::istreambuf_iterator<char>(file), {});
    EXPECT_THAT(message, HasSubstr("all_gather of unit layer.3: rank 3 is dead;"))
        << "rank " << rank;
    EXPECT_THAT(message, HasSubstr("step 2")) << "rank " << rank;
  }
}

}  // namespace
}  // namespace lockstep::runtime
