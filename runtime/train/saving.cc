#include "runtime/train/saving.h"

#include <string>
#include <vector>

#include "runtime/train/metrics_file.h"

namespace lockstep::runtime {
namespace {

UnitSlice slice_of(const ParamShard& shard) {
  return {.unit = shard.unit,
          .begin_elem = shard.begin_elem,
          .weights = shard.weights,
          .moment1 = shard.moment1,
          .moment2 = shard.moment2};
}

// Those to keep a copy of: none if they are copied for every visit.
std::vector<UnitSlice> slices_in_memory(const RankState& s) {
  std::vector<UnitSlice> slices;
  if (!s.parallelism->is_in_host_memory()) return slices;
  const std::span<const ParamShard> owned = s.parallelism->owned();
  slices.reserve(owned.size());
  for (const ParamShard& shard : owned) slices.push_back(slice_of(shard));
  return slices;
}

Manifest manifest_of(const RankState& s) {
  Manifest manifest{.attempt = s.env.attempt,
                    .ranks = s.env.world_size,
                    .strategy = s.strategy,
                    .seed = s.config().seed,
                    .global_batch_size = s.config().batch.global_batch_size,
                    .train_json = s.job.train_json,
                    .corpus_fingerprint = s.data_fingerprint(),
                    .pretrained_fingerprint = s.pretrained_fingerprint,
                    .hub_commits = s.hub_commits};
  manifest.units.reserve(s.units.size());
  for (const Unit& unit : s.units) {
    const auto index = static_cast<int64_t>(manifest.units.size());
    manifest.units.push_back({.name = unit.name,
                              .num_elems = unit.num_elems,
                              .is_frozen = is_frozen(s.config(), index),
                              .is_base = s.is_base(index)});
  }
  return manifest;
}

}  // namespace

void make_saver(RankState& s, Disk& disk, StatusBoard& board) {
  SaverOptions options{.output = s.env.output,
                       .run = s.run,
                       .async = common::saves_behind_training(s.config()),
                       .keep = s.config().checkpoint.keep,
                       .manifest = manifest_of(s)};
  // A resume needs the lines up to its step.
  if (s.is_rank0()) options.synced_before = s.env.output + "/" + kMetricsFileName;
  s.saver = std::make_unique<CheckpointSaver>(std::move(options), slices_in_memory(s),
                                              *s.collective, disk, s.log, board);
  board.set_snapshot_bytes(s.saver->snapshot_bytes());
}

bool save_is_due(const RankState& s) {
  const int64_t every_steps = s.config().checkpoint.every_steps;
  return s.is_best() || s.step == s.config().steps ||
         (every_steps > 0 && s.step % every_steps == 0);
}

void begin_save(RankState& s) {
  EvaluationHistory evaluations = s.evaluations;
  evaluations.keeps_best = s.wants_best();
  if (s.validation) evaluations.data_fingerprint = s.validation->fingerprint();
  const SavePoint point = {.step = s.step,
                           .samples_consumed = s.step * s.config().batch.global_batch_size,
                           .history = s.history,
                           .evaluations = evaluations,
                           .is_scaled = s.config().precision == common::DType::kFp16};
  s.saved_step = s.step;
  if (s.parallelism->is_in_host_memory()) return s.saver->begin(point, slices_in_memory(s));
  s.saver->begin_visiting(point, [&s](const UseSlice& use) {
    s.parallelism->visit_owned(StateAccess::kRead,
                               [&use](const ParamShard& shard) { use(slice_of(shard)); });
  });
}

}  // namespace lockstep::runtime
