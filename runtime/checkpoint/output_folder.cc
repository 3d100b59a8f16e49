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
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/checkpoint/cleanup.h"
#include "runtime/checkpoint/layout.h"
#include "runtime/common/system_error.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;
using common::Error;
using common::ErrorCode;
using common::Result;

constexpr std::string_view kFinishedName = "finished.json";
constexpr std::string_view kMetricsName = "metrics.jsonl";
constexpr std::string_view kNoncePrefix = ".nonce-";
constexpr std::string_view kOverwrittenName = ".overwritten-checkpoints";
constexpr std::size_t kCopyBytes = 1024 * 1024;

std::string finished_path(const std::string& output) {
  return output + "/" + std::string(kFinishedName);
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

// Removes what an earlier run left. The checkpoints go first and at once, by rename: a crash in
// between leaves a run that still counts as finished, or none, never one to resume.
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
        output + "/loss.svg", doomed}) {
    RETURN_IF_ERROR(disk.remove_tree(path));
  }
  return disk.sync_folder(output);
}

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
std::optional<int64_t> step_of(const std::string& line) {
  const nlohmann::json entry = nlohmann::json::parse(line, nullptr, false);
  if (!entry.is_object()) return std::nullopt;
  const auto step = entry.find("step");
  if (step == entry.end() || !step->is_number_integer()) return std::nullopt;
  return step->get<int64_t>();
}

// Bytes of the complete lines at the start of `in` whose steps are at most `step`.
int64_t bytes_up_to(std::ifstream& in, int64_t step) {
  int64_t num_bytes = 0;
  std::string line;
  while (std::getline(in, line) && !in.eof()) {  // eof: the last line has no newline, it is torn
    const std::optional<int64_t> line_step = step_of(line);
    if (!line_step || *line_step > step) break;
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

}  // namespace

Result<void> prepare_output(Disk& disk, const std::string& output, OutputMode mode,
                            int64_t attempt) {
  if (const std::optional<int64_t> step = finished_step(output);
      step && mode == OutputMode::kFresh) {
    return Error{ErrorCode::kAlreadyExists,
                 output + " holds a finished run of " + std::to_string(*step) + " steps",
                 "choose another output, --resume to train on, or --overwrite to start again"};
  }
  RETURN_IF_ERROR(disk.make_folder(output));
  RETURN_IF_ERROR(check_writable(disk, output));
  if (mode == OutputMode::kOverwrite) RETURN_IF_ERROR(remove_run(disk, output));
  if (mode == OutputMode::kResume) {
    RETURN_IF_ERROR(disk.remove_tree(finished_path(output)));
    RETURN_IF_ERROR(disk.sync_folder(output));
  }
  return remove_temporaries(disk, output, attempt);
}

std::optional<int64_t> finished_step(const std::string& output) {
  const Result<std::string> text = read_text_file(finished_path(output));
  if (!text) return std::nullopt;
  return step_of(*text).value_or(0);
}

Result<void> mark_finished(Disk& disk, const std::string& output, int64_t step) {
  return replace_file(disk, output, std::string(kFinishedName),
                      nlohmann::json{{"step", step}}.dump() + "\n");
}

Result<void> cut_metrics(Disk& disk, const std::string& output, int64_t step) {
  const std::string path = output + "/" + std::string(kMetricsName);
  std::error_code error;
  if (!fs::exists(path, error)) return {};
  std::ifstream in(path, std::ios::binary);
  if (!in) return common::system_error("open", path, errno);
  const int64_t num_bytes = bytes_up_to(in, step);
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
    std::array<char, 9> hex;
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
  const Result<std::string> seen = read_text_file(nonce_path(output, nonce));
  if (seen && *seen == nonce) return {};
  return Error{ErrorCode::kConflict,
               "this rank's output folder " + output + " is not the one of rank 0",
               "mount one shared volume (ReadWriteMany, or all ranks on one node) as the output"};
}

Result<void> remove_nonce(Disk& disk, const std::string& output, const std::string& nonce) {
  return disk.remove_tree(nonce_path(output, nonce));
}

}  // namespace lockstep::runtime
