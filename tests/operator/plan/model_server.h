// The API server and the watches of a model state: every change of an object is news under way.
#pragma once

#include <optional>

#include "tests/operator/plan/model_state.h"

namespace lockstep::plan {

inline bool has_exited(const support::Object<PodType>& pod) {
  return pod.status.phase == PodPhase::kSucceeded || pod.status.phase == PodPhase::kFailed;
}

// The machine is gone, and all processes with it.
inline bool is_node_gone(const State& s, const support::Object<PodType>& pod) {
  return pod.spec.node == 2 && s.node_2_gone;
}

// Makes `request` of the server and lets the watch know what came of it.
template <typename Type, typename Request>
support::Answer change(State& s, Watched<Type>& all, const typename Type::Key& key,
                       Request request) {
  std::optional<support::Object<Type>> item;
  if (const support::Object<Type>* before = all.server.find(key)) item = *before;
  const support::Answer answer = request(all.server);
  if (answer.change == support::Change::kNothing) return answer;
  if (answer.change != support::Change::kDeleted) item = *all.server.find(key);
  item->version = s.counters.version;
  all.under_way.push_back({answer.change, *item});
  return answer;
}

inline support::Answer remove_pod(State& s, const PodType::Key& key,
                                  const support::Preconditions& only_if,
                                  std::optional<int64_t> grace) {
  return change(s, s.pods, key,
                [&](auto& pods) { return pods.remove(s.counters, key, only_if, grace); });
}

inline void write_pod_status(State& s, const PodType::Key& key, const PodType::Status& status) {
  change(s, s.pods, key,
         [&](auto& pods) { return pods.replace_status(s.counters, key, {}, status); });
}

inline void write_job_spec(State& s, const JobType::Spec& spec) {
  const int64_t version = s.jobs.server.find(0)->version;
  change(s, s.jobs, 0, [&](auto& jobs) {
    return jobs.replace(s.counters, 0, {.uid = {}, .version = version}, spec);
  });
}

// The operator's cache takes over the oldest news.
template <typename Type>
void deliver(Watched<Type>& all) {
  const auto news = all.under_way.front();
  all.under_way.erase(all.under_way.begin());
  if (news.change == support::Change::kDeleted) {
    all.cache.erase(news.item.key);
  } else {
    all.cache.put(news.item);
  }
  all.cache_version = news.item.version;
}

// Another operator's process in place of the old one: it knows what a list tells, and no more.
void start_operator(State& s);

}  // namespace lockstep::plan
