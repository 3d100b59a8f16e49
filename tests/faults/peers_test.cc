// A rank that dies or hangs in mid-run: the others end, with its name and where every rank stood.
#include <filesystem>
#include <ostream>

#include <gtest/gtest.h>
#include <signal.h>

#include "tests/support/paths.h"
#include "tests/support/tiny_job.h"

namespace lockstep::faults {
namespace {

using common::ExitCode;
using support::Gang;
using support::GangOptions;
using support::read_curve;
using support::TemporaryFolder;

constexpr int kRanks = 4;

struct PeerFault {
  const char* backend;
  int rank;
  int signal_number;
};

void PrintTo(const PeerFault& fault, std::ostream* out) {
  *out << fault.backend << ", signal " << fault.signal_number << " to rank " << fault.rank;
}

class PeersTest : public testing::TestWithParam<PeerFault> {};

TEST_P(PeersTest, TheOthersEndAndNameIt) {
  const PeerFault fault = GetParam();
  TemporaryFolder folder;
  support::write_text(folder.path("corpus.txt"), support::tiny_corpus(20000));
  GangOptions options{.runtime = support::kRuntimeProgram,
                      .job = support::to_json({.ranks = kRanks,
                                               .strategy = "zero3",
                                               .backend = fault.backend,
                                               .data = folder.path("corpus.txt"),
                                               .steps = 100000}),
                      .folder = folder.path("files"),
                      .output = folder.path("output"),
                      .num_ranks = kRanks};
  const bool is_grouped = std::string(fault.backend) == "auto";
  for (int rank = 0; is_grouped && rank < kRanks; ++rank) {
    const std::string host = folder.path("host-" + std::to_string(rank / 2));
    std::filesystem::create_directories(host);
    options.rank_env[rank]["LOCKSTEP_SHM_DIR"] = host;
  }
  const bool hangs = fault.signal_number == SIGSTOP;
  options.job["train"]["communication"]["timeoutSeconds"] = hangs ? 3 : 600;
  Gang gang(options);
  ASSERT_TRUE(gang.wait_until([&] { return read_curve(folder.path("output")).size() >= 3; }))
      << gang.log(0);
  EXPECT_EQ(gang.log(0).find("backend=shared-memory+gloo") != std::string::npos, is_grouped)
      << gang.log(0);
  gang.send(fault.rank, fault.signal_number);
  gang.wait_until([&] {
    int num_ended = 0;
    for (int rank = 0; rank < kRanks; ++rank) num_ended += gang.last_words(rank) ? 1 : 0;
    return num_ended == kRanks - 1;
  });
  gang.send(fault.rank, SIGKILL);
  const std::vector<int> exit_codes = gang.wait();

  const std::string culprit = "rank " + std::to_string(fault.rank);
  int num_timeouts = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == fault.rank) continue;
    const int code = exit_codes[static_cast<std::size_t>(rank)];
    const bool timed_out = code == static_cast<int>(ExitCode::kCollectiveTimeout);
    num_timeouts += timed_out ? 1 : 0;
    EXPECT_TRUE(timed_out || code == static_cast<int>(ExitCode::kPeerLost)) << gang.log(rank);
    const auto words = gang.last_words(rank);
    ASSERT_TRUE(words) << gang.log(rank);
    EXPECT_NE(words->message.find(": " + culprit + (hangs ? " did not arrive " : " is dead")),
              std::string::npos)
        << words->message;
    EXPECT_NE(words->message.find("; " + culprit + " "), std::string::npos) << words->message;
    EXPECT_NE(words->message.find(", step "), std::string::npos) << words->message;
  }
  EXPECT_EQ(num_timeouts > 0, hangs) << "a dead rank is not waited for";
}

INSTANTIATE_TEST_SUITE_P(
    Faults, PeersTest,
    testing::Values(PeerFault{"shared-memory", 0, SIGKILL}, PeerFault{"shared-memory", 2, SIGSTOP},
                    PeerFault{"gloo", 0, SIGKILL}, PeerFault{"gloo", 1, SIGKILL},
                    PeerFault{"gloo", 0, SIGSTOP}, PeerFault{"gloo", 1, SIGSTOP},
                    PeerFault{"auto", 3, SIGKILL}, PeerFault{"auto", 1, SIGSTOP}),
    [](const auto& row) {
      const PeerFault& fault = row.param;
      const std::string backend = fault.backend;
      const char* const word = backend == "gloo"   ? "Gloo"
                               : backend == "auto" ? "TwoHosts"
                                                   : "SharedMemory";
      return std::string(word) + "Rank" + std::to_string(fault.rank) +
             (fault.signal_number == SIGSTOP ? "Hangs" : "Dies");
    });

}  // namespace
}  // namespace lockstep::faults
