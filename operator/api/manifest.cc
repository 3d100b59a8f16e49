#include "operator/api/manifest.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "operator/api/codec.h"
#include "operator/api/job_check.h"
#include "operator/api/job_fields.h"
#include "operator/api/json_read.h"
#include "operator/api/overrides.h"
#include "runtime/common/document.h"
#include "runtime/common/schema.h"
#include "runtime/common/suggest.h"
#include "runtime/common/train_config.h"
#include "runtime/common/train_fields.h"

namespace lockstep::api {
namespace {

using common::Document;
using common::Error;
using common::ErrorCode;
using common::Problem;
using common::Problems;
using common::Result;
using nlohmann::json;

bool is_manifest(const json& value) {
  return value.is_object() &&
         (value.contains("apiVersion") || value.contains("kind") || value.contains("spec"));
}

// A configuration alone: at least one of its keys is one of `train`.
bool is_bare_train(const json& value) {
  if (!value.is_object() || is_manifest(value)) return false;
  for (const auto& [key, ignored] : value.items()) {
    if (common::find_child(common::train_fields(), key) != nullptr) return true;
  }
  return false;
}

// The manifest that a bare training configuration stands for; its lines move along.
Document wrap_bare_train(const Document& bare, const std::string& file_name) {
  Document document;
  document.value = {{"apiVersion", kApiVersion},
                    {"kind", kKind},
                    {"metadata", {{"name", job_name_from_file(file_name)}}},
                    {"spec", {{"ranks", 1}, {"train", bare.value}}}};
  for (const auto& [path, line] : bare.lines) document.lines["spec.train." + path] = line;
  return document;
}

// What the documents of a file are, for the message that none is a TrainingJob.
std::string kinds_of(const std::vector<Document>& documents) {
  std::vector<std::string> kinds;
  for (const Document& document : documents) {
    const std::string kind = text(document.value, "kind");
    if (!document.value.is_null()) kinds.push_back(kind.empty() ? "a document without kind" : kind);
  }
  return kinds.empty() ? "nothing" : common::join(kinds);
}

// The TrainingJob among `documents`; counts the others.
std::optional<Document> pick_job(const std::vector<Document>& documents,
                                 const ManifestOptions& options, Manifest& manifest) {
  std::optional<Document> job;
  int64_t num_jobs = 0;
  for (const Document& document : documents) {
    if (text(document.value, "kind") == kKind) {
      if (++num_jobs == 1) {
        job = document;
      } else {
        manifest.problems.push_back({.path = "kind",
                                     .line = document.line_of("kind"),
                                     .message = "the file holds more than one TrainingJob",
                                     .hint = "put each in a file of its own"});
      }
    } else if (!document.value.is_null()) {
      ++manifest.num_other_documents;
    }
  }
  if (job) return job;
  if (documents.size() == 1 && is_bare_train(documents.front().value)) {
    manifest.bare_train = true;
    manifest.num_other_documents = 0;
    return wrap_bare_train(documents.front(), options.file_name);
  }
  manifest.problems.push_back(
      {.message = "no TrainingJob in this file, found " + kinds_of(documents),
       .hint = std::string("kind must be TrainingJob, apiVersion ") + kApiVersion +
               "; or give the keys of spec.train alone"});
  return std::nullopt;
}

// Keys beside spec; what lies inside metadata is the API server's matter, except the name.
void check_envelope(const Document& document, Problems& problems) {
  const json& value = document.value;
  const std::vector<std::string> known = {"apiVersion", "kind", "metadata", "spec", "status"};
  for (const auto& [key, ignored] : value.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    problems.push_back({.path = common::child_path("", key),
                        .line = document.line_of(common::child_path("", key)),
                        .message = "unknown field",
                        .hint = "known fields: " + common::join(known)});
  }
  if (text(value, "apiVersion") != kApiVersion) {
    problems.push_back({.path = "apiVersion",
                        .line = document.line_of("apiVersion"),
                        .message = std::string("must be ") + kApiVersion + ", found \"" +
                                   text(value, "apiVersion") + "\""});
  }
  for (Problem& problem : check_name(text(member(value, "metadata"), "name"))) {
    problem.line = document.line_of(problem.path);
    problems.push_back(std::move(problem));
  }
}

// Adds problems, each with its line, or as the work of an override.
void add_problems(Problems found, const Document& document, const std::vector<std::string>& set,
                  Problems& problems) {
  for (Problem& problem : found) {
    problem.line = document.line_of(problem.path);
    for (const std::string& path : set) {
      if (!common::is_within(problem.path, path)) continue;
      problem.line = 0;
      problem.message += ", set by --set";
      break;
    }
    problems.push_back(std::move(problem));
  }
}

void fill_in(const Document& document, const ManifestOptions& options, Manifest& manifest) {
  json spec = member(document.value, "spec");
  std::vector<std::string> set;
  check_envelope(document, manifest.problems);
  for (Problem& problem : apply_overrides(options.sets, spec, set)) {
    manifest.problems.push_back(std::move(problem));
  }
  common::Checked checked = common::check_and_default(spec_fields(), spec, "spec");
  add_problems(std::move(checked.problems), document, set, manifest.problems);
  add_problems(check_spec_relations(checked.value), document, set, manifest.problems);
  std::stable_sort(manifest.problems.begin(), manifest.problems.end(),
                   [](const Problem& a, const Problem& b) { return a.line < b.line; });
  manifest.metadata = member(document.value, "metadata");
  manifest.spec = checked.value;
  if (common::has_errors(manifest.problems)) return;

  json object = document.value;
  object["spec"] = checked.value;
  Result<TrainingJob> job = decode_job(object);
  if (!job) {
    manifest.problems.push_back({.message = job.error().message, .hint = job.error().hint});
    return;
  }
  manifest.job = std::move(*job);
  if (manifest.job.meta.ns.empty()) manifest.job.meta.ns = "default";
  if (checked.value.contains("train")) {
    manifest.resolved =
        common::resolve_train(checked.value.at("train"), manifest.job.spec.ranks).notes;
  }
}

}  // namespace

Manifest parse_manifest(const std::string& text, const ManifestOptions& options) {
  Manifest manifest;
  common::ParsedText parsed = common::parse_documents(text);
  manifest.problems = std::move(parsed.problems);
  if (parsed.documents.empty() && !manifest.problems.empty()) return manifest;
  if (const std::optional<Document> job = pick_job(parsed.documents, options, manifest)) {
    fill_in(*job, options, manifest);
  }
  return manifest;
}

Result<std::string> read_config_file(const std::string& path) {
  constexpr std::uintmax_t kLargest = 4 << 20;
  std::error_code failure;
  const std::filesystem::file_status status = std::filesystem::status(path, failure);
  if (!std::filesystem::exists(status)) {
    return Error{ErrorCode::kNotFound, path + ": no such file"};
  }
  if (std::filesystem::is_directory(status)) {
    return Error{ErrorCode::kInvalidArgument, path + ": is a folder", "name the file in it"};
  }
  if (std::filesystem::is_regular_file(status) &&
      std::filesystem::file_size(path, failure) > kLargest) {
    return Error{ErrorCode::kInvalidArgument, path + ": is larger than 4 MiB",
                 "is it really a manifest?"};
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return Error{ErrorCode::kPermissionDenied, path + ": cannot be read: " + std::strerror(errno)};
  }
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

Result<Manifest> load_manifest(const std::string& path, const std::vector<std::string>& sets) {
  ASSIGN_OR_RETURN(const std::string text, read_config_file(path));
  return parse_manifest(text, {.file_name = path, .sets = sets});
}

std::string job_name_from_file(const std::string& path) {
  const std::filesystem::path file(path);
  const std::string extension = file.extension().string();
  const bool known = extension == ".yaml" || extension == ".yml" || extension == ".json";
  std::string name;
  for (const char c : (known ? file.stem() : file.filename()).string()) {
    const auto byte = static_cast<unsigned char>(c);
    name += std::isalnum(byte) != 0 ? static_cast<char>(std::tolower(byte)) : '-';
  }
  name.erase(0, std::min(name.find_first_of("abcdefghijklmnopqrstuvwxyz"), name.size()));
  if (name.size() > static_cast<size_t>(kMaxNameLength)) {
    name.resize(static_cast<size_t>(kMaxNameLength));
  }
  name.erase(name.find_last_not_of('-') + 1);
  return name.empty() ? "train" : name;
}

}  // namespace lockstep::api
