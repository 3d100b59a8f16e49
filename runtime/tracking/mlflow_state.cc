#include "runtime/tracking/mlflow_state.h"

#include <optional>

#include <nlohmann/json.hpp>

#include "runtime/checkpoint/output_folder.h"
#include "runtime/common/text_file.h"

namespace lockstep::runtime {
namespace {

using common::MlflowConfig;
using common::Result;
using nlohmann::json;

// Nothing for what we have not written.
std::optional<MlflowState> read_state(const std::string& output) {
  const Result<std::string> text = common::read_text_file(output + "/" + kMlflowFileName);
  if (!text) return std::nullopt;
  const json found = json::parse(*text, nullptr, false);
  try {
    return MlflowState{.tracking_uri = found.at("trackingUri"),
                       .experiment = found.at("experiment"),
                       .key = found.at("key"),
                       .run_id = found.at("runId"),
                       .settings = found.at("settings"),
                       .has_params = found.at("hasParams"),
                       .told_step = found.at("toldStep"),
                       .told_evaluation = found.at("toldEvaluation")};
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

}  // namespace

MlflowState new_mlflow_state(const MlflowConfig& config, const std::string& settings) {
  return {.tracking_uri = config.tracking_uri,
          .experiment = config.experiment,
          .key = make_nonce(),
          .run_id = "",
          .settings = settings};
}

MlflowState state_to_go_on_with(const std::string& output, const MlflowConfig& config,
                                const std::string& settings, int64_t step) {
  const std::optional<MlflowState> found = read_state(output);
  const bool goes_on = found && found->tracking_uri == config.tracking_uri &&
                       found->experiment == config.experiment &&
                       (step > 0 || found->settings == settings);
  return goes_on ? *found : new_mlflow_state(config, settings);
}

Result<void> write_mlflow_state(Disk& disk, const std::string& output, const MlflowState& state) {
  const json text = {{"trackingUri", state.tracking_uri},
                     {"experiment", state.experiment},
                     {"key", state.key},
                     {"runId", state.run_id},
                     {"settings", state.settings},
                     {"hasParams", state.has_params},
                     {"toldStep", state.told_step},
                     {"toldEvaluation", state.told_evaluation}};
  return replace_file(disk, output, kMlflowFileName, text.dump(2) + "\n");
}

}  // namespace lockstep::runtime
