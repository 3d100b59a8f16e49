#include "operator/api/job_fields.h"

namespace lockstep::api {
namespace {

using common::Field;
using common::FieldType;

Field count(std::string name, std::string doc) {
  return {.name = std::move(name), .type = FieldType::kInteger, .doc = std::move(doc)};
}

Field word(std::string name, std::string doc) {
  return {.name = std::move(name), .doc = std::move(doc), .max_length = kMaxStatusWord};
}

Field message(std::string name, std::string doc) {
  return {.name = std::move(name), .doc = std::move(doc), .max_length = kMaxStatusMessage};
}

Field section(std::string name, std::string doc, std::vector<Field> children) {
  return {.name = std::move(name),
          .type = FieldType::kObject,
          .doc = std::move(doc),
          .children = std::move(children)};
}

Field conditions() {
  Field type = word(
      "type", "Accepted, Scheduled, Running, Suspended, Stalled, Straggling, Succeeded or Failed.");
  type.required = true;
  Field status = word("status", "Whether the condition holds.");
  status.required = true;
  status.choices = {"True", "False", "Unknown"};
  Field item = section(
      "", "A Kubernetes condition.",
      {type, status, word("reason", "Why, in one word."), message("message", "Why, for people."),
       count("observedGeneration", "Generation of the spec that it speaks of."),
       word("lastTransitionTime", "When status changed last.")});
  return {.name = "conditions",
          .type = FieldType::kList,
          .doc = "The state of the job; the API for programs.",
          .max_items = 16,
          .element = {item},
          .list_key = "type"};
}

Field goodput() {
  return section("goodput", "Where the job's time went.",
                 {word("ratio", "Productive share of the time since the first attempt."),
                  count("queuedSeconds", "Waiting for the first attempt."),
                  count("schedulingSeconds", "Waiting for nodes."),
                  count("startingSeconds", "From nodes to the first step."),
                  count("productiveSeconds", "Making steps that counted."),
                  count("lostSeconds", "Making steps that had to be made again."),
                  count("downSeconds", "From failures until all ranks ran again."),
                  count("suspendedSeconds", "Suspended; not part of ratio."),
                  count("lostSteps", "Steps that had to be made again."),
                  word("phase", "What the time since `since` counts as."),
                  word("since", "Until when the sums count."),
                  count("attempt", "Attempt that made steps last."),
                  count("firstStep", "Step at which that attempt began."),
                  count("attemptSeconds", "Productive seconds of that attempt.")});
}

Field node_failures() {
  Field name = word("name", "Name of the node.");
  name.required = true;
  return {.name = "nodeFailures",
          .type = FieldType::kList,
          .doc = "Nodes on which ranks failed, worst first; later attempts avoid repeaters.",
          .max_items = kMaxNodeFailures,
          .element = {section("", "A node.", {name, count("count", "Failures there.")})},
          .list_key = "name"};
}

std::vector<Field> status_children() {
  return {
      count("observedGeneration", "Generation of the spec that this status speaks of."),
      word("state", "For display only; conditions are the API."),
      count("attempt", "Number of the current gang of pods."),
      count("restarts", "Restarts that were charged, over the job's life."),
      section("budget", "What is taken of failurePolicy.maxRestarts.",
              {count("used", "Restarts charged since the job made checkpointed progress."),
               count("checkpointStep", "Newest checkpoint at the last charged restart.")}),
      word("restartNotBefore", "End of the current backoff."),
      count("gangReleases", "Half gangs in a row that gave their nodes back."),
      word("strategy", "Strategy in use."),
      message("message", "What is going on, for people."),
      word("selector", "Label selector of the job's pods."),
      word("startTime", "When the first pods were created."),
      word("completionTime", "When the job ended."),
      conditions(),
      section(
          "ranks", "Ranks by state.",
          {count("desired", "Ranks wanted."), count("pending", "Ranks not running yet."),
           count("running", "Ranks running."), count("succeeded", "Ranks done."),
           count("failed", "Ranks failed."), count("perPod", "Ranks in one pod of this attempt."),
           word("summary", "running/desired")}),
      section(
          "progress", "As rank 0 reported it.",
          {count("step", "Last finished step."), count("totalSteps", "Steps to make."),
           word("loss", "Loss of that step."), count("tokensPerSecond", "Over all ranks."),
           count("etaSeconds", "Time to the end."), word("eta", "The same, for people."),
           count("lastCheckpointStep", "Step of the newest checkpoint."),
           word("summary", "step/totalSteps"), word("lastUpdateTime", "When it was reported.")}),
      section("firstFailure", "The rank that failed first, of the last failed attempt.",
              {count("attempt", "Attempt that failed."), count("rank", "Rank that failed first."),
               word("pod", "Pod that it ran in; kept until another failure takes its place."),
               word("node", "Node of its pod."), count("step", "Last finished step."),
               count("exitCode", "Its exit code."), word("reason", "Name of the exit code."),
               message("message", "What happened."), message("hint", "What to do."),
               word("time", "When it happened.")}),
      section("straggler", "A rank that keeps the others waiting.",
              {count("rank", "The rank."), word("node", "Node of its pod."),
               word("ratio", "Its step time over the median.")}),
      section("queue", "Where the present attempt waits for nodes.",
              {word("name", "The queue."), word("podGroup", "The group that its pods belong to.")}),
      section("gang", "What a scheduler that knows gangs is told of the present attempt.",
              {word("scheduler", "coscheduling, volcano or native."),
               word("podGroup", "Name of the PodGroup that its pods belong to."),
               count("pods", "Pods that get nodes together.")}),
      node_failures(),
      goodput(),
  };
}

}  // namespace

const Field& status_fields() {
  static const Field field = section("status", "What the operator observed.", status_children());
  return field;
}

}  // namespace lockstep::api
