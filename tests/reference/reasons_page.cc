#include <string>

#include "tests/reference/pages.h"
#include "tests/reference/source_text.h"

namespace lockstep::reference {

namespace {

constexpr Reason kReasons[] = {
    {"Event", "Running", "All ranks of an attempt run."},
    {"Event", "Succeeded", "All ranks ended well: the job is done."},
    {"Event", "Failed",
     "Warning. The job is over; the message names the rank, why, and what to do."},
    {"Event", "Restarting",
     "Warning. The gang failed and a new attempt follows; the message says why and in how many "
     "seconds."},
    {"Event", "Stalled", "Warning. No rank made a step for `failurePolicy.stallTimeoutSeconds`."},
    {"Event", "Straggler", "Warning. One rank was slowest in five samples in a row; it is named."},
    {"Event", "NodeAvoided",
     "Warning. Ranks failed twice on a node; later attempts prefer others."},
    {"Event", "Suspended", "`spec.suspend` is true and all ranks stopped behind a checkpoint."},
    {"Event", "Resumed", "`spec.suspend` is false again; a new attempt begins."},
    {"Event", "Scaled", "`spec.ranks` changed; a new attempt begins in the new size."},
    {"Event", "TemplateChanged", "`spec.template` changed; it takes effect in the next attempt."},
    {"Event", "QueueChanged",
     "The label that names the queue changed while the gang waited; a new attempt begins in the "
     "other queue."},
    {"Event", "Queued", "The gang waits in a queue of Kueue."},
    {"Event", "QueueSilent",
     "Warning. Kueue has not taken the gang's pods a minute after they were made."},
    {"Event", "GangReleased",
     "Warning. Half a gang gave its nodes back, after `scheduling.gangTimeoutSeconds`; it tries "
     "again after a pause."},
    {"Event", "GangSchedulerMissing",
     "Warning. The cluster lacks the scheduler that `scheduling.gangScheduler` names; no pod is "
     "made."},
    {"Event", "InvalidSpec",
     "Warning. The job cannot be run as it is; the message names the fields."},
    {"Event", "NameTaken",
     "Warning. An object that is not the job's has a name that the job needs; it waits."},
    {"Event", "CreationRefused",
     "Warning. The API server refuses to create the job's objects: a quota, an unknown field; in "
     "its words."},
    {"Event", "PodSecurity",
     "Warning. The Pod Security level of the namespace forbids the pods, or warns of them."},
    {"Event", "ServerWarning", "Warning. What the API server warned of when it made the objects."},
    {"Event", "LeaderElection", "On the Lease: an operator became leader, or stopped leading."},

    {"Accepted", "Valid", "True. The specification can be run."},
    {"Accepted", "InvalidSpec", "False. It cannot; the message names the fields. Mend them."},
    {"Scheduled", "AllRanksScheduled", "True. Every rank has a node."},
    {"Scheduled", "Starting", "False. An attempt begins; its pods are not made yet."},
    {"Scheduled", "Restarting", "False. The pause before the next attempt."},
    {"Scheduled", "WaitingForNodes",
     "False. Not every rank has a node; describe a pod to see why."},
    {"Scheduled", "Queued", "False. The gang waits in a queue of Kueue; the message names it."},
    {"Scheduled", "GangReleased",
     "False. Half a gang gave its nodes back; the pause before it tries again."},
    {"Scheduled", "WaitingForGang",
     "False. A scheduler that knows gangs has not given nodes to this one; the message names its "
     "PodGroup, and why."},
    {"Scheduled", "GangSchedulerMissing",
     "False. The cluster lacks the scheduler that `scheduling.gangScheduler` names; no pod is "
     "made."},
    {"Scheduled", "NameTaken", "False. An object of another owner has a name that the job needs."},
    {"Scheduled", "CreationRefused",
     "False. The API server refuses the objects; its words follow."},
    {"Scheduled", "PodSecurity", "False. The namespace's Pod Security level forbids the pods."},
    {"Scheduled", "Suspended", "False. The job is suspended."},
    {"Running", "AllRanksRunning", "True. All ranks of the attempt have run together."},
    {"Running", "Starting", "False. Ranks start."},
    {"Running", "Restarting", "False. A failed gang is to be replaced."},
    {"Running", "Suspending", "False. Ranks save a checkpoint and stop, to be suspended."},
    {"Running", "Scaling", "False. Ranks save a checkpoint and stop, to go on in another number."},
    {"Running", "Suspended", "False. The job is suspended."},
    {"Running", "Finished", "False. The job has ended."},
    {"Suspended", "Suspended", "True. All ranks stopped because `spec.suspend` is true."},
    {"Suspended", "Suspending", "False. They are about to."},
    {"Suspended", "Resumed", "False. `spec.suspend` is false again."},
    {"Stalled", "NoProgress", "True. No rank makes steps; the message names whom they wait for."},
    {"Stalled", "Restarted", "False. A new attempt runs."},
    {"Stalled", "Finished", "False. The job has ended."},
    {"Straggling", "SlowRank", "True. One rank keeps the others waiting; it is named."},
    {"Straggling", "Recovered", "False. It keeps up again."},
    {"Straggling", "Starting", "False. Its gang is gone; a new attempt begins."},
    {"Straggling", "Restarting", "False. Its gang failed."},
    {"Straggling", "Suspended", "False. Its gang was suspended."},
    {"Straggling", "Finished", "False. The job has ended."},
    {"Succeeded", "AllRanksSucceeded", "True. All ranks ended well."},
    {"Failed", "RestartBudgetSpent", "True. No restart is left of `failurePolicy.maxRestarts`."},
    {"Failed", "DeadlineExceeded", "True. `spec.activeDeadlineSeconds` is over."},

    {"Failure", "OOMKilled", "The kernel killed the rank: its container's memory limit."},
    {"Failure", "CudaOutOfMemory", "A GPU's memory was spent, as the end of the log says."},
    {"Failure", "PodFailed", "The pod failed, and its container left no exit status."},
    {"Failure", "PodDeleted", "Somebody deleted the pod of a rank."},
    {"Failure", "NodeLost", "The rank's node is gone, or does not answer."},
    {"Failure", "Stalled", "The rank that the others waited for when no step was made."},
};

}  // namespace

std::span<const Reason> reasons() {
  return kReasons;
}

std::string reasons_page() {
  std::string text =
      "# Events, conditions and reasons\n\n"
      "Generated by `reference_test`, which holds it against the sources. Conditions are the API; "
      "`status.state` is "
      "for display. `lockstep describe JOB` puts them into words, `lockstep events JOB` lists the "
      "events.\n";
  std::string where;
  for (const Reason& reason : reasons()) {
    if (where != reason.where) {
      where = reason.where;
      if (where == "Event") {
        text += "\n## Events\n\n| reason | meaning |\n| --- | --- |\n";
      } else if (where == "Failure") {
        text +=
            "\n## Reasons of failures\n\nOf `status.firstFailure`, and of the condition Failed "
            "where a failure is "
            "not restarted. Besides these: the reasons of [exit codes](exit-codes.md), `ExitCodeN` "
            "for any other, "
            "and the kubelet's for a pod that its node evicted or refused (`Evicted`, "
            "`Preempting`, `NodeShutdown`, "
            "...).\n\n| reason | meaning |\n| --- | --- |\n";
      } else {
        text += "\n## Condition " + where + "\n\n| reason | meaning |\n| --- | --- |\n";
      }
    }
    text += std::string("| ") + reason.reason + " | " + cell(reason.meaning) + " |\n";
  }
  return text;
}

}  // namespace lockstep::reference
