// The TrainingJob resource as typed values (design section 2). Codecs live in codec.h; the table of
// fields from which the CRD's schema is made lives in job_fields.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace lockstep::api {

using Time = std::chrono::sys_seconds;

// The time of the wall clock, for those who act; a plan is told the time.
inline Time wall_clock() {
  return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
}

inline constexpr const char* kGroup = "lockstep.dev";
inline constexpr const char* kVersion = "v1alpha1";
inline constexpr const char* kApiVersion = "lockstep.dev/v1alpha1";
inline constexpr const char* kKind = "TrainingJob";
inline constexpr const char* kPlural = "trainingjobs";
inline constexpr const char* kOurController = "lockstep.dev/operator";  // as spec.managedBy

struct ObjectMeta {
  std::string name;
  std::string ns;
  std::string uid;
  std::string resource_version;
  int64_t generation = 0;
  std::optional<Time> creation_time;
  std::optional<Time> deletion_time;
  std::map<std::string, std::string> labels;
};

enum class RuleAction { kRestart, kRestartFree, kFail };

// What one kind of failure leads to. Exactly one of the lists is not empty.
struct FailureRule {
  std::vector<int64_t> exit_codes;
  std::vector<std::string> reasons;
  RuleAction action = RuleAction::kRestart;
  bool operator==(const FailureRule&) const = default;
};

struct FailurePolicy {
  int64_t max_restarts = 3;
  std::chrono::seconds stall_timeout{900};  // 0 = never
  std::vector<FailureRule> rules;           // the first that matches wins
};

// Who gives nodes to all pods of an attempt or to none.
enum class GangScheduler { kAuto, kNone, kCoscheduling, kVolcano, kNative };
// As in spec.scheduling.gangScheduler: "auto", "volcano", ...
constexpr const char* to_string(GangScheduler scheduler) {
  switch (scheduler) {
    case GangScheduler::kAuto:
      return "auto";
    case GangScheduler::kNone:
      return "none";
    case GangScheduler::kCoscheduling:
      return "coscheduling";
    case GangScheduler::kVolcano:
      return "volcano";
    case GangScheduler::kNative:
      return "native";
  }
  return "auto";
}
// kAuto for any other word.
constexpr GangScheduler parse_gang_scheduler(std::string_view word) {
  for (const GangScheduler known : {GangScheduler::kNone, GangScheduler::kCoscheduling,
                                    GangScheduler::kVolcano, GangScheduler::kNative}) {
    if (word == to_string(known)) return known;
  }
  return GangScheduler::kAuto;
}

struct SchedulingPolicy {
  GangScheduler gang_scheduler = GangScheduler::kAuto;
  std::chrono::seconds gang_timeout{300};  // 0 = never
};

enum class CleanPodPolicy { kRunning, kAll, kNone };

struct TrainingJobSpec {      // NOLINT(bugprone-exception-escape): json moves without throwing
  int64_t ranks = 1;          // world size
  int64_t ranks_per_pod = 1;  // divides ranks
  std::string image;          // empty: the operator's runtime image
  std::vector<std::string> image_pull_secrets;
  std::vector<std::string> command, args;  // a program of the user's own instead of `train`
  std::map<std::string, std::string> env;  // plain values
  nlohmann::json resources;                // of one rank, as in a container
  nlohmann::json inputs;                   // [{name, mountPath, <volume source>}]
  nlohmann::json output;                   // volume source, or null
  nlohmann::json train;                    // after defaulting; null when `command` is given
  FailurePolicy failure_policy;
  SchedulingPolicy scheduling;
  std::string managed_by;  // empty or kOurController: we do
  bool suspend = false;
  std::optional<std::chrono::seconds> active_deadline;
  std::optional<std::chrono::seconds> ttl_after_finished;
  CleanPodPolicy clean_pod_policy = CleanPodPolicy::kRunning;
  nlohmann::json pod_template;  // PodTemplateSpec laid over ours (template_check.h); empty = none
};

enum class ConditionStatus { kTrue, kFalse, kUnknown };

struct Condition {
  std::string type;  // Accepted, Scheduled, Running, Suspended, Stalled, ...
  ConditionStatus status = ConditionStatus::kUnknown;
  std::string reason;
  std::string message;
  int64_t observed_generation = 0;
  Time last_transition_time{};
  bool operator==(const Condition&) const = default;
};

struct RankCounts {
  int64_t desired = 0, pending = 0, running = 0, succeeded = 0, failed = 0;
  int64_t per_pod = 1;  // of the present attempt; spec.ranksPerPod may already be another
  bool operator==(const RankCounts&) const = default;
};

struct ProgressStatus {
  int64_t step = 0, total_steps = 0;
  std::string loss;
  int64_t tokens_per_second = 0;
  std::optional<int64_t> eta_seconds;
  std::optional<int64_t> last_checkpoint_step;
  Time last_update_time{};
  bool operator==(const ProgressStatus&) const = default;
};

struct FirstFailure {
  int64_t attempt = 0;
  int64_t rank = 0;
  std::string pod;  // that the rank ran in; empty = it is gone
  std::string node;
  int64_t step = 0;
  int64_t exit_code = 0;
  std::string reason, message, hint;
  Time time{};
  bool operator==(const FirstFailure&) const = default;
};

// What is taken of failurePolicy.maxRestarts, and when it was taken last.
struct RestartBudget {
  int64_t used = 0;             // since the newest checkpoint that a charged restart knew
  int64_t checkpoint_step = 0;  // that checkpoint
  bool operator==(const RestartBudget&) const = default;
};

// Where the job's time went. Sums grow when a phase ends, or when progress is written.
struct Goodput {
  std::string phase;  // whose time runs since `since`; empty = none: the job has ended
  Time since{};
  int64_t queued_seconds = 0, scheduling_seconds = 0, starting_seconds = 0;
  int64_t productive_seconds = 0, lost_seconds = 0, down_seconds = 0, suspended_seconds = 0;
  int64_t lost_steps = 0;
  // The attempt that made steps last: where it began, and what it made.
  int64_t attempt = -1;
  int64_t first_step = 0;
  int64_t attempt_seconds = 0;
  bool operator==(const Goodput&) const = default;
};

// A rank that keeps the others waiting.
struct Straggler {
  int64_t rank = 0;
  std::string node;
  std::string ratio;  // of its step time to the median: "1.80"
  bool operator==(const Straggler&) const = default;
};

// Failures of ranks on one node.
struct NodeFailures {
  std::string name;
  int64_t count = 0;
  bool operator==(const NodeFailures&) const = default;
};

// Where the present attempt waits for its nodes.
struct QueueStatus {
  std::string name;       // the queue
  std::string pod_group;  // that its pods belong to
  bool operator==(const QueueStatus&) const = default;
};

// The object that makes a gang of the present attempt's pods, for a scheduler that knows gangs.
struct GangStatus {
  std::string scheduler;  // as in spec.scheduling.gangScheduler; never auto or none
  std::string pod_group;  // its name
  int64_t pods = 0;       // that belong together
  bool operator==(const GangStatus&) const = default;
};

struct TrainingJobStatus {
  int64_t observed_generation = 0;
  std::string state;  // display only
  int64_t attempt = 0;
  int64_t restarts = 0;  // that were charged, over the job's life
  RestartBudget budget;
  std::optional<Time> restart_not_before;  // end of the current backoff
  int64_t gang_releases = 0;               // in a row: half gangs that gave their nodes back
  std::string strategy;
  std::string message;
  std::string selector;  // label selector of the job's pods, for the scale subresource
  std::optional<Time> start_time, completion_time;
  std::vector<Condition> conditions;
  RankCounts ranks;
  std::optional<ProgressStatus> progress;
  std::optional<FirstFailure> first_failure;
  std::optional<Straggler> straggler;
  std::optional<QueueStatus> queue;         // nothing = the job waits in none
  std::optional<GangStatus> gang;           // nothing = no scheduler knows of a gang
  std::vector<NodeFailures> node_failures;  // worst first
  std::optional<Goodput> goodput;
  bool operator==(const TrainingJobStatus&) const = default;
};

struct TrainingJob {  // NOLINT(bugprone-exception-escape): json moves without throwing
  ObjectMeta meta;
  TrainingJobSpec spec;
  TrainingJobStatus status;
};

}  // namespace lockstep::api
