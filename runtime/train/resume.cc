#include "runtime/train/resume.h"

#include <limits>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/checkpoint/reader.h"
#include "runtime/checkpoint/writer.h"
#include "runtime/train/changed_settings.h"
#include "runtime/train/exchange.h"

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using common::ExitCode;
using common::Result;

constexpr char kDifferentRun[] =
    "give the job another output folder, overwrite this one, or restore the configuration";

Error conflict(const Manifest& manifest, const std::string& folder, const std::string& what) {
  return {ErrorCode::kConflict,
          "the checkpoint of step " + std::to_string(manifest.step) + " in " + folder +
              " belongs to another run: " + what,
          kDifferentRun};
}

// Where the weights come from that a run is of.
std::string weights_field(const RankState& s) {
  const std::string model = "train.model.path";
  return s.teacher == nullptr ? model : model + " or train.distill.teacher";
}

bool same_units(const std::vector<Unit>& units, const std::vector<ManifestUnit>& saved) {
  return std::equal(units.begin(), units.end(), saved.begin(), saved.end(),
                    [](const Unit& unit, const ManifestUnit& other) {
                      return unit.name == other.name && unit.num_elems == other.num_elems;
                    });
}

Result<void> load_shard(const CheckpointReader& reader, const ParamShard& shard) {
  RETURN_IF_ERROR(
      reader.read_slice(shard.unit, PieceKind::kWeights, shard.begin_elem, shard.weights));
  if (!shard.moment1.empty()) {
    RETURN_IF_ERROR(
        reader.read_slice(shard.unit, PieceKind::kMoment1, shard.begin_elem, shard.moment1));
  }
  if (shard.moment2.empty()) return {};
  return reader.read_slice(shard.unit, PieceKind::kMoment2, shard.begin_elem, shard.moment2);
}

// What the steps before left behind. A run that was not fp16 then begins with a fresh loss scale.
StepHistory history_of(const RankState& s, const Manifest& manifest) {
  StepHistory history = initial_history(s.config());
  history.skipped_steps = manifest.skipped_steps;
  history.consecutive_skips = manifest.consecutive_skips;
  history.num_items = manifest.num_items;
  if (s.config().precision == common::DType::kFp16 && manifest.loss_scale &&
      s.config().loss_scale.fixed == 0) {
    history.loss_scale = {.scale = manifest.loss_scale->scale,
                          .good_steps = manifest.loss_scale->good_steps,
                          .hysteresis = manifest.loss_scale->hysteresis};
  }
  return history;
}

// Why the losses of a checkpoint say nothing about those to come; empty if they do, or there are
// none.
std::string why_incomparable(const RankState& s, const EvaluationHistory& evaluations) {
  if (evaluations.last_step == 0) return "";
  if (!s.validation) return "train.data.validation names no data";
  if (evaluations.data_fingerprint.empty()) {
    return "the checkpoint does not tell which data they were of";
  }
  const bool is_same = s.validation->fingerprint() == evaluations.data_fingerprint;
  return is_same ? "" : "train.data.validation holds other data than then";
}

// What the steps of a checkpoint left behind besides weights and moments.
struct Past {
  StepHistory history;
  EvaluationHistory evaluations;
  std::string why_forgotten;  // the evaluations of the checkpoint; empty if they are not
};

Result<Past> load_shards(RankState& s, const std::string& folder) {
  ASSIGN_OR_RETURN(const CheckpointReader reader, CheckpointReader::open(folder));
  Result<void> loaded;
  s.parallelism->visit_shards(StateAccess::kFill, [&](const ParamShard& shard) {
    if (loaded && !shard.weights.empty()) loaded = load_shard(reader, shard);
  });
  if (!loaded) return loaded.error();
  const EvaluationHistory& evaluations = reader.manifest().evaluations;
  const std::string why_forgotten = why_incomparable(s, evaluations);
  return Past{.history = history_of(s, reader.manifest()),
              .evaluations = why_forgotten.empty() ? evaluations : EvaluationHistory(),
              .why_forgotten = why_forgotten};
}

void initialize(RankState& s, const FillFirstWeights& fill_first_weights) {
  s.history = initial_history(s.config());
  fill_first_weights();
}

}  // namespace

ExitCode exit_code_of_checkpoint(const Error& error) {
  switch (error.code) {
    case ErrorCode::kDataLoss:
      return ExitCode::kCheckpointDamaged;
    case ErrorCode::kConflict:
      return ExitCode::kInvalidConfig;
    case ErrorCode::kInvalidArgument:  // a format of another version
      return ExitCode::kInvalidData;
    case ErrorCode::kNotFound:
    case ErrorCode::kPermissionDenied:
      return ExitCode::kInputNotFound;
    default:
      return ExitCode::kInternal;  // of the system; a restart may find it gone
  }
}

namespace {

struct Loaded {
  std::optional<Error> damage;  // why the checkpoint is damaged, on any rank
  Past past;
};

// Loads the checkpoint's weights and moments on all ranks. Whatever goes wrong besides damage says
// nothing about the checkpoint and ends the work.
//   takes_gone_for_damaged: a checkpoint of this run that must be there.
Loaded load_on_all_ranks(RankState& s, const std::string& folder,
                         bool takes_gone_for_damaged = false) {
  const Result<Past> loaded = load_shards(s, folder);
  std::optional<RunFailure> failure;
  std::string damage;
  if (!loaded) {
    const ErrorCode code = loaded.error().code;
    if (code == ErrorCode::kDataLoss || (code == ErrorCode::kNotFound && takes_gone_for_damaged)) {
      damage = loaded.error().message + " ";
    } else {
      failure = to_failure(exit_code_of_checkpoint(loaded.error()), loaded.error());
    }
  }
  agree(*s.collective, failure, "reading the checkpoint");
  for (const std::string& text : gather_texts(*s.collective, damage, "loading the checkpoint")) {
    if (!text.empty()) return {.damage = Error{ErrorCode::kDataLoss, text, ""}, .past = {}};
  }
  return {.damage = {}, .past = *loaded};
}

void go_on_from(RankState& s, int64_t step, const Past& past) {
  s.step = step;
  s.history = past.history;
  s.evaluations = past.evaluations;
  if (past.why_forgotten.empty() || !s.is_rank0()) return;
  s.log.warning("evaluations so far do not count",
                {{"step", step}, {"message", past.why_forgotten}});
}

// Rank 0's choice of the next checkpoint to try, and the damaged ones that it passed over.
struct Candidates {
  std::vector<SkippedCheckpoint> damaged;
  int64_t before_step = std::numeric_limits<int64_t>::max();
  std::string train_json;  // of the choice
};

// Nothing is left to try after `last`, and every checkpoint was damaged.
Error all_damaged(const RankState& s, const Candidates& candidates, const Error& last) {
  std::string all = last.message;
  for (const SkippedCheckpoint& skipped : candidates.damaged) {
    all += "; " + skipped.reason.message;
  }
  return {ErrorCode::kDataLoss, "no sound checkpoint in " + s.env.output + ": " + all,
          "restore the checkpoints, or remove them to start afresh"};
}

// The step to try; 0 if the output holds no checkpoint.
Result<int64_t> choose(const RankState& s, Candidates& candidates) {
  Result<OpenedCheckpoint> opened = open_newest(s.env.output, candidates.before_step);
  if (!opened) {
    const Error& error = opened.error();
    const bool is_end = error.code == ErrorCode::kNotFound || error.code == ErrorCode::kDataLoss;
    if (!is_end) return error;
    if (error.code == ErrorCode::kNotFound && candidates.damaged.empty()) return int64_t{0};
    return all_damaged(s, candidates, error);
  }
  candidates.damaged.insert(candidates.damaged.end(), opened->skipped.begin(),
                            opened->skipped.end());
  const Manifest& manifest = opened->reader.manifest();
  if (const std::optional<Error> found = find_conflict(s, manifest, s.env.output)) return *found;
  candidates.train_json = manifest.train_json;
  return manifest.step;
}

// Says which checkpoints were passed over, and makes room for publishing their steps again.
Result<void> set_aside(const RankState& s, Disk& disk, const Candidates& candidates) {
  for (const SkippedCheckpoint& skipped : candidates.damaged) {
    ASSIGN_OR_RETURN(const std::string folder,
                     set_aside_checkpoint(disk, s.env.output, skipped.checkpoint.step));
    s.log.warning("checkpoint damaged, using an older one", {{"step", skipped.checkpoint.step},
                                                             {"message", skipped.reason.message},
                                                             {"moved_to", folder}});
  }
  return {};
}

// Agrees on the step that rank 0 has chosen; what other ranks pass is not looked at.
int64_t agree_on_step(RankState& s, Result<int64_t> chosen) {
  const ExitCode code = chosen ? ExitCode::kSucceeded : exit_code_of_checkpoint(chosen.error());
  const int64_t step = agree_on(*s.collective, std::move(chosen), code, "choosing a checkpoint");
  return std::stoll(gather_texts(*s.collective, std::to_string(step), "checkpoint step").front());
}

void log_resumed(const RankState& s, const std::string& folder, const std::string& train_json) {
  s.log.info("resumed", {{"step", s.step}, {"folder", folder}});
  const std::string changes = changed_settings(train_json, s.job.train_json);
  if (!changes.empty()) s.log.warning("settings changed since", {{"changes", changes}});
}

// Goes on from the newest sound checkpoint of the output; false if it holds none.
//   unused: let go of, with the weights that it holds, before one is loaded.
bool resume_from_output(RankState& s, Disk& disk, FillFirstWeights& unused) {
  Candidates candidates;
  while (true) {
    const int64_t step =
        agree_on_step(s, s.is_rank0() ? choose(s, candidates) : Result<int64_t>(0));
    if (step == 0) return false;
    unused = nullptr;
    const std::string folder = s.env.output + "/checkpoints/step-" + std::to_string(step);
    const Loaded loaded = load_on_all_ranks(s, folder);
    if (!loaded.damage) {
      Result<void> moved;
      if (s.is_rank0()) moved = set_aside(s, disk, candidates);
      agree_on(*s.collective, std::move(moved), ExitCode::kOutputUnwritable,
               "setting damaged checkpoints aside");
      go_on_from(s, step, loaded.past);
      s.saved_step = step;
      if (s.is_rank0()) log_resumed(s, folder, candidates.train_json);
      return true;
    }
    candidates.damaged.push_back({{step, folder}, *loaded.damage});
    candidates.before_step = step;
  }
}

// The step of the checkpoint in `folder`, if this run may go on from it.
Result<int64_t> open_named(const RankState& s, const std::string& folder, std::string& train_json) {
  Result<CheckpointReader> reader = CheckpointReader::open(folder);
  if (!reader) {
    Error error = reader.error();
    error.message = "train.checkpoint.resume: " + error.message;
    error.hint = "name the folder of a sound checkpoint, e.g. /runs/a/checkpoints/step-400";
    return error;
  }
  if (const auto found = find_conflict(s, reader->manifest(), folder)) return *found;
  train_json = reader->manifest().train_json;
  return reader->manifest().step;
}

// Goes on from the one checkpoint in `folder`, or not at all.
void resume_from_named(RankState& s, const std::string& folder) {
  std::string train_json;
  const int64_t step =
      agree_on_step(s, s.is_rank0() ? open_named(s, folder, train_json) : Result<int64_t>(0));
  const Loaded loaded = load_on_all_ranks(s, folder);
  if (loaded.damage) {
    throw RunError({ExitCode::kCheckpointDamaged,
                    "train.checkpoint.resume: " + loaded.damage->message,
                    "name another checkpoint"});
  }
  go_on_from(s, step, loaded.past);
  s.evaluations.without_better = 0;
  if (s.is_rank0()) log_resumed(s, folder, train_json);
}

}  // namespace

std::optional<Error> find_conflict(const RankState& s, const Manifest& manifest,
                                   const std::string& folder) {
  const std::string difference = first_difference(manifest.train_json, s.job.train_json);
  if (!difference.empty()) return conflict(manifest, folder, difference);
  const int moments = num_moments(s.config().optimizer);
  if (num_moments(manifest) != moments) {
    return conflict(manifest, folder,
                    "train.optimizer.momentum is " +
                        nlohmann::json(s.config().optimizer.momentum).dump() + ", which keeps " +
                        std::to_string(moments) + " moments per weight, and it " + "has " +
                        std::to_string(num_moments(manifest)));
  }
  if (manifest.seed != s.config().seed) return conflict(manifest, folder, "another seed");
  if (manifest.global_batch_size != s.config().batch.global_batch_size) {
    return conflict(manifest, folder, "another global batch size");
  }
  if (!same_units(s.units, manifest.units)) return conflict(manifest, folder, "another model");
  if (manifest.corpus_fingerprint != s.data_fingerprint()) {
    return conflict(manifest, folder, "train.data holds other data than then");
  }
  if (manifest.pretrained_fingerprint != s.pretrained_fingerprint) {
    return conflict(manifest, folder, weights_field(s) + " holds other weights than then");
  }
  if (manifest.step > s.config().steps) {
    return conflict(manifest, folder,
                    "it is beyond train.steps = " + std::to_string(s.config().steps));
  }
  return std::nullopt;
}

std::optional<Error> load_state(RankState& s, const std::string& folder) {
  return load_on_all_ranks(s, folder, /*takes_gone_for_damaged=*/true).damage;
}

void resume_or_initialize(RankState& s, Disk& disk, bool may_resume,
                          FillFirstWeights fill_first_weights) {
  const std::string& named = s.config().checkpoint.resume_from;
  if (!may_resume || !resume_from_output(s, disk, fill_first_weights)) {
    if (named.empty()) {
      initialize(s, fill_first_weights);
    } else {
      fill_first_weights = nullptr;
      resume_from_named(s, named);
    }
  }
  s.parallelism->weights_updated();
}

}  // namespace lockstep::runtime
