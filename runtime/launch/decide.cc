#include "runtime/launch/decide.h"

#include <algorithm>
#include <tuple>

namespace lockstep::launch {
namespace {

using common::ExitCode;

bool is_typed(const RankEnd& end, ExitCode code) {
  return end.exit_code == static_cast<int>(code) && end.told &&
         end.told->reason == common::reason_of(code);
}

// The smaller, the more to blame.
int innocence(const RankEnd& end) {
  if (end.is_forced) return 2;
  return is_typed(end, ExitCode::kPeerLost) ? 1 : 0;
}

// Note [Who is to blame]
std::optional<std::size_t> find_cause(const Gang& gang) {
  std::optional<std::size_t> cause;
  const auto order = [&](std::size_t rank) {
    const RankEnd& end = *gang.ends[rank];
    return std::tuple(innocence(end), end.at, rank);
  };
  for (std::size_t rank = 0; rank < gang.ends.size(); ++rank) {
    if (!gang.ends[rank] || gang.ends[rank]->exit_code == 0) continue;
    if (!cause || order(rank) < order(*cause)) cause = rank;
  }
  return cause;
}

// Until when the others may go on after `cause`.
Clock::time_point patience(const Gang& gang, const RankEnd& cause) {
  if (gang.stop_asked) return *gang.stop_asked + gang.grace;
  if (is_typed(cause, ExitCode::kPreempted)) return cause.at + gang.grace;
  if (is_typed(cause, ExitCode::kPeerLost)) return cause.at + kCauseDelay;
  return cause.at;
}

std::string describe_exit(int exit_code) {
  constexpr int kSignalBase = 128;
  if (exit_code > kSignalBase) return "ended by signal " + std::to_string(exit_code - kSignalBase);
  return "exit code " + std::to_string(exit_code);
}

}  // namespace

std::chrono::seconds stop_time(std::chrono::seconds pod_grace) {
  return std::max(std::chrono::seconds(1), pod_grace - kEndPatience - kKillPatience);
}

Decision decide(const Gang& gang, Clock::time_point now) {
  const std::optional<std::size_t> cause = find_cause(gang);
  const bool all_ended = std::all_of(gang.ends.begin(), gang.ends.end(),
                                     [](const auto& end) { return end.has_value(); });
  if (all_ended) return {.move = Move::kExit, .cause = cause};
  if (!cause) return {};
  if (!gang.ending_since) {
    const Clock::time_point limit = patience(gang, *gang.ends[*cause]);
    if (now < limit) return {.move = Move::kWait, .wake = limit, .cause = cause};
    return {.move = Move::kEndOthers, .cause = cause};
  }
  const Clock::time_point kill_at = *gang.ending_since + gang.end_patience;
  const Clock::time_point leave_at = kill_at + kKillPatience;
  if (now < kill_at) return {.move = Move::kWait, .wake = kill_at, .cause = cause};
  if (now < leave_at) return {.move = Move::kKillOthers, .wake = leave_at, .cause = cause};
  return {.move = Move::kExit, .cause = cause};
}

common::TerminationMessage last_words(const RankEnd& end, int rank, const std::string& last_line) {
  if (end.told) return *end.told;
  std::string message = describe_exit(end.exit_code);
  if (!last_line.empty()) message += "; last line: " + last_line;
  return {.rank = rank,
          .step = 0,
          .reason = std::string("ExitCode").append(std::to_string(end.exit_code)),
          .message = message,
          .hint = ""};
}

}  // namespace lockstep::launch
