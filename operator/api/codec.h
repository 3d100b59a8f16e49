// TrainingJob from and to the JSON of the API server.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "operator/api/training_job.h"
#include "runtime/common/result.h"

namespace lockstep::api {

// Decodes a TrainingJob object. Defaults are filled in and spec.train is resolved (see
// common::resolve_train), so objects stored before a default existed read the same as new ones.
// Values that check_job() refuses are kept as found. Error: kInvalidArgument with the field path,
// if the object cannot be held in a TrainingJob at all.
common::Result<TrainingJob> decode_job(const nlohmann::json& object);

// The JSON of `status`; texts are cut to the schema's bounds and cleaned of invalid UTF-8.
nlohmann::json encode_status(const TrainingJobStatus& status);
// Reads what encode_status() wrote; what is missing or of a wrong type keeps its default.
TrainingJobStatus decode_status(const nlohmann::json& status);

// Productive share of the time since the first attempt, less what was spent suspended: "0.97".
// Empty while there is no such time.
std::string goodput_ratio(const Goodput& goodput);

// "2026-01-31T12:00:00Z"
std::string format_time(Time time);
// Nothing if `text` is not an RFC 3339 time; fractions of a second are dropped.
std::optional<Time> parse_time(std::string_view text);
// A loss for people: "2.3147". Empty for an empty text.
std::string format_loss(const std::string& decimal);
// "45s", "12m", "1h32m", "3d4h"
std::string format_duration(std::chrono::seconds duration);

}  // namespace lockstep::api
