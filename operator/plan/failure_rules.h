// failurePolicy.rules: what the user says about failures, before our own table of verdicts.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "operator/api/training_job.h"
#include "operator/plan/failure.h"

namespace lockstep::plan {

// Gives `failure` the verdict of the first rule that names its exit code or its reason. Returns the
// rule's index; nothing if none matches, and the verdict is then left as it was.
std::optional<std::size_t> apply_rules(std::span<const api::FailureRule> rules,
                                       RankFailure& failure);

}  // namespace lockstep::plan
