#include "operator/plan/failure.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>
#include <tuple>

#include <nlohmann/json.hpp>

#include "runtime/common/exit_code.h"

namespace lockstep::plan {
namespace {

using common::ExitCode;
using common::ExitCodeInfo;
using common::TerminationMessage;

constexpr std::string_view kOomKilled = "OOMKilled";
constexpr std::string_view kCudaOutOfMemory = "CudaOutOfMemory";
constexpr std::size_t kMaxMessageBytes = 1024;

// Reasons that the kubelet and the control plane give to pods that they end, or refuse to start,
// for the node's sake.
constexpr std::array<std::string_view, 11> kNodeReasons = {
    "Evicted",           "Preempting",       "NodeLost",     "Terminated",
    "NodeShutdown",      "Shutdown",         "NodeAffinity", "NodeName",
    "NodeUnschedulable", "DisruptionTarget", "NodePorts"};

// The node took the pod and then would not start it; it may do so for ever.
bool is_refusal(std::string_view reason) {
  return reason.starts_with("OutOf") ||  // OutOfcpu, OutOfmemory, OutOfnvidia.com/gpu
         reason == "UnexpectedAdmissionError" || reason == "TopologyAffinityError";
}

bool is_node_reason(std::string_view reason) {
  return is_refusal(reason) ||
         std::find(kNodeReasons.begin(), kNodeReasons.end(), reason) != kNodeReasons.end();
}

// The last line that says something.
std::string_view last_line(std::string_view text) {
  const std::size_t end = text.find_last_not_of(" \t\r\n");
  if (end == std::string_view::npos) return {};
  text = text.substr(0, end + 1);
  const std::size_t start = text.find_last_of("\r\n");
  return start == std::string_view::npos ? text : text.substr(start + 1);
}

// `text` in valid UTF-8 and not too long for a status: programs write anything.
std::string presentable(std::string_view text) {
  using nlohmann::json;
  const std::string bounded(text.substr(0, kMaxMessageBytes));
  const std::string valid = json(bounded).dump(-1, ' ', false, json::error_handler_t::replace);
  return json::parse(valid).get<std::string>();
}

// Where a program of PyTorch says that a GPU's memory ran out; npos if it does not. The words are
// in the tail of its log, not always in the last line: torchrun adds a summary.
// Source: pytorch c10/cuda/CUDACachingAllocator.cpp, torch/csrc/Exceptions.cpp.
std::size_t find_cuda_out_of_memory(std::string_view text) {
  constexpr std::array<std::string_view, 3> kWords = {"CUDA out of memory", "HIP out of memory",
                                                      "CUDA error: out of memory"};
  std::size_t first = std::string_view::npos;
  for (const std::string_view words : kWords) first = std::min(first, text.find(words));
  return first;
}

// The line of `text` that holds position `at`.
std::string_view line_at(std::string_view text, std::size_t at) {
  const std::size_t begin = text.find_last_of("\r\n", at);
  const std::size_t end = text.find_first_of("\r\n", at);
  text = text.substr(0, end);
  return begin == std::string_view::npos ? text : text.substr(begin + 1);
}

std::string describe_exit(int64_t exit_code) {
  constexpr int64_t kSignalBase = 128;
  constexpr int64_t kLastSignal = 64;
  if (exit_code > kSignalBase && exit_code <= kSignalBase + kLastSignal) {
    return "ended by signal " + std::to_string(exit_code - kSignalBase);
  }
  return "exit code " + std::to_string(exit_code);
}

Verdict verdict_of(const ExitCodeInfo& info) {
  if (!info.retryable) return Verdict::kFail;
  return info.charged ? Verdict::kRestart : Verdict::kRestartFree;
}

// The entry of our table for this exit, if the exit is ours.
std::optional<ExitCodeInfo> typed_exit(const ContainerExit& exit, bool typed_exit_codes,
                                       const std::optional<TerminationMessage>& told) {
  if (exit.exit_code <= 0 || exit.exit_code > std::numeric_limits<int>::max()) return std::nullopt;
  const std::optional<ExitCodeInfo> info = common::find_exit_code(static_cast<int>(exit.exit_code));
  if (!info) return std::nullopt;
  const bool is_ours = typed_exit_codes || (told && told->reason == info->reason);
  return is_ours ? info : std::nullopt;
}

// The verdict on a container that ran and ended by itself.
void judge_exit(const ContainerExit& exit, const std::optional<ExitCodeInfo>& info,
                RankFailure& failure) {
  if (!info) {
    failure.verdict = Verdict::kRestart;
    failure.reason = "ExitCode" + std::to_string(exit.exit_code);
    failure.blames_node = true;
    return;
  }
  failure.verdict = verdict_of(*info);
  failure.reason = std::string(info->reason);
  failure.is_peer_loss = info->code == ExitCode::kPeerLost;
  failure.is_preemption = info->code == ExitCode::kPreempted;
  failure.blames_node = failure.verdict == Verdict::kRestart && !failure.is_peer_loss &&
                        info->code != ExitCode::kOutOfMemory;
}

// A GPU's memory, not the container's: the kubelet knows nothing of it. The log says so at `at`.
void judge_cuda_out_of_memory(std::string_view text, std::size_t at, RankFailure& failure) {
  failure.verdict = Verdict::kRestart;
  failure.reason = kCudaOutOfMemory;
  failure.message = presentable(line_at(text, at));
  failure.blames_node = false;
  failure.hint =
      "the GPU's memory ran out, not the container's: use a smaller micro-batch, shard the model "
      "over more ranks, or recompute activations";
}

// Fills in what the exit itself tells, before any verdict.
std::optional<TerminationMessage> read_exit(const ContainerExit& exit, RankFailure& failure) {
  failure.exit_code = exit.exit_code;
  if (exit.finished_at != api::Time{}) failure.finished_at = exit.finished_at;
  const std::string_view line = last_line(exit.message);
  const std::optional<TerminationMessage> told = common::decode_termination_message(line);
  if (told) {
    failure.step = told->step;
    failure.message = presentable(told->message);
    failure.hint = presentable(told->hint);
  } else {
    failure.message = presentable(line);
  }
  if (failure.message.empty()) failure.message = describe_exit(exit.exit_code);
  return told;
}

}  // namespace

RankFailure classify(const PodView& pod, PodRanks ranks, bool typed_exit_codes) {
  RankFailure failure = {.rank = ranks.first,
                         .reason = "PodFailed",
                         .pod = pod.name,
                         .node = pod.node,
                         .exit_code = -1};
  std::optional<TerminationMessage> told;
  if (pod.exit) told = read_exit(*pod.exit, failure);
  if (told && told->rank >= ranks.first && told->rank - ranks.first < ranks.count) {
    failure.rank = told->rank;
  }

  // The kernel may kill a child while the main process ends with a code of its own, so the
  // kubelet's reason counts, not the code.
  if (pod.exit && pod.exit->reason == kOomKilled) {
    failure.reason = kOomKilled;
    failure.message = "the container used more memory than its limit";
    failure.hint = "raise resources.limits.memory, or use a smaller microBatchSize or zero3";
    return failure;
  }
  if (is_node_reason(pod.reason)) {
    failure.verdict = Verdict::kRestartFree;
    failure.reason = presentable(pod.reason);
    failure.message = "the node ended the pod or refused to start it";
    failure.blames_node = is_refusal(pod.reason);
    return failure;
  }
  if (pod.exit) {
    const std::optional<ExitCodeInfo> info = typed_exit(*pod.exit, typed_exit_codes, told);
    judge_exit(*pod.exit, info, failure);
    const std::size_t at = find_cuda_out_of_memory(pod.exit->message);
    if (!info && at != std::string_view::npos) {
      judge_cuda_out_of_memory(pod.exit->message, at, failure);
    }
  } else {
    failure.message = "the pod failed without an exit code";
    if (!pod.reason.empty()) failure.message += ": " + presentable(pod.reason);
  }
  if (pod.deleting && failure.verdict == Verdict::kRestart) {
    failure.verdict = Verdict::kRestartFree;  // it was told to stop; how it ended is no verdict
    if (!failure.is_peer_loss) failure.reason = "PodDeleted";
    failure.blames_node = false;
  }
  return failure;
}

RankFailure deleted_rank(int64_t rank) {
  return {.rank = rank,
          .verdict = Verdict::kRestartFree,
          .reason = "PodDeleted",
          .message = "the rank's pod was deleted from outside",
          .exit_code = -1};
}

RankFailure unreachable_rank(int64_t rank, const PodView& pod) {
  return {.rank = rank,
          .verdict = Verdict::kRestartFree,
          .reason = "NodeLost",
          .message = pod.node_state == NodeState::kGone ? "the rank's node is gone"
                                                        : "the rank's node does not answer",
          .pod = pod.name,
          .node = pod.node,
          .exit_code = -1};
}

std::optional<RankFailure> first_failure(std::span<const RankFailure> failures) {
  const auto order = [](const RankFailure& failure) {
    return std::tuple(failure.is_peer_loss, failure.finished_at.value_or(api::Time::max()),
                      failure.rank);
  };
  const auto first = std::min_element(
      failures.begin(), failures.end(),
      [&](const RankFailure& a, const RankFailure& b) { return order(a) < order(b); });
  if (first == failures.end()) return std::nullopt;
  return *first;
}

std::chrono::seconds restart_backoff(int64_t restarts) {
  constexpr std::chrono::seconds kCap{60};
  constexpr int64_t kDoublingsToCap = 6;
  const int64_t doublings = std::clamp<int64_t>(restarts - 1, 0, kDoublingsToCap);
  return std::min(kCap, std::chrono::seconds(int64_t{1} << doublings));
}

}  // namespace lockstep::plan
