#include "operator/plan/failure_rules.h"

#include <algorithm>

namespace lockstep::plan {
namespace {

bool matches(const api::FailureRule& rule, const RankFailure& failure) {
  const auto& codes = rule.exit_codes;
  const auto& reasons = rule.reasons;
  return std::find(codes.begin(), codes.end(), failure.exit_code) != codes.end() ||
         std::find(reasons.begin(), reasons.end(), failure.reason) != reasons.end();
}

Verdict verdict_of(api::RuleAction action) {
  switch (action) {
    case api::RuleAction::kRestart:
      return Verdict::kRestart;
    case api::RuleAction::kRestartFree:
      return Verdict::kRestartFree;
    case api::RuleAction::kFail:
      break;
  }
  return Verdict::kFail;
}

}  // namespace

std::optional<std::size_t> apply_rules(std::span<const api::FailureRule> rules,
                                       RankFailure& failure) {
  const auto rule = std::find_if(rules.begin(), rules.end(), [&](const api::FailureRule& one) {
    return matches(one, failure);
  });
  if (rule == rules.end()) return std::nullopt;
  failure.verdict = verdict_of(rule->action);
  return static_cast<std::size_t>(rule - rules.begin());
}

}  // namespace lockstep::plan
