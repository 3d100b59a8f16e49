#include "runtime/train/checkpoint_saver.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "runtime/train/exchange.h"

namespace lockstep::runtime {
namespace {

using common::ExitCode;
using common::Result;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

CheckpointSaver::CheckpointSaver(SaverOptions options, std::span<const UnitSlice> slices,
                                 Collective& collective, Disk& disk, common::Log log,
                                 StatusBoard& board)
    : options_(std::move(options)),
      collective_(collective),
      disk_(disk),
      log_(std::move(log)),
      board_(board) {
  if (options_.async) snapshot_.emplace(slices);
}

// Finishes the save before.
void CheckpointSaver::start(const SavePoint& point) {
  begun_at_ = Clock::now();
  finish();
  manifest_ = options_.manifest;
  manifest_.step = point.step;
  manifest_.samples_consumed = point.samples_consumed;
  manifest_.skipped_steps = point.history.skipped_steps;
  manifest_.consecutive_skips = point.history.consecutive_skips;
  manifest_.num_items = point.history.num_items;
  manifest_.evaluations = point.evaluations;
  if (point.is_scaled) {
    const LossScaleState& scale = point.history.loss_scale;
    manifest_.loss_scale = {scale.scale, scale.good_steps, scale.hysteresis};
  }
}

void CheckpointSaver::begin(const SavePoint& point, std::span<const UnitSlice> slices) {
  const bool waits = phase_ != Phase::kNone;
  start(point);
  std::vector<UnitSlice> written =
      snapshot_ ? snapshot_->copy(slices) : std::vector<UnitSlice>(slices.begin(), slices.end());
  thread_.start([this, written = std::move(written)] {
    return write(
        [&written](const UseSlice& use) { std::for_each(written.begin(), written.end(), use); });
  });
  phase_ = Phase::kWriting;
  if (!options_.async) finish();
  board_.training_stood_still({.seconds = seconds_since(begun_at_), .for_the_save_before = waits});
}

void CheckpointSaver::begin_visiting(const SavePoint& point, const VisitSlices& visit) {
  const bool waits = phase_ != Phase::kNone;
  start(point);
  thread_.start([this, &visit] { return write(visit); });
  phase_ = Phase::kWriting;
  thread_.wait();
  if (!options_.async) finish();
  board_.training_stood_still({.seconds = seconds_since(begun_at_), .for_the_save_before = waits});
}

SaveProgress CheckpointSaver::progress() const {
  if (phase_ == Phase::kNone) return SaveProgress::kNone;
  switch (thread_.state()) {
    case DiskThread::State::kBusy:
      return SaveProgress::kBusy;
    case DiskThread::State::kFailed:
      return SaveProgress::kFailed;
    case DiskThread::State::kDone:
    case DiskThread::State::kIdle:  // rank 0 publishes; there is nothing to do here
      break;
  }
  return SaveProgress::kDone;
}

void CheckpointSaver::advance(std::span<const SaveProgress> by_rank) {
  if (phase_ == Phase::kNone) return;
  const bool failed =
      std::find(by_rank.begin(), by_rank.end(), SaveProgress::kFailed) != by_rank.end();
  const bool done = std::all_of(by_rank.begin(), by_rank.end(), [](SaveProgress progress) {
    return progress == SaveProgress::kDone;
  });
  if (!failed && !done) return;
  // A rank that is still busy when another has failed does not wait: the save is lost.
  const bool abandons = failed && thread_.state() == DiskThread::State::kBusy;
  complete_phase(abandons ? Result<void>() : thread_.await());
}

void CheckpointSaver::finish() {
  while (phase_ != Phase::kNone) complete_phase(thread_.await());
}

void CheckpointSaver::complete_phase(Result<void> mine) {
  return phase_ == Phase::kWriting ? complete_writing(std::move(mine))
                                   : complete_publishing(std::move(mine));
}

void CheckpointSaver::complete_writing(Result<void> mine) {
  agree_on(collective_, std::move(mine), ExitCode::kOutputUnwritable, "writing checkpoint shards");
  const std::vector<std::string> texts =
      gather_texts(collective_, encode_pieces(pieces_), "checkpoint pieces");
  phase_ = Phase::kPublishing;
  if (collective_.rank() != 0) return;
  for (const std::string& text : texts) {
    const std::vector<Piece> pieces =
        value_or_raise(decode_pieces(text), ExitCode::kInternal);  // peers run the same program
    manifest_.pieces.insert(manifest_.pieces.end(), pieces.begin(), pieces.end());
  }
  thread_.start([this] { return publish_pieces(); });
}

void CheckpointSaver::complete_publishing(Result<void> mine) {
  agree_on(collective_, std::move(mine), ExitCode::kOutputUnwritable, "publishing the checkpoint");
  phase_ = Phase::kNone;
  const double seconds = seconds_since(begun_at_);
  board_.checkpoint_done(manifest_.step, seconds);
  if (collective_.rank() != 0) return;
  for (const std::string& warning : warnings_) {
    log_.warning("checkpoint clean-up failed", {{"step", manifest_.step}, {"message", warning}});
  }
  log_.info("checkpoint", {{"step", manifest_.step}, {"seconds", seconds}});
}

// On the disk thread.
Result<void> CheckpointSaver::write(const VisitSlices& visit) {
  if (!options_.synced_before.empty()) {
    ASSIGN_OR_RETURN(const std::unique_ptr<DiskFile> file,
                     disk_.open(options_.synced_before, OpenMode::kExisting));
    RETURN_IF_ERROR(disk_.sync_file(*file));
  }
  const ShardTarget target{.output = options_.output,
                           .attempt = manifest_.attempt,
                           .step = manifest_.step,
                           .rank = collective_.rank()};
  ASSIGN_OR_RETURN(pieces_, write_shards(disk_, target, visit));
  return {};
}

// On rank 0's disk thread.
Result<void> CheckpointSaver::publish_pieces() {
  ASSIGN_OR_RETURN(Published published,
                   publish(disk_, options_.output, options_.run, manifest_, options_.keep));
  warnings_ = std::move(published.warnings);
  return {};
}

}  // namespace lockstep::runtime
