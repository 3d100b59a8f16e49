#include "operator/plan/failure.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/common/exit_code.h"
#include "tests/operator/plan/model_cluster.h"

namespace lockstep::plan {
namespace {

using common::ExitCode;

PodView failed_pod(int64_t exit_code) {
  PodView pod;
  pod.phase = PodPhase::kFailed;
  pod.node = "n7";
  pod.exit = ContainerExit{.exit_code = exit_code, .reason = "Error", .finished_at = kStart};
  return pod;
}

TEST(FailureTest, TypedExitCodesDecideTheVerdict) {
  const struct {
    ExitCode code;
    Verdict verdict;
    const char* reason;
  } table[] = {
      {ExitCode::kInvalidConfig, Verdict::kFail, "InvalidConfig"},
      {ExitCode::kInputNotFound, Verdict::kFail, "InputNotFound"},
      {ExitCode::kInputUnavailable, Verdict::kRestart, "InputUnavailable"},
      {ExitCode::kInvalidData, Verdict::kFail, "InvalidData"},
      {ExitCode::kOutputFinished, Verdict::kFail, "OutputFinished"},
      {ExitCode::kOutputNotShared, Verdict::kFail, "OutputNotShared"},
      {ExitCode::kNoDevice, Verdict::kFail, "NoDevice"},
      {ExitCode::kInternal, Verdict::kRestart, "Internal"},
      {ExitCode::kRendezvousTimeout, Verdict::kRestart, "RendezvousTimeout"},
      {ExitCode::kCollectiveTimeout, Verdict::kRestart, "CollectiveTimeout"},
      {ExitCode::kPeerLost, Verdict::kRestart, "PeerLost"},
      {ExitCode::kPreempted, Verdict::kRestartFree, "Preempted"},
  };
  for (const auto& row : table) {
    const RankFailure failure = classify(failed_pod(static_cast<int>(row.code)), {3}, true);
    EXPECT_EQ(failure.verdict, row.verdict) << row.reason;
    EXPECT_EQ(failure.reason, row.reason);
    EXPECT_EQ(failure.rank, 3);
    EXPECT_EQ(failure.node, "n7");
    EXPECT_EQ(failure.is_peer_loss, row.code == ExitCode::kPeerLost);
    EXPECT_EQ(failure.is_preemption, row.code == ExitCode::kPreempted);
    EXPECT_FALSE(failure.message.empty());
  }
}

TEST(FailureTest, UnknownExitCodeRestartsWithinTheBudget) {
  EXPECT_EQ(classify(failed_pod(1), {0}, true).verdict, Verdict::kRestart);
  EXPECT_EQ(classify(failed_pod(1), {0}, true).reason, "ExitCode1");
  EXPECT_EQ(classify(failed_pod(137), {0}, true).message, "ended by signal 9");
  EXPECT_EQ(classify(failed_pod(0), {0}, true).verdict, Verdict::kRestart);
  EXPECT_EQ(classify(failed_pod(-5), {0}, true).verdict, Verdict::kRestart);
  EXPECT_EQ(classify(failed_pod(int64_t{1} << 40), {0}, true).verdict, Verdict::kRestart);
}

TEST(FailureTest, OwnProgramsExitCodesMeanNothingToUsUnlessTheySaySo) {
  PodView pod = failed_pod(static_cast<int>(ExitCode::kInvalidConfig));
  EXPECT_EQ(classify(pod, {0}, false).verdict, Verdict::kRestart);
  pod.exit->message = common::encode({.rank = 0, .step = 5, .reason = "InvalidConfig"});
  EXPECT_EQ(classify(pod, {0}, false).verdict, Verdict::kFail);
}

TEST(FailureTest, MemoryThatRanOutHasOneVerdictWhoeverNoticed) {
  PodView killed = failed_pod(137);  // by the kernel
  killed.exit->reason = "OOMKilled";
  const PodView refused = failed_pod(static_cast<int>(ExitCode::kOutOfMemory));  // by bad_alloc
  EXPECT_EQ(classify(killed, {0}, true).verdict, Verdict::kRestart);
  EXPECT_EQ(classify(refused, {0}, true).verdict, Verdict::kRestart);
  EXPECT_FALSE(classify(killed, {0}, true).blames_node);
  EXPECT_FALSE(classify(refused, {0}, true).blames_node);
}

TEST(FailureTest, OutOfMemoryKillIsRecognisedByReasonNotByCode) {
  for (const int64_t code : {137, 7, 78}) {  // 7: a child was killed, the main process went on
    PodView pod = failed_pod(code);
    pod.exit->reason = "OOMKilled";
    const RankFailure failure = classify(pod, {0}, true);
    EXPECT_EQ(failure.reason, "OOMKilled");
    EXPECT_EQ(failure.verdict, Verdict::kRestart);
    EXPECT_NE(failure.hint.find("resources.limits.memory"), std::string::npos);
  }
}

// What a program of the user's own leaves in the tail of its log.
TEST(FailureTest, MemoryOfAGpuIsToldFromTheContainers) {
  const std::string words =
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total "
      "capacity of 79.15 GiB of which 2.00 MiB is free.";
  for (const std::string& log :
       {words, "Traceback (most recent call last):\n" + words + "\n",
        "an out of memory handler is on\n" + words + "\n",
        "step 3\n" + words + "\nE1122 failed (exitcode: 1) local_rank: 0\n=====\n"}) {
    PodView pod = failed_pod(1);
    pod.exit->message = log;
    const RankFailure failure = classify(pod, {2}, false);
    EXPECT_EQ(failure.reason, "CudaOutOfMemory");
    EXPECT_EQ(failure.verdict, Verdict::kRestart);
    EXPECT_EQ(failure.message, words);
    EXPECT_NE(failure.hint.find("not the container's"), std::string::npos);
    EXPECT_FALSE(failure.blames_node);
    pod.exit->reason = "OOMKilled";  // the kernel's word counts more than an older line of the log
    EXPECT_EQ(classify(pod, {2}, false).reason, "OOMKilled");
  }
  for (const char* log : {"RuntimeError: CUDA error: out of memory", "HIP out of memory."}) {
    PodView pod = failed_pod(1);
    pod.exit->message = log;
    EXPECT_EQ(classify(pod, {2}, false).reason, "CudaOutOfMemory") << log;
    EXPECT_EQ(classify(pod, {2}, false).message, log);
  }
  PodView other = failed_pod(1);
  other.exit->message = "the out of memory handler is on";
  EXPECT_EQ(classify(other, {2}, false).reason, "ExitCode1");
  // Our own ranks say it by their exit code.
  PodView typed = failed_pod(static_cast<int>(ExitCode::kOutOfMemory));
  EXPECT_EQ(classify(typed, {2}, true).reason, "OutOfMemory");
}

TEST(FailureTest, TheNodesReasonsCostNothing) {
  for (const char* reason : {"Evicted", "Preempting", "NodeLost", "Terminated", "NodeShutdown",
                             "OutOfcpu", "OutOfnvidia.com/gpu", "UnexpectedAdmissionError"}) {
    PodView pod = failed_pod(137);
    pod.reason = reason;
    EXPECT_EQ(classify(pod, {0}, true).verdict, Verdict::kRestartFree) << reason;
    EXPECT_EQ(classify(pod, {0}, true).reason, reason);
    pod.exit.reset();
    EXPECT_EQ(classify(pod, {0}, true).verdict, Verdict::kRestartFree) << reason;
  }
}

TEST(FailureTest, PodDeletedFromOutsideCostsNothingUnlessItSaidItCannotRun) {
  PodView pod = failed_pod(143);
  pod.deleting = true;
  EXPECT_EQ(classify(pod, {0}, false).verdict, Verdict::kRestartFree);
  EXPECT_EQ(classify(pod, {0}, false).reason, "PodDeleted");
  pod.exit->exit_code = static_cast<int>(ExitCode::kInputNotFound);
  EXPECT_EQ(classify(pod, {0}, true).verdict, Verdict::kFail);
}

TEST(FailureTest, FailedPodWithoutExitIsRestarted) {
  PodView pod = failed_pod(1);
  pod.exit.reset();
  pod.reason = "Strange";
  const RankFailure failure = classify(pod, {0}, true);
  EXPECT_EQ(failure.verdict, Verdict::kRestart);
  EXPECT_EQ(failure.exit_code, -1);
  EXPECT_EQ(failure.message, "the pod failed without an exit code: Strange");
}

TEST(FailureTest, TerminationMessageIsFoundAfterLinesOfLog) {
  PodView pod = failed_pod(static_cast<int>(ExitCode::kNonFinite));
  pod.exit->message = "step=120 loss=nan\n" +
                      common::encode({.rank = 0,
                                      .step = 120,
                                      .reason = "NonFinite",
                                      .message = "loss is nan",
                                      .hint = "lower optimizer.lr"}) +
                      "\n";
  const RankFailure failure = classify(pod, {0}, true);
  EXPECT_EQ(failure.message, "loss is nan");
  EXPECT_EQ(failure.hint, "lower optimizer.lr");
  EXPECT_EQ(failure.step, 120);
}

TEST(FailureTest, AnythingElseShowsItsLastLineAsValidText) {
  PodView pod = failed_pod(1);
  pod.exit->message = "Traceback\n  ValueError: \xff\xfe bad\n\n";
  EXPECT_EQ(classify(pod, {0}, false).message, "  ValueError: \xEF\xBF\xBD\xEF\xBF\xBD bad");
  pod.exit->message = std::string(5000, 'x');
  EXPECT_EQ(classify(pod, {0}, false).message.size(), 1024u);
}

RankFailure at(int64_t rank, int64_t second, bool is_peer_loss) {
  return {.rank = rank,
          .is_peer_loss = is_peer_loss,
          .finished_at = kStart + std::chrono::seconds(second)};
}

TEST(FailureTest, CauseIsTheEarliestThatIsNotAPeerLoss) {
  const std::vector<RankFailure> failures = {at(0, 1, true), at(1, 5, false), at(2, 3, false),
                                             at(3, 3, false)};
  EXPECT_EQ(first_failure(failures)->rank, 2);
  EXPECT_EQ(first_failure(std::vector<RankFailure>{at(2, 4, true), at(1, 4, true)})->rank, 1);
  EXPECT_FALSE(first_failure({}).has_value());
}

TEST(FailureTest, FailureWithoutATimeComesAfterThoseThatLeftOne) {
  EXPECT_EQ(first_failure(std::vector<RankFailure>{deleted_rank(0), at(1, 9, false)})->rank, 1);
  EXPECT_EQ(first_failure(std::vector<RankFailure>{deleted_rank(1), at(0, 1, true)})->rank, 1);
}

TEST(FailureTest, BackoffDoublesUpToAMinute) {
  const std::vector<int64_t> expected = {1, 2, 4, 8, 16, 32, 60, 60, 60};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(restart_backoff(static_cast<int64_t>(i) + 1).count(), expected[i]);
  }
  EXPECT_EQ(restart_backoff(0).count(), 1);
  EXPECT_EQ(restart_backoff(1000000).count(), 60);
}

TEST(FailureTest, PodOfSeveralRanksNamesTheOneThatItsLauncherNames) {
  PodView pod = failed_pod(137);
  pod.name = "demo-0-4";
  const struct {
    const char* message;
    int64_t expected;
  } table[] = {
      {R"({"rank":6,"step":9,"reason":"ExitCode137","message":"ended by signal 9"})", 6},
      {R"({"rank":7,"step":9,"reason":"ExitCode137","message":"ended by signal 9"})", 7},
      {R"({"rank":8,"step":9,"reason":"ExitCode137","message":"of another pod"})", 4},
      {R"({"rank":-1,"step":9,"reason":"ExitCode137","message":"of none"})", 4},
      {"", 4},
  };
  for (const auto& row : table) {
    pod.exit->message = row.message;
    const RankFailure failure = classify(pod, {.first = 4, .count = 4}, true);
    EXPECT_EQ(failure.rank, row.expected) << row.message;
    EXPECT_EQ(failure.pod, "demo-0-4");
    EXPECT_EQ(failure.reason, "ExitCode137");
  }
  pod.exit->reason = "OOMKilled";
  pod.exit->message = table[0].message;
  EXPECT_EQ(classify(pod, {.first = 4, .count = 4}, true).rank, 6);
}

}  // namespace
}  // namespace lockstep::plan
