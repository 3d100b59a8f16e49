#include "runtime/common/env_names.h"
#include "runtime/common/field_builders.h"
#include "runtime/common/train_sections.h"

namespace lockstep::common {

constexpr int64_t kMaxProfiledSteps = 100;  // a trace is kept in memory

Field checkpoint_section() {
  Field resume{.name = "resume",
               .doc =
                   "Where to start. auto: the newest checkpoint of the output. never: the "
                   "beginning. The folder of a checkpoint, e.g. /runs/a/checkpoints/step-400: "
                   "there, unless the output already holds one of this run.",
               .default_value = "auto",
               .pattern = "^(auto|never|.*/.*)$",
               .pattern_hint = "auto, never, or the folder of a checkpoint",
               .max_length = 4096};
  return object(
      "checkpoint", "Saving and resuming.",
      {
          defaulted(
              integer("everySteps", 0, kMaxCount,
                      "Steps between checkpoints; 0 = only when asked to stop and at the end."),
              500),
          defaulted(integer("keep", 1, 1000, "Checkpoints to keep."), 2),
          boolean(
              "async", true,
              "true: write checkpoints behind training, from a copy in memory, which a run takes "
              "that saves before its end; false: training waits."),
          resume,
          defaulted(
              integer("gracePeriodSeconds", 1, kMaxSeconds, "Time to save when asked to stop."),
              120),
      });
}

Field communication_section() {
  return object(
      "communication", "How ranks talk to each other.",
      {choice(
           "backend", {"auto", "shared-memory", "gloo"}, {"nccl"},
           "auto: shared memory where all ranks can open the same segment; on hosts alike, shared "
           "memory inside each and gloo across; else gloo."),
       defaulted(integer("timeoutSeconds", 1, kMaxSeconds, "Longest wait for a peer."), 600),
       env_map(
           "env",
           "Environment variables of every rank, set before it starts, e.g. GLOO_SOCKET_IFNAME; "
           "none of them may be in spec.env, and the template's replace them.")});
}

Field mlflow_section() {
  Field uri{.name = "trackingUri",
            .doc =
                "Address of the tracking server, e.g. http://mlflow:5000. Who asks is in "
                "MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and _PASSWORD, never here.",
            .required = true,
            .pattern = "^https?://[^@ ]+$",
            .pattern_hint = "http://HOST[:PORT] or https://HOST[:PORT], without user or password",
            .max_length = 1024};
  Field experiment{.name = "experiment",
                   .doc = "Name of the experiment, which is created if there is none.",
                   .default_value = "Default",
                   .min_length = 1,
                   .max_length = 500};
  Field run_name{.name = "runName",
                 .doc = "What the run is called there; the job's name unless given.",
                 .min_length = 1,
                 .max_length = 250};
  Field section =
      object("mlflow",
             "An MLflow server that rank 0 tells of parameters, metrics and the end; none unless "
             "given.",
             {uri, experiment, run_name});
  section.default_value = nullptr;
  return section;
}

Field logging_section() {
  Field peak = positive(number("peakFlopsPerRank", 0, 1e18, 0,
                               "Peak FLOP/s of one rank's device in the precision used, for the "
                               "utilisation (mfu); none is told unless given."));
  peak.default_value = nullptr;
  Field profile =
      object("profile", "Steps of which a trace for Perfetto is written; none unless given.",
             {required(integer("fromStep", 1, kMaxCount, "The first of them.")),
              defaulted(integer("steps", 1, kMaxProfiledSteps, "How many."), 3)});
  profile.default_value = nullptr;
  return object(
      "logging", "What is written down while training.",
      {defaulted(integer("everySteps", 1, kMaxCount, "Steps between lines of metrics.jsonl."), 10),
       boolean("tensorboard", false, "Whether to write TensorBoard's event files, too."),
       mlflow_section(), peak, profile});
}

}  // namespace lockstep::common
