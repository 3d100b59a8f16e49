// What must hold of everything that an API server saw while operators ran jobs under random faults.
// Independent of the operator: it knows names, labels and the status of a job as a user reads them,
// and nothing of how they come to be.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace lockstep::soak {

enum class Change { kAdded, kModified, kDeleted };

// Versions are the API server's: they order the events of all types.
struct PodRecord {
  int64_t version = 0;
  Change change = Change::kAdded;
  std::string name{}, uid{};
  std::string owner{};  // UID of the job
  int64_t attempt = -1, rank = -1;
  std::string node{}, phase{};
  bool is_evicted = false;
  bool is_deleting = false;
};

struct JobRecord {
  int64_t version = 0;
  Change change = Change::kAdded;
  std::string name{}, uid{};
  int64_t attempt = 0, restarts = 0, max_restarts = 0, ranks = 0;
  bool is_scheduled = false, is_suspended = false, has_succeeded = false, has_failed = false;
  std::string status{};  // all of it
};

// A Service or a ConfigMap.
struct ChildRecord {
  int64_t version = 0;
  Change change = Change::kAdded;
  std::string type{}, name{}, uid{}, owner{};
};

struct History {
  std::vector<PodRecord> pods;
  std::vector<JobRecord> jobs;
  std::vector<ChildRecord> children;
  // What the test did itself.
  std::map<std::string, int64_t> disturbances;  // by UID of a job: what may cost it an attempt
  std::set<std::string> confirmed;              // UIDs of pods whose end the nodes confirmed
  std::set<std::string> lost_nodes;
};

// Empty, or one line for each thing that must not be. Pure.
//   - pods are made only of attempts that the status recorded before;
//   - an attempt's pods come to be only when none of another attempt lives;
//   - once all ranks of an attempt had nodes, none of its pods is made again;
//   - no pod has a rank beyond the recorded number;
//   - attempt and restarts never go back; a finished job never changes, and gets no pod;
//   - restarts are charged only for attempts in which a rank failed, and a job fails only when that
//     happened more often than its budget allows;
//   - a new attempt has a cause;
//   - pods are deleted by force only on nodes that are gone.
std::vector<std::string> violations(const History& history);

// The same of what is left when nothing happens any more: every job that is not suspended has
// ended, finished jobs have no living pod, and no child is there without its owner.
std::vector<std::string> violations_at_rest(const History& history);

}  // namespace lockstep::soak
