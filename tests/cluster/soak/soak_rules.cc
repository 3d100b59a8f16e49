#include "tests/cluster/soak/soak_rules.h"

#include <algorithm>
#include <utility>

namespace lockstep::soak {

namespace {

using Lines = std::vector<std::string>;

bool has_ended(const PodRecord& pod) {
  return pod.phase == "Succeeded" || pod.phase == "Failed";
}

bool is_charged(const PodRecord& pod) {
  return pod.phase == "Failed" && !pod.is_evicted;
}

bool is_finished(const JobRecord& job) {
  return job.has_succeeded || job.has_failed;
}

std::string at(int64_t version) {
  return " (at version " + std::to_string(version) + ")";
}

// Records of each job in the order of their versions.
std::map<std::string, std::vector<JobRecord>> jobs_by_uid(const History& history) {
  std::map<std::string, std::vector<JobRecord>> jobs;
  for (const JobRecord& record : history.jobs) jobs[record.uid].push_back(record);
  for (auto& [uid, records] : jobs) {
    std::stable_sort(records.begin(), records.end(),
                     [](const auto& a, const auto& b) { return a.version < b.version; });
  }
  return jobs;
}

std::vector<PodRecord> pods_in_order(const History& history) {
  std::vector<PodRecord> pods = history.pods;
  std::stable_sort(pods.begin(), pods.end(),
                   [](const auto& a, const auto& b) { return a.version < b.version; });
  return pods;
}

// Goes over the pods in order; `living` are those that are there, by UID, before each record.
class Passage {
 public:
  explicit Passage(const History& history) : history_(history), jobs_(jobs_by_uid(history)) {}

  Lines run() {
    for (const PodRecord& pod : pods_in_order(history_)) {
      if (pod.change == Change::kAdded) check_creation(pod);
      if (pod.change == Change::kDeleted) {
        check_deletion(pod);
        there_.erase(pod.uid);
      } else {
        there_[pod.uid] = pod;
      }
      if (is_charged(pod)) charged_[pod.owner].insert(pod.attempt);
    }
    for (const auto& [uid, records] : jobs_) check_job(uid, records);
    return std::move(lines_);
  }

 private:
  void check_creation(const PodRecord& pod) {
    bool is_recorded = false;
    int64_t ranks = 0;
    const auto owner = jobs_.find(pod.owner);
    if (owner == jobs_.end()) return add(pod, "belongs to no job");
    for (const JobRecord& job : owner->second) {
      const bool is_before = job.version < pod.version;
      if (is_before && job.attempt >= pod.attempt) is_recorded = true;
      if (job.attempt == pod.attempt) ranks = std::max(ranks, job.ranks);
      if (is_before && job.attempt == pod.attempt && job.is_scheduled) {
        add(pod, "was made again in a gang that had been whole");
      }
      if (is_before && is_finished(job)) add(pod, "was made for a job that had ended");
    }
    if (!is_recorded) add(pod, "was made before its attempt was recorded");
    if (pod.rank >= ranks) add(pod, "has a rank beyond the " + std::to_string(ranks) + " recorded");
    for (const auto& [uid, other] : there_) {
      const bool lives = !other.is_deleting && !has_ended(other);
      if (other.owner == pod.owner && other.attempt != pod.attempt && lives) {
        add(pod, "was made while " + other.name + " lived");
      }
    }
  }

  void check_deletion(const PodRecord& pod) {
    const auto before = there_.find(pod.uid);
    if (before == there_.end()) return;
    const PodRecord& last = before->second;
    if (last.node.empty() || has_ended(last) || history_.confirmed.contains(pod.uid)) return;
    if (!history_.lost_nodes.contains(last.node)) {
      add(pod, "was deleted by force though its node " + last.node + " is there");
    }
  }

  void check_job(const std::string& uid, const std::vector<JobRecord>& records) {
    const JobRecord* before = nullptr;
    for (const JobRecord& job : records) {
      if (before != nullptr) check_step(*before, job);
      before = &job;
    }
    const JobRecord& last = records.back();
    const auto failures = static_cast<int64_t>(charged_[uid].size());
    if (last.restarts > failures) {
      add(last, "was charged " + std::to_string(last.restarts) + " restarts for " +
                    std::to_string(failures) + " failures");
    }
    if (last.has_failed && failures <= last.max_restarts) {
      add(last, "failed after " + std::to_string(failures) + " failures");
    }
    const auto known = history_.disturbances.find(uid);
    const int64_t causes = known == history_.disturbances.end() ? 0 : known->second;
    if (last.attempt > causes) {
      add(last, "has attempt " + std::to_string(last.attempt) + " after " + std::to_string(causes) +
                    " disturbances");
    }
  }

  void check_step(const JobRecord& before, const JobRecord& after) {
    if (after.attempt < before.attempt) add(after, "went back to an older attempt");
    if (after.restarts < before.restarts) add(after, "forgot restarts");
    if (is_finished(before) && after.status != before.status) {
      add(after, "changed after its end: " + before.status + " became " + after.status);
    }
  }

  void add(const PodRecord& pod, const std::string& what) {
    lines_.push_back("pod " + pod.name + " " + what + at(pod.version));
  }
  void add(const JobRecord& job, const std::string& what) {
    lines_.push_back("job " + job.name + " " + what + at(job.version));
  }

  const History& history_;
  std::map<std::string, std::vector<JobRecord>> jobs_;
  std::map<std::string, PodRecord> there_;  // by UID
  std::map<std::string, std::set<int64_t>> charged_;
  Lines lines_;
};

// The newest records of what is there, by UID.
template <typename Record>
std::map<std::string, Record> present(std::vector<Record> records) {
  std::stable_sort(records.begin(), records.end(),
                   [](const auto& a, const auto& b) { return a.version < b.version; });
  std::map<std::string, Record> there;
  for (const Record& record : records) {
    if (record.change == Change::kDeleted) {
      there.erase(record.uid);
    } else {
      there[record.uid] = record;
    }
  }
  return there;
}

}  // namespace

Lines violations(const History& history) {
  return Passage(history).run();
}

Lines violations_at_rest(const History& history) {
  Lines lines;
  const std::map<std::string, JobRecord> jobs = present(history.jobs);
  for (const auto& [uid, job] : jobs) {
    if (!is_finished(job) && !job.is_suspended) {
      lines.push_back("job " + job.name + " has not ended: " + job.status);
    }
  }
  for (const auto& [uid, pod] : present(history.pods)) {
    const auto owner = jobs.find(pod.owner);
    if (owner == jobs.end()) {
      lines.push_back("pod " + pod.name + " has outlived its job");
    } else if (!has_ended(pod)) {
      lines.push_back("pod " + pod.name + " lives though its job does not run");
    } else if (pod.attempt > owner->second.attempt) {
      lines.push_back("pod " + pod.name + " is of an attempt that never was");
    }
  }
  std::map<std::string, int> num_services;
  for (const auto& [uid, child] : present(history.children)) {
    if (!jobs.contains(child.owner)) {
      lines.push_back(child.type + " " + child.name + " has outlived its job");
    }
    if (child.type == "services" && ++num_services[child.owner] > 1) {
      lines.push_back("a second Service " + child.name);
    }
  }
  return lines;
}

}  // namespace lockstep::soak
