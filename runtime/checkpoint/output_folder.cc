#include "runtime/checkpoint/output_folder.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <system_error>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/checkpoint/cleanup.h"
#include "runtime/checkpoint/layout.h"
#include "runtime/common/system_error.h"
#include "runtime/common/text_file.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;
using common::Error;
using common::ErrorCode;
using common::OutputMode;
using common::Result;

constexpr std::string_view kFinishedName = "finished.json";
constexpr std::string_view kRunName = "run.json";
constexpr std::string_view kMetricsName = "metrics.jsonl";
constexpr std::string_view kNoncePrefix = ".nonce-";
constexpr std::string_view kOverwrittenName = ".overwritten-checkpoints";
constexpr std::size_t kCopyBytes = 1024 * 1024;

std::string finished_path(const std::string& output) {
  return output + "/" + std::string(kFinishedName);
}

std::string run_path(const std::string& output) {
  return output + "/" + std::string(kRunName);
}

// The JSON object in a file; an empty one if the file holds something else, nothing if it is not
// there.
Result<std::optional<nlohmann::json>> read_object(const std::string& path) {
  const Result<std::string> text = common::read_text_file(path);
  if (!text && text.error().code == ErrorCode::kNotFound) return std::optional<nlohmann::json>();
  if (!text) return text.error();
  nlohmann::json object = nlohmann::json::parse(*text, nullptr, false);
  if (!object.is_object()) object = nlohmann::json::object();
  return std::optional<nlohmann::json>(std::move(object));
}

std::string text_in(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// Whom the folder was last prepared for. Without a number, as in older folders, the attempt is 0.
struct Holder {
  std::string run;  // empty: nobody
  int64_t attempt = 0;
};

Result<Holder> holder_of(const std::string& output) {
  ASSIGN_OR_RETURN(const std::optional<nlohmann::json> object, read_object(run_path(output)));
  if (!object) return Holder{};
  const auto attempt = object->find("attempt");
  const bool is_number = attempt != object->end() && attempt->is_number_integer();
  return Holder{text_in(*object, "run"), is_number ? attempt->get<int64_t>() : 0};
}

Result<void> write_holder(Disk& disk, const std::string& output, const Holder& holder) {
  const nlohmann::ordered_json object = {{"run", holder.run}, {"attempt", holder.attempt}};
  return replace_file(disk, output, std::string(kRunName), object.dump() + "\n");
}

Error superseded(const std::string& output, int64_t attempt, const std::string& by) {
  return Error{ErrorCode::kGone,
               "attempt " + std::to_string(attempt) + " may not write to " + output + ": " + by,
               "this rank is of an attempt that was given up; nothing is to be done about it"};
}

// The nonce is part of the name, so that no cache of a network file system can answer for it.
std::string nonce_path(const std::string& output, const std::string& nonce) {
  return output + "/" + std::string(kNoncePrefix) + nonce;
}

Result<void> write_synced(Disk& disk, const std::string& path, std::string_view text) {
  ASSIGN_OR_RETURN(const std::unique_ptr<DiskFile> file, disk.open(path, OpenMode::kCreate));
  RETURN_IF_ERROR(disk.write_at(*file, 0, std::as_bytes(std::span(text.data(), text.size()))));
  return disk.sync_file(*file);
}

Result<void> check_writable(Disk& disk, const std::string& output) {
  const std::string probe = output + "/.write-test";
  RETURN_IF_ERROR(write_synced(disk, probe, "lockstep writes here\n"));
  return disk.remove_tree(probe);
}

// Removes another run's name: a restart after a crash in between must not take what is left for its
// own.
Result<void> disown(Disk& disk, const std::string& output) {
  RETURN_IF_ERROR(disk.remove_tree(run_path(output)));
  return disk.sync_folder(output);
}

// Removes what an earlier run left. The checkpoints go first and at once, by rename: what a crash
// leaves counts as finished, or is no run to resume.
Result<void> remove_run(Disk& disk, const std::string& output) {
  const std::string doomed = output + "/" + std::string(kOverwrittenName);
  RETURN_IF_ERROR(disk.remove_tree(doomed));
  std::error_code error;
  if (fs::exists(checkpoints_folder(output), error)) {
    RETURN_IF_ERROR(disk.rename(checkpoints_folder(output), doomed));
  }
  RETURN_IF_ERROR(disk.sync_folder(output));
  for (const std::string& path :
       {finished_path(output), output + "/model", output + "/" + std::string(kMetricsName),
        output + "/loss.svg", output + "/mlflow.json", output + "/tensorboard", output + "/profile",
        tokens_folder(output) + "/" + reference_file("train"),
        tokens_folder(output) + "/" + reference_file("validation"), doomed}) {
    RETURN_IF_ERROR(disk.remove_tree(path));
  }
  return disk.sync_folder(output);
}

// Removes what saves and checks left that died: those of attempts before `attempt`.
Result<void> remove_temporaries(Disk& disk, const std::string& output, int64_t attempt) {
  std::vector<std::string> nonces;
  std::error_code error;
  for (fs::directory_iterator entry(output, error); entry != fs::directory_iterator();
       entry.increment(error)) {
    if (entry->path().filename().string().starts_with(kNoncePrefix)) {
      nonces.push_back(entry->path().string());
    }
  }
  if (error) return common::system_error("list", output, error.value());
  for (const std::string& nonce : nonces) RETURN_IF_ERROR(disk.remove_tree(nonce));
  RETURN_IF_ERROR(disk.remove_tree(output + "/" + std::string(kOverwrittenName)));
  const std::vector<std::string> failures = remove_leftovers(disk, output, attempt, INT64_MAX);
  if (!failures.empty()) return Error{ErrorCode::kInternal, failures.front(), ""};
  return {};
}

// The step that a line of metrics is about; nothing for what is no such line.
std::optional<int64_t> step_of(const nlohmann::json& entry) {
  if (!entry.is_object()) return std::nullopt;
  const auto step = entry.find("step");
  if (step == entry.end() || !step->is_number_integer()) return std::nullopt;
  return step->get<int64_t>();
}

bool is_kept(const nlohmann::json& entry, const MetricsCut& cut) {
  const std::optional<int64_t> step = step_of(entry);
  if (!step || *step > cut.step) return false;
  return cut.is_evaluated || *step < cut.step || !entry.contains("validation_loss");
}

// Bytes of the complete lines at the start of `in` that `cut` keeps.
int64_t bytes_up_to(std::ifstream& in, const MetricsCut& cut) {
  int64_t num_bytes = 0;
  std::string line;
  while (std::getline(in, line) && !in.eof()) {  // eof: the last line has no newline, it is torn
    if (!is_kept(nlohmann::json::parse(line, nullptr, false), cut)) break;
    num_bytes += static_cast<int64_t>(line.size()) + 1;
  }
  return num_bytes;
}

Result<void> copy_prefix(Disk& disk, const std::string& from, const std::string& to,
                         int64_t num_bytes) {
  std::ifstream in(from, std::ios::binary);
  ASSIGN_OR_RETURN(const std::unique_ptr<DiskFile> file, disk.open(to, OpenMode::kCreate));
  std::vector<char> buffer(kCopyBytes);
  for (int64_t done = 0; done < num_bytes;) {
    const int64_t chunk = std::min(num_bytes - done, static_cast<int64_t>(buffer.size()));
    if (!in.read(buffer.data(), chunk)) {
      return Error{ErrorCode::kInternal, "cannot read " + from, "another process writes to it"};
    }
    const std::span<const char> text(buffer.data(), static_cast<std::size_t>(chunk));
    RETURN_IF_ERROR(disk.write_at(*file, done, std::as_bytes(text)));
    done += chunk;
  }
  return disk.sync_file(*file);
}

// A model or metrics where no run of ours has been are somebody's: never replaced unasked. A folder
// with checkpoints is ours, e.g. one of which somebody has copied only these.
Result<void> refuse_strangers(const std::string& output) {
  std::error_code error;
  if (fs::exists(run_path(output), error) || fs::exists(checkpoints_folder(output), error))
    return {};
  for (const std::string& name :
       {std::string("model"), std::string(kMetricsName), std::string("loss.svg")}) {
    if (!fs::exists(output + "/" + name, error)) continue;
    return Error{ErrorCode::kAlreadyExists,
                 output + " holds " + name + ", which no run of Lockstep has left there",
                 "choose another output, or --overwrite to replace it"};
  }
  return {};
}

}  // namespace

std::string tokens_folder(const std::string& output) {
  return output + "/tokens";
}

std::string reference_file(std::string_view data) {
  return std::string("reference.").append(data);
}

Result<void> prepare_output(Disk& disk, const std::string& output, const Preparation& preparation) {
  ASSIGN_OR_RETURN(const Holder holder, holder_of(output));
  const bool is_ours = holder.run == preparation.run;
  if (is_ours && holder.attempt > preparation.attempt) {
    return superseded(output, preparation.attempt,
                      "attempt " + std::to_string(holder.attempt) + " has taken over");
  }
  ASSIGN_OR_RETURN(const std::optional<FinishedRun> finished, finished_run(output));
  if (finished && preparation.mode == OutputMode::kAuto) {
    return Error{ErrorCode::kAlreadyExists,
                 output + " holds a finished run of " + std::to_string(finished->step) + " steps",
                 "choose another output, --resume to train on, or --overwrite to start again"};
  }
  if (preparation.mode != OutputMode::kOverwrite) RETURN_IF_ERROR(refuse_strangers(output));
  RETURN_IF_ERROR(disk.make_folder(output));
  RETURN_IF_ERROR(check_writable(disk, output));
  // Attempts are counted by run: those of another run say nothing about ours.
  const bool is_first = preparation.attempt == 0 || !is_ours;
  const Holder own{preparation.run, preparation.attempt};
  if (!is_first) RETURN_IF_ERROR(write_holder(disk, output, own));  // see Note [Fencing]
  if (preparation.mode == OutputMode::kOverwrite) {
    if (is_first) RETURN_IF_ERROR(disown(disk, output));
    RETURN_IF_ERROR(remove_run(disk, output));
  }
  if (preparation.mode == OutputMode::kResume) {
    RETURN_IF_ERROR(disk.remove_tree(finished_path(output)));
    RETURN_IF_ERROR(disk.sync_folder(output));
  }
  RETURN_IF_ERROR(remove_temporaries(disk, output, is_first ? INT64_MAX : preparation.attempt));
  return is_first ? write_holder(disk, output, own) : Result<void>();
}

Result<std::string> prepared_run(const std::string& output) {
  ASSIGN_OR_RETURN(Holder holder, holder_of(output));
  return std::move(holder.run);
}

Result<void> check_fence(const std::string& output, const std::string& run, int64_t attempt) {
  const Result<Holder> holder = holder_of(output);
  if (!holder) return Error{ErrorCode::kInternal, holder.error().message, ""};
  if (holder->run != run) return superseded(output, attempt, "it is not this run's any more");
  if (holder->attempt <= attempt) return {};
  return superseded(output, attempt,
                    "attempt " + std::to_string(holder->attempt) + " has taken over");
}

Result<std::optional<FinishedRun>> finished_run(const std::string& output) {
  ASSIGN_OR_RETURN(const std::optional<nlohmann::json> object, read_object(finished_path(output)));
  if (!object) return std::optional<FinishedRun>();
  const auto exported = object->find("exportedStep");
  const bool is_step = exported != object->end() && exported->is_number_integer();
  return std::optional<FinishedRun>({.step = step_of(*object).value_or(0),
                                     .run = text_in(*object, "run"),
                                     .exported_step = is_step ? exported->get<int64_t>() : 0});
}

Result<void> mark_finished(Disk& disk, const std::string& output, const FinishedRun& finished) {
  nlohmann::ordered_json object = {{"step", finished.step}, {"run", finished.run}};
  if (finished.exported_step > 0) object["exportedStep"] = finished.exported_step;
  return replace_file(disk, output, std::string(kFinishedName), object.dump() + "\n");
}

Result<void> cut_metrics(Disk& disk, const std::string& output, const MetricsCut& cut) {
  const std::string path = output + "/" + std::string(kMetricsName);
  std::error_code error;
  if (!fs::exists(path, error)) return {};
  std::ifstream in(path, std::ios::binary);
  if (!in) return common::system_error("open", path, errno);
  const int64_t num_bytes = bytes_up_to(in, cut);
  const std::uintmax_t size = fs::file_size(path, error);
  if (!error && size == static_cast<std::uintmax_t>(num_bytes)) return {};
  const std::string temporary = output + "/." + std::string(kMetricsName) + ".partial";
  RETURN_IF_ERROR(copy_prefix(disk, path, temporary, num_bytes));
  RETURN_IF_ERROR(disk.rename(temporary, path));
  return disk.sync_folder(output);
}

std::string make_nonce() {
  std::random_device random;
  std::string digits;
  for (int word = 0; word < 4; ++word) {
    std::array<char, 9> hex{};
    std::snprintf(hex.data(), hex.size(), "%08x", random());
    digits += hex.data();
  }
  return digits;
}

Result<void> write_nonce(Disk& disk, const std::string& output, const std::string& nonce) {
  RETURN_IF_ERROR(write_synced(disk, nonce_path(output, nonce), nonce));
  return disk.sync_folder(output);
}

Result<void> check_nonce(const std::string& output, const std::string& nonce) {
  const Result<std::string> seen = common::read_text_file(nonce_path(output, nonce));
  if (seen && *seen == nonce) return {};
  return Error{ErrorCode::kConflict,
               "this rank's output folder " + output + " is not the one of rank 0",
               "mount one shared volume (ReadWriteMany, or all ranks on one node) as the output"};
}

Result<void> remove_nonce(Disk& disk, const std::string& output, const std::string& nonce) {
  return disk.remove_tree(nonce_path(output, nonce));
}

}  // namespace lockstep::runtime
