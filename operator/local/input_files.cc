#include "operator/local/input_files.h"

#include <cstddef>
#include <filesystem>
#include <system_error>

#include <glob.h>

#include "runtime/common/document.h"
#include "runtime/common/hub_inputs.h"
#include "runtime/common/teacher_model.h"
#include "runtime/common/train_config.h"

namespace lockstep::local {

namespace {

constexpr const char* kWherePathsStart =
    "relative paths start at the current folder; --input NAME=PATH stands for a volume";

bool matches_something(const std::string& pattern) {
  glob_t found{};
  const int rc = glob(pattern.c_str(), GLOB_BRACE | GLOB_NOSORT, nullptr, &found);
  globfree(&found);
  return rc == 0;
}

bool is_there(const std::string& path) {
  std::error_code unseen;
  return std::filesystem::exists(path, unseen);
}

// What the job has at `pointer` of train; empty if nothing.
std::string path_at(const api::TrainingJob& job, const char* pointer) {
  const nlohmann::json::json_pointer place(pointer);
  if (!job.spec.train.is_object() || !job.spec.train.contains(place)) return "";
  return job.spec.train.at(place).get<std::string>();
}

// The config.json that the job's model is in; empty if it names no directory.
std::string config_file_of(const api::TrainingJob& job) {
  const std::string folder = path_at(job, "/model/path");
  return folder.empty() || common::is_hub_reference(folder) ? "" : folder + "/config.json";
}

void report_missing(const std::string& path, const char* field, common::Problems& problems) {
  if (path.empty() || common::is_hub_reference(path) || is_there(path)) return;
  problems.push_back({.path = std::string("spec.train.").append(field),
                      .message = "there is no " + path + " here",
                      .hint = kWherePathsStart,
                      .warning = true});
}

common::Problem model_problem(const char* field, const common::Error& error) {
  return {.path = std::string("spec.train.").append(field),
          .message = error.message,
          .hint = error.hint};
}

// `object[key]` is a path, folder or glob that the job calls `field`.
void report_unmatched(const nlohmann::json& object, const char* key, const std::string& field,
                      common::Problems& problems) {
  if (!object.is_object() || !object.contains(key) || !object.at(key).is_string()) return;
  const auto pattern = object.at(key).get<std::string>();
  if (pattern.empty() || common::is_hub_reference(pattern) || matches_something(pattern)) return;
  problems.push_back({.path = "spec.train." + field,
                      .message = "nothing here matches '" + pattern + "'",
                      .hint = kWherePathsStart,
                      .warning = true});
}

}  // namespace

common::Problems find_missing_inputs(const api::TrainingJob& job) {
  if (!job.spec.train.is_object()) return {};
  const nlohmann::json data = job.spec.train.value("data", nlohmann::json::object());
  common::Problems problems;
  report_unmatched(data, "train", "data.train", problems);
  const nlohmann::json sources = data.value("sources", nlohmann::json::array());
  std::size_t index = 0;
  for (const nlohmann::json& source : sources) {
    report_unmatched(source, "path", common::item_path("data.sources", index++) + ".path",
                     problems);
  }
  report_unmatched(data, "validation", "data.validation", problems);
  report_missing(config_file_of(job), "model.path", problems);
  const std::string adapter = path_at(job, "/lora/path");
  report_missing(adapter.empty() ? "" : adapter + "/adapter_config.json", "lora.path", problems);
  report_missing(path_at(job, "/tokenizer/path"), "tokenizer.path", problems);
  const std::string teacher = path_at(job, "/distill/teacher");
  const bool is_here = !teacher.empty() && !common::is_hub_reference(teacher);
  report_missing(is_here ? teacher + "/config.json" : "", "distill.teacher", problems);
  return problems;
}

common::Problems find_model_problems(const api::TrainingJob& job) {
  const std::string config = config_file_of(job);
  const bool is_inline = path_at(job, "/model/path").empty();
  const std::string teacher = path_at(job, "/distill/teacher");
  const bool has_teacher = !teacher.empty() && is_there(teacher + "/config.json");
  if (is_inline ? !has_teacher : config.empty() || !is_there(config)) return {};
  const auto complete = common::complete_train(job.spec.train, job.spec.ranks);
  if (!complete) return {model_problem("model.path", complete.error())};
  if (!has_teacher) return {};
  const auto read = common::read_teacher(common::decode_train(*complete));
  if (read) return {};
  return {model_problem("distill.teacher", read.error())};
}

std::vector<std::string> explain_hub_inputs(const api::TrainingJob& job) {
  std::vector<std::string> lines;
  for (const common::HubInput& input : common::hub_inputs(job.spec.train)) {
    lines.push_back("train." + input.field + ": " + input.text +
                    " is fetched from the hub when ranks start, once per node");
  }
  return lines;
}

}  // namespace lockstep::local
