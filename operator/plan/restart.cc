#include "operator/plan/restart.h"

#include <optional>
#include <string>
#include <utility>

#include "operator/plan/attempt.h"
#include "operator/plan/budget.h"
#include "operator/plan/failure_rules.h"
#include "operator/plan/finish.h"
#include "operator/plan/goodput.h"
#include "operator/plan/nodes.h"
#include "operator/plan/stall.h"
#include "operator/plan/status.h"

namespace lockstep::plan {
namespace {

using std::chrono::seconds;

api::FirstFailure recorded(const RankFailure& cause, int64_t attempt, api::Time now) {
  return {.attempt = attempt,
          .rank = cause.rank,
          .pod = cause.pod,
          .node = cause.node,
          .step = cause.step,
          .exit_code = cause.exit_code,
          .reason = cause.reason,
          .message = cause.message,
          .hint = cause.hint,
          .time = cause.finished_at.value_or(now)};
}

// Everything that the failure leaves in the status, whatever follows from it.
void record_failure(const Situation& s, Plan& next, const RankFailure& cause) {
  api::TrainingJobStatus& status = next.status;
  take_last_progress(status, s.seen);
  if (!cause.is_preemption) lose_steps(s, status);  // a preempted gang has saved its last step
  status.first_failure = recorded(cause, status.attempt, s.now);
  if (cause.reason == kStalledReason) {
    set_condition(
        status, {.type = kStalled, .value = true, .reason = "NoProgress", .message = cause.message},
        s.now);
    next.events.push_back(
        {.warning = true, .reason = kStalledReason, .message = summarize(*status.first_failure)});
  }
  if (s.settings.avoids_nodes && cause.blames_node && count_node_failure(status, cause.node)) {
    next.events.push_back({.warning = true,
                           .reason = "NodeAvoided",
                           .message = "later attempts avoid node " + cause.node + ", where ranks " +
                                      "failed " + std::to_string(kAvoidAfter) + " times"});
  }
}

std::string describe(const api::FirstFailure& failure) {
  std::string text = summarize(failure);
  if (!failure.hint.empty()) text += " (" + failure.hint + ")";
  return text;
}

std::string describe_spent(int64_t max_restarts, const api::RestartBudget& budget) {
  std::string text = "no restart is left of " + std::to_string(max_restarts);
  if (budget.checkpoint_step > 0) {
    text += " since the checkpoint of step " + std::to_string(budget.checkpoint_step);
  }
  return text;
}

}  // namespace

Plan restart_or_fail(const Situation& s, Plan next, RankFailure cause) {
  record_failure(s, next, cause);
  api::TrainingJobStatus& status = next.status;
  std::string text = describe(*status.first_failure);
  const api::FailurePolicy& policy = s.job.spec.failure_policy;
  if (const std::optional<std::size_t> rule = apply_rules(policy.rules, cause)) {
    text += "; by failurePolicy.rules[" + std::to_string(*rule) + "]";
  }
  if (cause.verdict == Verdict::kFail) return fail(s, std::move(next), cause.reason, text);

  seconds delay = kFreeRestartDelay;
  if (cause.verdict == Verdict::kRestart) {
    const std::optional<api::RestartBudget> budget =
        charge(status.budget, policy.max_restarts, newest_checkpoint(status));
    if (!budget) {
      text += "; " + describe_spent(policy.max_restarts, status.budget);
      return fail(s, std::move(next), "RestartBudgetSpent", text);
    }
    status.budget = *budget;
    ++status.restarts;
    delay = restart_backoff(budget->used);
  }
  record_attempt(status,
                 {.number = status.attempt + 1,
                  .ranks = status.ranks.desired,
                  .ranks_per_pod = status.ranks.per_pod,
                  .reason = kRestartingReason},
                 s.now);
  status.restart_not_before = s.now + delay;
  status.message = "restarting after " + text;
  next.events.push_back(
      {.warning = true,
       .reason = "Restarting",
       .message = text + "; restarting in " + std::to_string(delay.count()) + " s"});
  next.requeue_after = delay;
  return next;
}

}  // namespace lockstep::plan
