#include "operator/runs/run_files.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace lockstep::runs {

namespace fs = std::filesystem;
using common::Error;
using common::ErrorCode;
using common::Result;

namespace {

// A line of metrics has under 1 KiB; a manifest a few KiB per GiB of weights.
constexpr int64_t kMaxFileBytes = int64_t{256} << 20;
// Of a long log the begin tells how the attempt started, the end how it went out.
constexpr int64_t kLogHeadBytes = 64 << 10;
constexpr int64_t kLogTailBytes = 256 << 10;

std::string read_range(std::ifstream& in, int64_t begin, int64_t size) {
  std::string text(static_cast<std::size_t>(size), '\0');
  in.seekg(begin);
  in.read(text.data(), size);
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

class Reader {
 public:
  explicit Reader(RunFiles& files) : files_(files) {}

  // Nothing if there is no such file; also, with a word about it, if it cannot be read.
  std::optional<std::string> read(const fs::path& path) {
    std::error_code error;
    if (!fs::exists(path, error)) return std::nullopt;
    const auto size = fs::is_regular_file(path, error) ? size_of(path) : std::nullopt;
    if (!size || *size > kMaxFileBytes) {
      complain(path, size ? "is larger than 256 MiB" : "is not a readable file");
      return std::nullopt;
    }
    std::ifstream in(path, std::ios::binary);
    if (!in) {
      complain(path, std::strerror(errno));
      return std::nullopt;
    }
    return read_range(in, 0, *size);
  }

  // A log of any length: its begin and its end.
  std::string read_log(const fs::path& path) {
    const std::optional<int64_t> size = size_of(path);
    if (!size) return "";
    if (*size <= kLogHeadBytes + kLogTailBytes) return read(path).value_or("");
    std::ifstream in(path, std::ios::binary);
    std::string head = read_range(in, 0, kLogHeadBytes);
    in.clear();
    return head + "\n" + read_range(in, *size - kLogTailBytes, kLogTailBytes);
  }

  void complain(const fs::path& path, std::string_view why) {
    files_.unreadable.push_back(path.string().append(" ").append(why));
  }

  static std::optional<int64_t> size_of(const fs::path& path) {
    std::error_code error;
    const auto size = fs::file_size(path, error);
    if (error) return std::nullopt;
    return static_cast<int64_t>(size);
  }

 private:
  RunFiles& files_;
};

// The number behind `prefix` in "step-12"; nothing for other names.
std::optional<int64_t> number_after(std::string_view name, std::string_view prefix,
                                    std::string_view suffix = "") {
  if (!name.starts_with(prefix) || !name.ends_with(suffix)) return std::nullopt;
  if (name.size() <= prefix.size() + suffix.size()) return std::nullopt;
  const std::string_view digits =
      name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
  int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), number);
  if (error != std::errc() || end != digits.end() || number < 0) return std::nullopt;
  return number;
}

// The names below `folder`; none if it is not there.
std::vector<std::string> names_in(const fs::path& folder, Reader& reader) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    reader.complain(folder, error.message());
  }
  std::sort(names.begin(), names.end());
  return names;
}

void read_checkpoints(const fs::path& folder, Reader& reader, RunFiles& files) {
  for (const std::string& name : names_in(folder, reader)) {
    const std::optional<int64_t> step = number_after(name, "step-");
    if (!step) continue;
    const std::optional<std::string> manifest = reader.read(folder / name / "manifest.json");
    if (!manifest) continue;  // without one it is no checkpoint
    CheckpointFiles checkpoint{.step = *step, .bytes = 0, .manifest = *manifest};
    for (const std::string& file : names_in(folder / name, reader)) {
      checkpoint.bytes += Reader::size_of(folder / name / file).value_or(0);
    }
    files.checkpoints.push_back(std::move(checkpoint));
  }
  std::sort(files.checkpoints.begin(), files.checkpoints.end(),
            [](const auto& a, const auto& b) { return a.step < b.step; });
}

void read_attempt(const fs::path& folder, int64_t attempt, Reader& reader, RunFiles& files) {
  for (const std::string& name : names_in(folder, reader)) {
    const std::optional<int64_t> rank = number_after(name, "rank-", ".log");
    if (!rank) continue;
    const std::string end =
        reader.read(folder / ("rank-" + std::to_string(*rank) + ".end")).value_or("");
    files.logs.push_back({attempt, *rank, reader.read_log(folder / name), end});
  }
}

// "JOB-ATTEMPT.json" -> ATTEMPT.
std::optional<int64_t> attempt_of_job_file(const std::string& name) {
  const std::size_t dash = name.rfind('-');
  if (dash == std::string::npos || dash == 0) return std::nullopt;
  return number_after(name, name.substr(0, dash + 1), ".json");
}

void read_logs(const fs::path& folder, Reader& reader, RunFiles& files) {
  int64_t newest = -1;
  for (const std::string& name : names_in(folder, reader)) {
    if (const auto attempt = number_after(name, "attempt-")) {
      read_attempt(folder / name, *attempt, reader, files);
    } else if (const auto job = attempt_of_job_file(name); job && *job > newest) {
      newest = *job;
      files.job = reader.read(folder / name).value_or("");
    }
  }
  std::sort(files.logs.begin(), files.logs.end(), [](const RankLog& a, const RankLog& b) {
    return std::pair(a.attempt, a.rank) < std::pair(b.attempt, b.rank);
  });
}

}  // namespace

Result<RunFiles> read_run_files(const std::string& folder) {
  std::error_code error;
  const fs::file_status status = fs::status(folder, error);
  if (!fs::exists(status)) {
    return Error{ErrorCode::kNotFound, folder + ": no such folder",
                 "name the output of a run, e.g. runs/JOB"};
  }
  if (!fs::is_directory(status)) {
    return Error{ErrorCode::kInvalidArgument, folder + ": not a folder",
                 "name the output of a run, e.g. runs/JOB"};
  }
  RunFiles files{.folder = folder};
  Reader reader(files);
  const fs::path root(folder);
  files.metrics = reader.read(root / "metrics.jsonl");
  files.run = reader.read(root / "run.json");
  files.finished = reader.read(root / "finished.json");
  read_checkpoints(root / "checkpoints", reader, files);
  read_logs(root / "logs", reader, files);
  files.has_model = fs::exists(root / "model", error);
  const bool is_empty = !files.metrics && !files.run && !files.finished &&
                        files.checkpoints.empty() && files.logs.empty();
  if (!is_empty || !files.unreadable.empty()) return files;
  return Error{ErrorCode::kInvalidArgument, folder + ": no run has been here",
               "it has neither metrics.jsonl nor run.json, checkpoints or logs"};
}

}  // namespace lockstep::runs
