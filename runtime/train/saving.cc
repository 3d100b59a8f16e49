#include "runtime/train/saving.h"

#include <utility>

#include "runtime/checkpoint/writer.h"
#include "runtime/train/exchange.h"

namespace lockstep::runtime {
namespace {

using common::ExitCode;
using common::Result;

std::vector<UnitSlice> slices_of(const RankState& s) {
  std::vector<UnitSlice> slices;
  for (const ParamShard& shard : s.parallelism->owned()) {
    slices.push_back({.unit = shard.unit,
                      .begin_elem = shard.begin_elem,
                      .weights = shard.weights,
                      .moment1 = shard.moment1,
                      .moment2 = shard.moment2});
  }
  return slices;
}

Result<Manifest> make_manifest(const RankState& s, const std::vector<std::string>& piece_texts) {
  Manifest manifest{.step = s.step,
                    .attempt = s.env.attempt,
                    .ranks = s.env.world_size,
                    .strategy = s.strategy,
                    .seed = s.config().seed,
                    .global_batch_size = s.config().batch.global_batch_size,
                    .samples_consumed = s.step * s.config().batch.global_batch_size,
                    .train_json = s.job.train_json,
                    .corpus_fingerprint = s.samples->corpus().fingerprint()};
  for (const Unit& unit : s.units) manifest.units.push_back({unit.name, unit.num_elems});
  for (const std::string& text : piece_texts) {
    ASSIGN_OR_RETURN(const std::vector<Piece> pieces, decode_pieces(text));
    manifest.pieces.insert(manifest.pieces.end(), pieces.begin(), pieces.end());
  }
  return manifest;
}

Result<void> publish_all(const RankState& s, Disk& disk,
                         const std::vector<std::string>& piece_texts) {
  ASSIGN_OR_RETURN(const Manifest manifest, make_manifest(s, piece_texts));
  ASSIGN_OR_RETURN(const Published published,
                   publish(disk, s.env.output, manifest, s.config().checkpoint.keep));
  for (const std::string& warning : published.warnings) {
    s.log.warning("checkpoint clean-up failed", {{"step", s.step}, {"message", warning}});
  }
  return {};
}

}  // namespace

void save_checkpoint(RankState& s, Disk& disk) {
  const ShardTarget target{
      .output = s.env.output, .attempt = s.env.attempt, .step = s.step, .rank = s.env.rank};
  const std::vector<Piece> pieces =
      agree_on(*s.collective, write_shards(disk, target, slices_of(s)), ExitCode::kOutputUnwritable,
               "writing checkpoint shards");
  const std::vector<std::string> piece_texts =
      gather_texts(*s.collective, encode_pieces(pieces), "checkpoint pieces");
  Result<void> published;
  if (s.is_rank0()) published = publish_all(s, disk, piece_texts);
  agree_on(*s.collective, std::move(published), ExitCode::kOutputUnwritable,
           "publishing the checkpoint");
}

}  // namespace lockstep::runtime
