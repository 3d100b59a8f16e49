#include "tests/faults/fault_matrix.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include <gtest/gtest.h>
#include <signal.h>

namespace lockstep::faults {
namespace {

using common::ExitCode;
using support::Gang;
using support::GangOptions;

constexpr std::chrono::seconds kLimit = 10 * FaultyRuns::kTimeout;

constexpr int number_of(ExitCode code) {
  return static_cast<int>(code);
}

// How one rank's process may end.
using Ends = std::set<int>;

// Of the struck rank, which was killed in the end if it was stopped.
Ends own_ends(const Fault& fault) {
  if (fault.signal == "delay") return {number_of(ExitCode::kPeerLost)};
  if (fault.signal != "term") return {-SIGKILL};
  if (fault.phase.stage != Stage::kEnd) return {number_of(ExitCode::kPreempted)};
  return {number_of(ExitCode::kPreempted), 0};  // the end may be faster than the signal
}

// Of the others.
Ends ends_of_others(const Fault& fault) {
  Ends ends = {number_of(ExitCode::kPeerLost)};
  if (fault.phase.stage == Stage::kMeeting) ends.insert(number_of(ExitCode::kRendezvousTimeout));
  if (fault.signal == "stop" || fault.signal == "delay")
    ends.insert(number_of(ExitCode::kCollectiveTimeout));
  if (fault.signal != "term") return ends;
  if (fault.phase.stage == Stage::kTraining) return {number_of(ExitCode::kPreempted)};
  if (fault.phase.stage == Stage::kEnd) ends.insert(0);
  // The signal may be read when the ranks already train.
  if (fault.phase.stage == Stage::kSetUp) ends.insert(number_of(ExitCode::kPreempted));
  return ends;
}

// Ends of ranks that must say whose fault it was.
const Ends& ends_that_name() {
  static const Ends ends = {number_of(ExitCode::kPeerLost), number_of(ExitCode::kCollectiveTimeout),
                            number_of(ExitCode::kRendezvousTimeout)};
  return ends;
}

bool names(const std::string& message, int rank) {
  const std::string name = "rank " + std::to_string(rank);
  const std::vector<std::string> ways = {name + " is dead", name + " left", name + " has left",
                                         name + " did not ", "for " + name};
  return std::any_of(ways.begin(), ways.end(), [&message](const std::string& way) {
    return message.find(way) != std::string::npos;
  });
}

void check_ends(const Fault& fault, const Gang& gang, const std::vector<int>& codes) {
  int num_naming = 0;
  int num_told = 0;
  for (int rank = 0; rank < fault.sharing.ranks; ++rank) {
    const int code = codes[static_cast<std::size_t>(rank)];
    const bool is_culprit = rank == fault.rank();
    const Ends expected = is_culprit ? own_ends(fault) : ends_of_others(fault);
    EXPECT_TRUE(expected.contains(code)) << "rank " << rank << " ended with " << code << "\n"
                                         << gang.log(rank);
    if (is_culprit || !ends_that_name().contains(code)) continue;
    ++num_told;
    const auto words = gang.last_words(rank);
    const std::string message = words ? words->message : "";
    // Rank 0 leads the meeting: when it waits in it or gives it up, the others may know only that.
    const bool blames_the_leader = fault.phase.stage == Stage::kMeeting && names(message, 0);
    num_naming += names(message, fault.rank()) ? 1 : 0;
    EXPECT_TRUE(blames_the_leader || names(message, fault.rank())) << gang.log(rank);
  }
  EXPECT_TRUE(num_told == 0 || num_naming > 0) << "nobody names rank " << fault.rank();
}

}  // namespace

const std::vector<Phase>& all_phases() {
  static const std::vector<Phase> phases = {
      {"start", Stage::kMeeting, "start"},
      {"rendezvous", Stage::kMeeting, "rendezvous"},
      {"meeting", Stage::kMeeting, "meeting"},
      {"set-up", Stage::kSetUp, "communication", "strategy"},
      {"data", Stage::kTraining, "data"},
      {"forward", Stage::kTraining, "forward", "layer.0"},
      {"backward", Stage::kTraining, "backward", "layer.1"},
      {"communication", Stage::kTraining, "communication"},
      {"optimizer", Stage::kTraining, "optimizer", "update"},
      {"saving", Stage::kTraining, "write", "/rank-"},
      {"publishing", Stage::kTraining, "rename", "/checkpoints/step-", "communication",
       "checkpoint pieces"},
      {"export", Stage::kEnd, "write", "model.safetensors"},
      {"finishing", Stage::kEnd, "rename", "finished.json", "communication",
       "finishing the output"}};
  return phases;
}

Phase slow_communication() {
  return {"slow communication", Stage::kTraining, "communication", "step control"};
}

int Fault::rank() const {
  if (place == "first") return 0;
  return place == "last" ? sharing.ranks - 1 : sharing.ranks / 2;
}

std::string name_of(const Fault& fault) {
  return fault.signal + " of rank " + std::to_string(fault.rank()) + " in " + fault.phase.name +
         ", " + fault.sharing.name + " over " + fault.backend;
}

std::vector<std::vector<Fault>> chains_of(const std::vector<Fault>& faults,
                                          std::size_t num_faults) {
  std::vector<std::vector<Fault>> chains;
  std::map<std::pair<std::string, std::string>, std::size_t> open;  // chain of backend and sharing
  for (const Fault& fault : faults) {
    const std::pair<std::string, std::string> key(fault.backend, fault.sharing.name);
    const auto found = open.find(key);
    if (found == open.end() || chains[found->second].size() == num_faults) {
      open[key] = chains.size();
      chains.emplace_back();
    }
    chains[open[key]].push_back(fault);
  }
  return chains;
}

void FaultMatrix::strike_once(const std::string& run, const Fault& fault, int attempt) {
  const int64_t before = runs_.newest_checkpoint(run);
  const int culprit = fault.rank();
  const bool is_other = culprit != 0 && fault.phase.others_point != nullptr;
  GangOptions options = runs_.options(run, fault.sharing, attempt, fault.backend);
  const std::string mark =
      runs_.strike(options, culprit,
                   {{"at", is_other ? fault.phase.others_point : fault.phase.point},
                    {"what", is_other ? fault.phase.others_what : fault.phase.what},
                    {"step", fault.phase.stage == Stage::kTraining ? before + 3 : 0},
                    {"do", fault.signal},
                    {"milliseconds", 3000 * FaultyRuns::kTimeout.count()}});

  active_.acquire();
  Gang gang(options);
  gang.wait_until([&] { return std::filesystem::exists(mark); });
  const auto struck_at = std::chrono::steady_clock::now();
  const bool waits =
      fault.signal == "stop" || fault.signal == "delay" || fault.phase.stage == Stage::kMeeting;
  if (waits) active_.release();
  EXPECT_TRUE(std::filesystem::exists(mark)) << "never struck\n" << gang.log(culprit);
  const auto others_ended = [&] {
    for (int rank = 0; rank < fault.sharing.ranks; ++rank) {
      if (rank != culprit && !gang.has_ended(rank)) return false;
    }
    return true;
  };
  const auto is_late = [&] { return std::chrono::steady_clock::now() > struck_at + kLimit; };
  gang.wait_until([&] { return others_ended() || is_late(); });
  EXPECT_TRUE(others_ended()) << "ranks hang";
  if (fault.signal == "stop" || is_late()) {
    for (int rank = 0; rank < fault.sharing.ranks; ++rank) gang.send(rank, SIGKILL);
  }
  const std::vector<int> codes = gang.wait();
  if (!waits) active_.release();

  check_ends(fault, gang, codes);
  EXPECT_GE(runs_.newest_checkpoint(run), before);
  if (fault.signal == "term" && fault.phase.stage == Stage::kTraining) {
    EXPECT_GE(runs_.newest_checkpoint(run), std::stoll(support::read_text(mark)))
        << "the step under way was not saved";
  }
  EXPECT_EQ(gang.log(0).find("checkpoint damaged"), std::string::npos) << gang.log(0);
}

// The attempt that is left alone.
void FaultMatrix::finish(const std::string& run, const Fault& last, int attempt) {
  const int64_t newest = runs_.newest_checkpoint(run);
  active_.acquire();
  Gang gang(runs_.options(run, last.sharing, attempt, last.backend));
  const std::vector<int> codes = gang.wait();
  active_.release();
  EXPECT_EQ(codes, std::vector<int>(codes.size(), 0)) << gang.log(0);
  const std::string log = gang.log(0);
  if (newest > 0 && log.find("already finished") == std::string::npos) {
    EXPECT_NE(log.find("/checkpoints/step-" + std::to_string(newest) + "\""), std::string::npos)
        << log;
  }
  runs_.expect_undisturbed_bits(run);
}

void FaultMatrix::strike(const std::string& run, const std::vector<Fault>& faults) {
  std::string history = run;
  int attempt = 0;
  for (const Fault& fault : faults) {
    // A signal at the very end may come when all is done; then nothing is left to strike.
    if (std::filesystem::exists(runs_.path(run) + "/finished.json")) break;
    history += "\n  attempt " + std::to_string(attempt) + ": " + name_of(fault);
    const testing::ScopedTrace trace(__FILE__, __LINE__, history);
    strike_once(run, fault, attempt++);
  }
  const testing::ScopedTrace trace(__FILE__, __LINE__, history);
  finish(run, faults.back(), attempt);
}

void FaultMatrix::strike_all(const std::vector<std::vector<Fault>>& chains,
                             std::size_t num_threads) {
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < chains.size(); i = next++) {
      strike("run " + std::to_string(i), chains[i]);
    }
  };
  std::vector<std::jthread> threads;
  threads.reserve(num_threads);
  for (std::size_t i = 0; i < num_threads; ++i) threads.emplace_back(work);
}

}  // namespace lockstep::faults
