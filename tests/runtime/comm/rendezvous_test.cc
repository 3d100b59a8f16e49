// Meeting over a store, the choice of backend, and Gloo.
#include "runtime/comm/rendezvous.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <ostream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/comm/tcp_endpoint.h"
#include "runtime/common/loopback_port.h"
#include "tests/runtime/comm/collective_checks.h"
#include "tests/runtime/comm/rank_threads.h"

namespace lockstep::runtime {
namespace {

using Backend = common::CommunicationConfig::Backend;
using testing::HasSubstr;

RendezvousOptions local_options(int rank, int world_size, int port, Backend backend) {
  return {.rank = rank,
          .world_size = world_size,
          .master_addr = "127.0.0.1",
          .master_port = port,
          .backend = backend,
          .timeout = kGenerousTimeout};
}

// Segments that connect() made in this process and that still have a name.
int num_segments() {
  const std::string prefix = "lockstep-" + std::to_string(getpid()) + "-";
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    if (entry.path().filename().string().starts_with(prefix)) ++count;
  }
  return count;
}

TEST(RendezvousTest, OneRankNeedsNoAddress) {
  EXPECT_EQ(connect({.rank = 0, .world_size = 1})->backend(), "single");
}

struct Case {
  int world_size;
  Backend backend;
  std::string_view expected;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.world_size << " ranks, " << (c.backend == Backend::kAuto ? "auto, " : "") << c.expected;
}

class RendezvousBackendTest : public testing::TestWithParam<Case> {};

TEST_P(RendezvousBackendTest, MeetsAndMovesBytes) {
  const Case& param = GetParam();
  const common::LoopbackPort port;
  run_ranks(param.world_size, [&](int rank) {
    const auto collective =
        connect(local_options(rank, param.world_size, port.number(), param.backend));
    EXPECT_EQ(collective->backend(), param.expected);
    EXPECT_EQ(collective->rank(), rank);
    check_backend(*collective, 65536);
    if (param.world_size >= 4) check_split(*collective, 65536);
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, RendezvousBackendTest,
                         testing::Values(Case{2, Backend::kAuto, "shared-memory"},
                                         Case{2, Backend::kGloo, "gloo"},
                                         Case{3, Backend::kGloo, "gloo"},
                                         Case{4, Backend::kGloo, "gloo"},
                                         Case{4, Backend::kSharedMemory, "shared-memory"}));

TEST(RendezvousTest, LeavesNoSegmentBehind) {
  const common::LoopbackPort port;
  run_ranks(2, [&](int rank) { connect(local_options(rank, 2, port.number(), Backend::kAuto)); });
  EXPECT_EQ(num_segments(), 0);
}

TEST(RendezvousTest, NamesThePortInUse) {
  const common::LoopbackPort port;
  const TcpSocket taken = listen_as_master("127.0.0.1", port.number());
  try {
    connect(local_options(0, 2, port.number(), Backend::kAuto));
    FAIL() << "the port is taken";
  } catch (const PortInUseError& error) {
    EXPECT_THAT(error.what(), HasSubstr("127.0.0.1 port " + std::to_string(port.number())));
  }
  close(taken.fd);
}

TEST(RendezvousTest, NamesTheRanksThatDidNotCome) {
  const common::LoopbackPort reserved;
  RendezvousOptions options = local_options(0, 3, reserved.number(), Backend::kAuto);
  options.timeout = std::chrono::milliseconds(300);
  try {
    connect(options);
    FAIL() << "nobody came";
  } catch (const RendezvousTimeoutError& error) {
    EXPECT_THAT(error.what(), HasSubstr("ranks 1, 2 of 3"));
  }
}

// Rank 0 awaits rank 1 first, who comes; and rank 1 awaits rank 0, who awaits rank 2.
TEST(RendezvousTest, NamesOnlyTheRankThatDidNotCome) {
  const common::LoopbackPort port;
  run_ranks(2, [&port](int rank) {
    RendezvousOptions options = local_options(rank, 3, port.number(), Backend::kAuto);
    options.timeout = std::chrono::milliseconds(rank == 0 ? 4000 : 2000);
    try {
      connect(options);
      FAIL() << "rank 2 did not come";
    } catch (const RendezvousTimeoutError& error) {
      EXPECT_THAT(error.what(), HasSubstr("for rank 2 of 3"));
    }
  });
}

// A rank that an operator has given up may live on and dial again, at an address that is the new
// attempt's by then.
TEST(RendezvousTest, AZombieOfAnEarlierAttemptDoesNotRejoin) {
  for (const Backend backend : {Backend::kAuto, Backend::kGloo}) {
    const common::LoopbackPort port;
    std::atomic<int> num_met{0};
    std::atomic<int> num_left_out{0};
    run_ranks(3, [&](int thread) {
      const bool is_zombie = thread == 2;  // also of rank 1
      RendezvousOptions options = local_options(is_zombie ? 1 : thread, 2, port.number(), backend);
      options.attempt = is_zombie ? 3 : 4;
      if (is_zombie) options.timeout = std::chrono::milliseconds(2000);
      try {
        const auto collective = connect(options);
        ASSERT_FALSE(is_zombie);
        for (int i = 0; i < 20; ++i) check_all_to_all(*collective, 1000, i);
        ++num_met;
      } catch (const RendezvousTimeoutError&) {
        EXPECT_TRUE(is_zombie);
        ++num_left_out;
      } catch (const PeerLostError&) {  // the new attempt ended first
        EXPECT_TRUE(is_zombie);
        ++num_left_out;
      }
    });
    EXPECT_EQ(num_met, 2);
    EXPECT_EQ(num_left_out, 1);
  }
}

// Nor does a new attempt take a zombie for the rank that it awaits.
TEST(RendezvousTest, AnAttemptDoesNotTakeAZombieForItsPeer) {
  const common::LoopbackPort port;
  std::atomic<int> num_left_out{0};
  run_ranks(2, [&](int rank) {
    RendezvousOptions options = local_options(rank, 2, port.number(), Backend::kAuto);
    options.attempt = rank == 0 ? 4 : 3;
    options.timeout = std::chrono::milliseconds(rank == 0 ? 4000 : 2000);
    try {
      connect(options);
      FAIL() << "an attempt met another";
    } catch (const RendezvousTimeoutError& error) {
      EXPECT_THAT(error.what(), HasSubstr(rank == 0 ? "rank 1" : "rank 0"));
      ++num_left_out;
    }
  });
  EXPECT_EQ(num_left_out, 2);
}

TEST(RendezvousTest, TheInterfaceThatIsNamedWins) {
  EXPECT_EQ(address_of_interface("lo", "127.0.0.1"), "127.0.0.1");
  EXPECT_FALSE(address_of_interface("no-such-if", "127.0.0.1"));
  EXPECT_THAT(interfaces_towards("127.0.0.1"), HasSubstr("lo"));
  for (const std::string name : {"lo", "no-such-if"}) {
    const common::LoopbackPort port;
    std::atomic<int> num_connected{0};
    std::atomic<int> num_refused{0};
    run_ranks(2, [&](int rank) {
      RendezvousOptions options = local_options(rank, 2, port.number(), Backend::kGloo);
      options.network_interface = name;
      try {
        check_all_to_all(*connect(options), 100, 0);
        ++num_connected;
      } catch (const InterfaceNotFoundError& error) {
        EXPECT_THAT(error.what(),
                    HasSubstr("GLOO_SOCKET_IFNAME: there is no interface no-such-if with an IPv4 "
                              "address, as rank 0 has; there are: "));
        ++num_refused;
      } catch (const PeerLostError&) {  // the other one was refused first
      }
    });
    EXPECT_EQ(num_connected, name == "lo" ? 2 : 0);
    EXPECT_EQ(num_refused > 0, name != "lo");
  }
}

TEST(RendezvousTest, SaysThatNobodyListens) {
  const common::LoopbackPort reserved;
  RendezvousOptions options = local_options(1, 2, reserved.number(), Backend::kAuto);
  options.timeout = std::chrono::milliseconds(100);
  try {
    connect(options);
    FAIL() << "nobody listens";
  } catch (const RendezvousTimeoutError& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 0 did not listen at 127.0.0.1:"));
  }
  options.master_addr = "no-such-host.invalid";
  EXPECT_THROW(connect(options), RendezvousTimeoutError);
}

// As a rank 0 that was stopped: the system accepts connections, nobody answers.
TEST(RendezvousTest, GivesUpAMasterThatDoesNotAnswer) {
  const common::LoopbackPort port;
  const TcpSocket silent = listen_as_master("127.0.0.1", port.number());
  RendezvousOptions options = local_options(1, 2, port.number(), Backend::kAuto);
  options.timeout = std::chrono::milliseconds(300);
  EXPECT_THROW(connect(options), RendezvousTimeoutError);
  close(silent.fd);
}

// What two processes get when rank 0 cannot make a segment: no file of its own may have a byte.
std::string backend_without_segment(Backend backend) {
  const common::LoopbackPort port;
  const auto rank_body = [&](int rank) {
    if (rank == 0) {
      signal(SIGXFSZ, SIG_IGN);
      const rlimit none = {.rlim_cur = 0, .rlim_max = 0};
      setrlimit(RLIMIT_FSIZE, &none);
    }
    try {
      const auto collective = connect(local_options(rank, 2, port.number(), backend));
      check_all_to_all(*collective, 100, 0);
      return collective->backend() == "gloo" ? 10 : 11;
    } catch (const BackendUnavailableError&) {
      return 12;
    }
  };
  std::string outcome;
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.push_back(fork());
    if (ranks.back() == 0) _exit(rank_body(rank));
  }
  for (const pid_t rank : ranks) {
    int status = 0;
    waitpid(rank, &status, 0);
    outcome += std::to_string(WIFEXITED(status) ? WEXITSTATUS(status) : -1) + " ";
  }
  return outcome;
}

TEST(RendezvousTest, FallsBackToGlooWithoutASegment) {
  EXPECT_EQ(backend_without_segment(Backend::kAuto), "10 10 ");
}

TEST(RendezvousTest, RefusesForcedSharedMemoryWithoutASegment) {
  EXPECT_EQ(backend_without_segment(Backend::kSharedMemory), "12 12 ");
}

// Rank 1 is killed between two operations; returns what rank 0 threw.
std::string message_after_kill(Backend backend) {
  const common::LoopbackPort port;
  const std::string path =
      std::filesystem::temp_directory_path() / ("rendezvous-" + std::to_string(getpid()));
  const pid_t peer = fork();
  if (peer == 0) {
    const auto collective = connect(local_options(1, 2, port.number(), backend));
    check_all_to_all(*collective, 100, 0);
    kill(getpid(), SIGKILL);
  }
  // In a process of its own too: torch's threads do not survive a later fork in this one.
  const pid_t survivor = fork();
  if (survivor == 0) {
    const auto collective = connect(local_options(0, 2, port.number(), backend));
    check_all_to_all(*collective, 100, 0);
    std::vector<std::byte> send(20000);
    std::vector<std::byte> recv(20000);
    try {
      collective->all_to_all(send, recv, "unit layer.3", Reach::kWorld)->wait();
    } catch (const PeerLostError& error) {
      std::ofstream(path) << error.what();
    }
    _exit(0);
  }
  waitpid(peer, nullptr, 0);
  waitpid(survivor, nullptr, 0);
  std::ifstream file(path);
  std::string message(std::istreambuf_iterator<char>(file), {});
  std::filesystem::remove(path);
  return message;
}

TEST(RendezvousTest, NamesAKilledPeerOverGloo) {
  EXPECT_THAT(message_after_kill(Backend::kGloo),
              HasSubstr("all_to_all of unit layer.3: rank 1 is dead; rank 0 in operation 2"));
}

// Rank 1 is killed so long after it began to make a group, which may be made by then; returns what
// rank 0 threw.
std::string message_after_kill_in_split(std::chrono::milliseconds delay) {
  const common::LoopbackPort port;
  const std::string path =
      std::filesystem::temp_directory_path() / ("split-" + std::to_string(getpid()));
  const auto take_part = [&](int rank, const std::function<void()>& before_split) {
    RendezvousOptions options = local_options(rank, 2, port.number(), Backend::kGloo);
    options.timeout = std::chrono::milliseconds(3000);
    const auto collective = connect(options);
    check_all_to_all(*collective, 100, 0);
    before_split();
    const std::vector<int> members = {0, 1};
    const auto group = collective->split(members);
    while (true) check_all_gather(*group, 100, true, 0);
  };
  const pid_t peer = fork();
  if (peer == 0) {
    take_part(1, [delay] {
      std::thread([delay] {
        std::this_thread::sleep_for(delay);
        kill(getpid(), SIGKILL);
      }).detach();
    });
  }
  const pid_t survivor = fork();
  if (survivor == 0) {
    try {
      take_part(0, [] {});
    } catch (const PeerLostError& error) {
      std::ofstream(path) << "lost: " << error.what();
    } catch (const CollectiveTimeoutError& error) {
      std::ofstream(path) << "timeout: " << error.what();
    } catch (const std::exception& error) {
      std::ofstream(path) << "untyped: " << error.what();
    }
    _exit(0);
  }
  waitpid(peer, nullptr, 0);
  int status = 0;
  waitpid(survivor, &status, 0);
  std::ifstream file(path);
  std::string message(std::istreambuf_iterator<char>(file), {});
  std::filesystem::remove(path);
  return status == 0 ? message : message + " status " + std::to_string(status);
}

TEST(RendezvousTest, NamesAPeerThatIsKilledWhileGlooMakesAGroup) {
  for (const int delay : {0, 1, 2, 4, 8, 16}) {
    const std::string message = message_after_kill_in_split(std::chrono::milliseconds(delay));
    EXPECT_THAT(message, testing::Not(testing::StartsWith("untyped"))) << delay << " ms";
    EXPECT_THAT(message, HasSubstr("rank 1 ")) << delay << " ms";
  }
}

TEST(RendezvousTest, NamesTheRankThatDivergesOverGloo) {
  const common::LoopbackPort port;
  run_ranks(3, [&](int rank) {
    const auto collective = connect(local_options(rank, 3, port.number(), Backend::kGloo));
    check_divergence(*collective, 2);
  });
}

TEST(RendezvousTest, NamesAKilledPeerOverSharedMemory) {
  EXPECT_THAT(message_after_kill(Backend::kSharedMemory), HasSubstr("rank 1"));
}

TEST(RendezvousTest, GlooTellsALatePeerFromALostOne) {
  const common::LoopbackPort port;
  std::atomic<bool> done{false};
  run_ranks(2, [&](int rank) {
    RendezvousOptions options = local_options(rank, 2, port.number(), Backend::kGloo);
    options.timeout = std::chrono::milliseconds(3000);
    const auto collective = connect(options);
    if (rank == 1) {  // there, but never taking part
      done.wait(false);
      return;
    }
    std::vector<std::byte> send(64);
    std::vector<std::byte> recv(64);
    try {
      collective->all_to_all(send, recv, "unit 0", Reach::kWorld)->wait();
      ADD_FAILURE() << "nobody came";
    } catch (const CollectiveTimeoutError& error) {
      EXPECT_THAT(error.what(), HasSubstr("all_to_all of unit 0: rank 1 did not arrive within "
                                          "3000 ms; rank 0 in operation 1 (all_to_all of unit 0, "
                                          "step 0); rank 1 before its first operation"));
    }
    done = true;
    done.notify_all();
  });
}

}  // namespace
}  // namespace lockstep::runtime
