#include "tests/operator/plan/model_state.h"

#include <algorithm>
#include <utility>

namespace lockstep::plan {
namespace {

using support::Object;

// Writes what decides how a state can go on. UIDs are only ever compared for equality, so each is
// written as the place of its first appearance. Versions are only compared with the newest of the
// operator's own writes, and with the server's, so each is written as the outcome of that.
class Writer {
 public:
  Writer() { text_.reserve(512); }

  void value(int64_t small) {
    text_.push_back(static_cast<char>(small));
    text_.push_back(static_cast<char>(small >> 8));
  }
  void uid(int64_t known) {
    const auto place = std::find(uids_.begin(), uids_.end(), known);
    text_.push_back(static_cast<char>(place - uids_.begin()));
    if (place == uids_.end()) uids_.push_back(known);
  }
  void item(const Object<JobType>& job) {
    uid(job.uid);
    value(job.generation);
    value(job.spec.ranks * 2 + (job.spec.suspend ? 1 : 0));
    value(job.spec.per_pod * 16 + job.spec.pod_template);
    value(job.status);
  }
  void item(const Object<PodType>& pod) {
    uid(pod.uid);
    uid(pod.spec.owner);
    value(pod.key.attempt * 16 + pod.key.rank);
    value(pod.spec.world_size * 16 + pod.spec.node);
    value(pod.spec.per_pod * 16 + pod.spec.pod_template);
    value(pod.spec.bound_ago);
    value((pod.deleting ? 1 : 0) + static_cast<int>(pod.status.phase) * 2);
    value(pod.grace_seconds);
    value(pod.status.exit_code);
    value(pod.status.ended_ago);
  }
  void item(const Object<ChildType>& child) {
    uid(child.uid);
    uid(child.spec.owner);
    value((child.key.attempt * 16 + child.spec.pod_template) * 2 + (child.key.is_service ? 1 : 0));
  }
  template <typename Type>
  void watched(const Watched<Type>& all, int64_t written, int64_t created) {
    const auto seen = [&](int64_t version) {
      value((version >= written ? 1 : 0) + (version >= created ? 2 : 0));
    };
    value(static_cast<int64_t>(all.server.items().size()));
    for (const auto& one : all.server.items()) item(one);
    value(static_cast<int64_t>(all.under_way.size()));
    for (const auto& news : all.under_way) {
      value(static_cast<int>(news.change));
      item(news.item);
      seen(news.item.version);
    }
    value(static_cast<int64_t>(all.cache.items().size()));
    for (const auto& one : all.cache.items()) item(one);
    seen(all.cache_version);
  }
  void step(const Step& one, const Watched<JobType>& jobs) {
    const Object<JobType>* job = jobs.server.find(0);
    value(one.kind);
    value(one.pod.attempt * 16 + one.pod.rank);
    value(one.world_size);
    value(one.group);
    value(one.per_pod * 16 + one.pod_template);
    value(one.grace);
    value(one.status);
    value(job != nullptr && job->version == one.version ? 1 : 0);
    uid(one.job_uid);
    uid(one.uid);
  }
  void group(const GangGroup& one) {
    uid(one.owner);
    value(one.attempt);
    value(one.pods);
  }
  std::string take() { return std::move(text_); }

 private:
  std::vector<int64_t> uids_;
  std::string text_;
};

}  // namespace

std::string fingerprint(const State& state, bool with_allowance) {
  const OperatorMemory& memory = state.memory;
  Writer writer;
  writer.watched(state.jobs, memory.written_job, 0);
  writer.watched(state.pods, memory.written_pods, memory.created_pods);
  writer.watched(state.children, memory.written_children, memory.created_children);
  writer.value(static_cast<int64_t>(state.groups.size()));
  for (const GangGroup& group : state.groups) writer.group(group);
  writer.value((state.node_2_gone ? 1 : 0) + (state.operator_knows_node_2_gone ? 2 : 0) +
               (state.limbo ? 4 : 0) + (memory.is_queued ? 8 : 0) + (memory.is_busy ? 16 : 0) +
               (memory.has_failed ? 32 : 0) + (memory.created_pods != 0 ? 64 : 0) +
               (memory.created_children != 0 ? 128 : 0));
  writer.value(memory.wake_in);
  writer.value(memory.requeue_after);
  writer.value(static_cast<int64_t>(memory.todo.size()));
  for (const Step& step : memory.todo) writer.step(step, state.jobs);
  if (state.limbo) writer.step(*state.limbo, state.jobs);
  if (with_allowance) {
    writer.value(state.left.edits);
    writer.value(state.left.reshapes);
    writer.value(state.left.breaks);
    writer.value(state.left.crashes);
  }
  writer.value(state.failures);
  return writer.take();
}

}  // namespace lockstep::plan
