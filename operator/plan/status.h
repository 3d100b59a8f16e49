// What a job's status says: conditions, counts, the state for display. Conditions are the API; the
// state and the message follow from them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "operator/api/training_job.h"
#include "operator/plan/gang.h"
#include "operator/plan/plan.h"
#include "runtime/common/progress.h"

namespace lockstep::plan {

inline constexpr const char* kAccepted = "Accepted";
inline constexpr const char* kScheduled = "Scheduled";
inline constexpr const char* kRunning = "Running";
inline constexpr const char* kSuspended = "Suspended";
inline constexpr const char* kStalled = "Stalled";
inline constexpr const char* kStraggling = "Straggling";
inline constexpr const char* kSucceeded = "Succeeded";
inline constexpr const char* kFailed = "Failed";

// Reasons of Running=False that plan() itself reads again.
inline constexpr const char* kStartingReason = "Starting";
inline constexpr const char* kRestartingReason = "Restarting";
inline constexpr const char* kSuspendingReason = "Suspending";
inline constexpr const char* kScalingReason = "Scaling";

// Reason of Scheduled=False while pods have no nodes, for nothing else that is known.
inline constexpr const char* kWaitingForNodes = "WaitingForNodes";

// The condition of `type`, or null. Borrowed from `status`.
const api::Condition* find_condition(const api::TrainingJobStatus& status, std::string_view type);
bool is_true(const api::TrainingJobStatus& status, std::string_view type);
bool has_reason(const api::TrainingJobStatus& status, std::string_view type,
                std::string_view reason);
// Succeeded or Failed is True: nothing will run again.
bool is_finished(const api::TrainingJobStatus& status);

// The ranks are stopping in good order, to be suspended or to go on in another number.
bool is_stopping(const api::TrainingJobStatus& status);

struct ConditionUpdate {
  const char* type = "";
  bool value = false;
  std::string reason;
  std::string message;
};
// Sets a condition, with the status's observedGeneration; its transition time changes only when its
// value does.
void set_condition(api::TrainingJobStatus& status, const ConditionUpdate& update, api::Time now);

// Writes rank counts, Scheduled, Running, the state and the message from what the gang does.
void describe_gang(api::TrainingJobStatus& status, const Gang& gang, api::Time now);

// Writes the rank counts alone. A rank without a pod counts as pending.
void count_ranks(api::TrainingJobStatus& status, const Gang& gang);

// What rank 0 told, reported at `now`; `known` itself if that is no news, so that a job which
// stands still is not written again.
api::ProgressStatus progress_status(const common::JobProgress& progress,
                                    const std::optional<api::ProgressStatus>& known, api::Time now);

// Takes over rank 0's progress and strategy, at most every 15 s, so that a job costs the API server
// little; the last step is always taken.
void merge_progress(api::TrainingJobStatus& status, const Observation& seen);

// Takes over the very last that rank 0 told: its attempt has ended.
void take_last_progress(api::TrainingJobStatus& status, const Observation& seen);

// Nothing runs: there is no speed and no end in sight. Steps and loss stay.
void quiet_progress(api::TrainingJobStatus& status);

// Writes the straggler, the condition Straggling and the message; true if it is another rank than
// before. What is not known leaves all as it is.
bool report_straggler(api::TrainingJobStatus& status, const Observation& seen, const Gang& gang,
                      api::Time now);

// Nobody keeps anybody waiting any more: Straggling, if it was True, is False for `reason`.
void clear_straggler(api::TrainingJobStatus& status, const std::string& reason, api::Time now);

// One line about a failure: "rank 3 on n7: NonFinite: loss is nan".
std::string summarize(const api::FirstFailure& failure);
// One line about a slow rank: "rank 3 on n7 is slow: 1.80 times the median step time".
std::string summarize(const api::Straggler& straggler);

}  // namespace lockstep::plan
