#include "runtime/common/progress.h"

#include <utility>

#include <nlohmann/json.hpp>

namespace lockstep::common {
namespace {

template <typename T>
void read_optional(const nlohmann::json& json, const char* key, std::optional<T>& value) {
  const auto found = json.find(key);
  if (found != json.end() && !found->is_null()) value = found->get<T>();
}

RankHeartbeat decode_heartbeat(const nlohmann::json& json) {
  RankHeartbeat heartbeat{.rank = json.at("rank").get<int>(),
                          .step = json.at("step").get<int64_t>(),
                          .step_seconds = json.at("stepSeconds").get<double>(),
                          .age_seconds = {}};
  read_optional(json, "ageSeconds", heartbeat.age_seconds);
  return heartbeat;
}

std::optional<StepParts> decode_parts(const nlohmann::json& json) {
  const auto found = json.find("stepParts");
  if (found == json.end()) return std::nullopt;
  StepParts parts{};
  for (std::size_t i = 0; i < kNumStepParts; ++i) {
    parts[i] = found->at(std::string(kStepPartNames[i])).get<double>();
  }
  return parts;
}

std::optional<MemoryUse> decode_memory(const nlohmann::json& json) {
  const auto found = json.find("memory");
  if (found == json.end()) return std::nullopt;
  return MemoryUse{.buffer_bytes = found->at("bufferBytes").get<int64_t>(),
                   .buffer_peak_bytes = found->at("bufferPeakBytes").get<int64_t>(),
                   .resident_bytes = found->at("residentBytes").get<int64_t>(),
                   .resident_peak_bytes = found->at("residentPeakBytes").get<int64_t>()};
}

void encode_measures(const JobProgress& progress, nlohmann::ordered_json& json) {
  if (progress.gradient_norm) json["gradientNorm"] = *progress.gradient_norm;
  if (progress.learning_rate) json["learningRate"] = *progress.learning_rate;
  if (progress.flops_per_second) json["flopsPerSecond"] = *progress.flops_per_second;
  if (progress.mfu) json["mfu"] = *progress.mfu;
  if (progress.step_parts) {
    for (std::size_t i = 0; i < kNumStepParts; ++i) {
      json["stepParts"][std::string(kStepPartNames[i])] = (*progress.step_parts)[i];
    }
  }
  if (progress.memory) {
    json["memory"] = {{"bufferBytes", progress.memory->buffer_bytes},
                      {"bufferPeakBytes", progress.memory->buffer_peak_bytes},
                      {"residentBytes", progress.memory->resident_bytes},
                      {"residentPeakBytes", progress.memory->resident_peak_bytes}};
  }
}

JobProgress decode_object(const nlohmann::json& json) {
  JobProgress progress{.job = json.at("job").get<std::string>(),
                       .attempt = json.at("attempt").get<int>(),
                       .rank = json.at("rank").get<int>(),
                       .phase = json.at("phase").get<std::string>(),
                       .strategy = json.at("strategy").get<std::string>(),
                       .backend = json.value("backend", ""),
                       .step = json.at("step").get<int64_t>(),
                       .total_steps = json.at("totalSteps").get<int64_t>(),
                       .loss = json.at("loss").get<std::string>(),
                       .validation_loss = {},
                       .tokens_per_second = json.at("tokensPerSecond").get<double>(),
                       .eta_seconds = {},
                       .last_checkpoint_step = {},
                       .ranks = {},
                       .slowest_rank = {}};
  read_optional(json, "ageSeconds", progress.age_seconds);
  read_optional(json, "validationLoss", progress.validation_loss);
  read_optional(json, "etaSeconds", progress.eta_seconds);
  read_optional(json, "lastCheckpointStep", progress.last_checkpoint_step);
  read_optional(json, "slowestRank", progress.slowest_rank);
  read_optional(json, "gradientNorm", progress.gradient_norm);
  read_optional(json, "learningRate", progress.learning_rate);
  read_optional(json, "flopsPerSecond", progress.flops_per_second);
  read_optional(json, "mfu", progress.mfu);
  progress.step_parts = decode_parts(json);
  progress.memory = decode_memory(json);
  if (json.contains("phaseDone")) {
    progress.phase_progress = {.done = json.at("phaseDone").get<int64_t>(),
                               .total = json.value("phaseTotal", int64_t{0})};
  }
  if (const auto ranks = json.find("ranks"); ranks != json.end()) {
    for (const nlohmann::json& heartbeat : *ranks) {
      progress.ranks.push_back(decode_heartbeat(heartbeat));
    }
  }
  return progress;
}

}  // namespace

std::string status_path(int64_t rank, int64_t ranks_per_pod) {
  return ranks_per_pod == 1 ? "/status" : "/status/" + std::to_string(rank);
}

std::string encode(const JobProgress& progress) {
  nlohmann::ordered_json json = {{"job", progress.job},
                                 {"attempt", progress.attempt},
                                 {"rank", progress.rank},
                                 {"phase", progress.phase},
                                 {"strategy", progress.strategy},
                                 {"step", progress.step},
                                 {"totalSteps", progress.total_steps},
                                 {"loss", progress.loss},
                                 {"tokensPerSecond", progress.tokens_per_second}};
  if (!progress.backend.empty()) json["backend"] = progress.backend;
  if (progress.phase_progress) {
    json["phaseDone"] = progress.phase_progress->done;
    if (progress.phase_progress->total > 0) json["phaseTotal"] = progress.phase_progress->total;
  }
  if (progress.age_seconds) json["ageSeconds"] = *progress.age_seconds;
  if (progress.validation_loss) json["validationLoss"] = *progress.validation_loss;
  if (progress.eta_seconds) json["etaSeconds"] = *progress.eta_seconds;
  if (progress.last_checkpoint_step) json["lastCheckpointStep"] = *progress.last_checkpoint_step;
  if (progress.slowest_rank) json["slowestRank"] = *progress.slowest_rank;
  encode_measures(progress, json);
  for (const RankHeartbeat& heartbeat : progress.ranks) {
    nlohmann::ordered_json entry = {{"rank", heartbeat.rank},
                                    {"step", heartbeat.step},
                                    {"stepSeconds", heartbeat.step_seconds}};
    if (heartbeat.age_seconds) entry["ageSeconds"] = *heartbeat.age_seconds;
    json["ranks"].push_back(std::move(entry));
  }
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

Result<JobProgress> decode_progress(std::string_view text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return Error{ErrorCode::kDataLoss, "progress is not a JSON object", ""};
  try {
    return decode_object(json);
  } catch (const nlohmann::json::exception& error) {
    return Error{ErrorCode::kDataLoss, std::string("progress: ") + error.what(), ""};
  }
}

}  // namespace lockstep::common
