#include "runtime/train/best_model.h"

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "runtime/checkpoint/copy.h"
#include "runtime/checkpoint/layout.h"
#include "runtime/checkpoint/reader.h"
#include "runtime/checkpoint/writer.h"
#include "runtime/train/exchange.h"
#include "runtime/train/metrics_file.h"
#include "runtime/train/resume.h"
#include "runtime/train/saving.h"

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using common::ExitCode;
using common::Result;

// Rank 0 copies for so long before it meets the others again: their wait for it never nears
// communication.timeoutSeconds.
constexpr std::chrono::seconds kCopySlice{1};

constexpr char kHere[] = "here";
constexpr char kThere[] = "there";

std::string folder_of(const std::string& checkpoints, int64_t step) {
  return checkpoints + "/" + step_name(step);
}

// The folder that the named checkpoint lies in; empty if the job names none.
std::string neighbourhood(const RankState& s) {
  const std::string& named = s.config().checkpoint.resume_from;
  if (named.empty()) return "";
  return std::filesystem::path(named + "/").lexically_normal().parent_path().parent_path().string();
}

// Whether `folder` holds a checkpoint that this run can take its best weights from. What keeps it
// from being looked at is an error; that it is missing, damaged or another run's is not.
Result<bool> is_usable(const RankState& s, const std::string& folder) {
  const Result<CheckpointReader> reader = CheckpointReader::open(folder);
  if (reader) return !find_conflict(s, reader->manifest(), folder).has_value();
  const ErrorCode code = reader.error().code;
  if (code == ErrorCode::kNotFound || code == ErrorCode::kDataLoss) return false;
  return reader.error();
}

// kHere, kThere, or empty: nowhere.
Result<std::string> look_for_best(const RankState& s) {
  const int64_t step = s.evaluations.best_step;
  ASSIGN_OR_RETURN(const bool is_here,
                   is_usable(s, folder_of(checkpoints_folder(s.env.output), step)));
  if (is_here) return std::string(kHere);
  const std::string beside = neighbourhood(s);
  if (beside.empty()) return std::string();
  ASSIGN_OR_RETURN(const bool is_there, is_usable(s, folder_of(beside, step)));
  return std::string(is_there ? kThere : "");
}

// Rank 0 looks, for all.
std::string agree_on_place(RankState& s) {
  Result<std::string> place = s.is_rank0() ? look_for_best(s) : Result<std::string>(std::string());
  const ExitCode code = place ? ExitCode::kSucceeded : exit_code_of_checkpoint(place.error());
  const std::string mine =
      agree_on(*s.collective, std::move(place), code, "looking for the best checkpoint");
  return gather_texts(*s.collective, mine, "place of the best checkpoint").front();
}

void save_here(RankState& s) {
  if (s.saved_step == s.step) return;
  begin_save(s);
  s.saver->finish();
}

// What the output has of the best step is not usable: it makes room for a copy.
Result<void> make_room(const RankState& s, Disk& disk) {
  const int64_t step = s.evaluations.best_step;
  std::error_code error;
  if (!std::filesystem::exists(folder_of(checkpoints_folder(s.env.output), step), error)) return {};
  ASSIGN_OR_RETURN(const std::string moved, set_aside_checkpoint(disk, s.env.output, step));
  s.log.warning("best checkpoint not usable, taking another along",
                {{"step", step}, {"moved_to", moved}});
  return {};
}

// Rank 0 copies the best checkpoint from beside the named one, and meets the others in between.
void copy_best(RankState& s, Disk& disk) {
  constexpr const char* kWhat = "copying the best checkpoint";
  std::unique_ptr<CheckpointCopy> work;
  Result<void> prepared;
  if (s.is_rank0()) {
    const Result<CheckpointReader> reader =
        CheckpointReader::open(folder_of(neighbourhood(s), s.evaluations.best_step));
    if (reader) {
      work = std::make_unique<CheckpointCopy>(disk, *reader, s.env.output, s.env.attempt);
    }
    prepared = reader ? make_room(s, disk) : reader.error();
  }
  const bool is_gone = !prepared && !work;
  const ExitCode code =
      is_gone ? exit_code_of_checkpoint(prepared.error()) : ExitCode::kOutputUnwritable;
  agree_on(*s.collective, std::move(prepared), code, kWhat);
  for (bool done = false; !done;) {
    Result<bool> advanced = false;
    if (work) advanced = work->advance(kCopySlice);
    const bool is_unreadable = !advanced && work->is_unreadable();
    const ExitCode ends =
        is_unreadable ? exit_code_of_checkpoint(advanced.error()) : ExitCode::kOutputUnwritable;
    const bool mine = agree_on(*s.collective, std::move(advanced), ends, kWhat);
    done = !gather_texts(*s.collective, mine ? "done" : "", kWhat).front().empty();
  }
}

}  // namespace

void secure_best(RankState& s, Disk& disk) {
  if (!s.wants_best() || s.evaluations.best_step == 0) return;
  // Its weights are in memory, wherever they came from.
  if (s.evaluations.best_step == s.step) return save_here(s);
  const std::string place = agree_on_place(s);
  if (place == kHere) return;
  if (place == kThere) {
    save_here(s);
    return copy_best(s, disk);
  }
  if (s.is_rank0()) {
    s.log.warning("best checkpoint is gone",
                  {{"step", s.evaluations.best_step},
                   {"message",
                    "no sound checkpoint of that step; without a better one the model of "
                    "the last step is exported"}});
  }
  s.evaluations.best_step = 0;
}

ExportChoice load_weights_to_export(RankState& s) {
  const int64_t best = s.evaluations.best_step;
  const bool is_known = s.wants_best() && s.evaluations.last_step > 0 && best > 0;
  if (!s.wants_best()) return {s.step, "it is the last"};
  if (!is_known) return {s.step, "it is the last; no better one was kept"};
  const std::string loss = with_all_digits(s.evaluations.best_loss);
  if (best == s.step) return {s.step, "its validation loss " + loss + " is the lowest"};
  const std::string folder = folder_of(checkpoints_folder(s.env.output), best);
  if (const std::optional<Error> damage = load_state(s, folder)) {
    throw RunError({ExitCode::kCheckpointDamaged, "the best checkpoint: " + damage->message,
                    "restore " + folder + ", or remove it to export the model of step " +
                        std::to_string(s.step)});
  }
  return {best, "its validation loss " + loss + " is the lowest; the last " +
                    std::to_string(s.evaluations.without_better) + " evaluations were no better"};
}

}  // namespace lockstep::runtime
