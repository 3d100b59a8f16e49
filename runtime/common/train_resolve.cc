#include <algorithm>
#include <cmath>

#include "runtime/common/model_json.h"
#include "runtime/common/train_bounds.h"
#include "runtime/common/train_config.h"

namespace lockstep::common {
namespace {

using nlohmann::json;

constexpr double kDefaultWarmupRatio = 0.03;
constexpr double kDefaultDecoupledDecay = 0.1;
constexpr double kDefaultDecayRatio = 0.1;  // of wsd

// The positive integer `object[key]`; nothing if it is absent, out of bounds or something else.
std::optional<int64_t> positive(const json& object, const char* key, int64_t most = kMaxFactor) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) return std::nullopt;
  const auto value = found->get<int64_t>();
  return value >= 1 && value <= most ? std::optional(value) : std::nullopt;
}

std::string note(const std::string& field, int64_t value, const std::string& why) {
  std::string text = field;
  return text.append(" = ").append(std::to_string(value)).append(" (").append(why).append(")");
}

void resolve_batch(json& batch, int64_t ranks, std::vector<std::string>& notes) {
  const std::optional<int64_t> global = positive(batch, "globalBatchSize");
  const std::optional<int64_t> micro = positive(batch, "microBatchSize");
  const std::optional<int64_t> accumulation = positive(batch, "accumulationSteps");
  // Present but wrong: the schema check says so.
  if (batch.contains("microBatchSize") && !micro) return;
  if (batch.contains("accumulationSteps") && !accumulation) return;
  if (batch.contains("globalBatchSize") && !global) return;

  if (accumulation) {
    if (global && micro && *global != *micro * *accumulation * ranks) return;
    if (global && *global % (*accumulation * ranks) != 0) return;
    if (!global && !micro) return;
    batch["globalBatchSize"] = global ? *global : *micro * *accumulation * ranks;
    batch["microBatchSize"] = micro ? *micro : *global / (*accumulation * ranks);
    batch.erase("accumulationSteps");
    if (!global) {
      notes.push_back(note("batch.globalBatchSize", batch["globalBatchSize"].get<int64_t>(),
                           "microBatchSize * accumulationSteps * ranks"));
    }
    if (!micro) {
      notes.push_back(note("batch.microBatchSize", batch["microBatchSize"].get<int64_t>(),
                           "globalBatchSize / (accumulationSteps * ranks)"));
    }
    return;
  }
  if (!global) return;
  if (!micro) {
    batch["microBatchSize"] = 1;
    notes.push_back(note("batch.microBatchSize", 1, "default"));
  }
  const int64_t per_round = micro.value_or(1) * ranks;
  if (*global % per_round == 0) {
    notes.push_back(note("batch.accumulationSteps", *global / per_round,
                         "globalBatchSize / (microBatchSize * ranks)"));
  }
}

bool has_rope_theta(const json& config) {
  for (const char* const key : {"rope_parameters", "rope_scaling"}) {
    const auto rope = config.find(key);
    if (rope != config.end() && rope->is_object() && rope->contains("rope_theta")) return true;
  }
  return false;
}

// What the family takes for keys that are not given. A null that changes nothing is dropped: one
// model has one text.
void resolve_family(json& config, std::vector<std::string>& notes) {
  const auto found = config.find("model_type");
  if (found == config.end() || !found->is_string()) return;
  const auto type = found->get<std::string>();
  const json defaults = default_model_json(type);
  for (auto given = config.begin(); given != config.end();) {
    const bool says_nothing = given->is_null() && defaults.value(given.key(), json()).is_null();
    given = says_nothing ? config.erase(given) : std::next(given);
  }
  for (const auto& [key, value] : defaults.items()) {
    if (value.is_null() || config.contains(key)) continue;
    if (key == "rope_theta" && has_rope_theta(config)) continue;
    config[key] = value;
    if (key == "head_dim" || key == "num_key_value_heads") {
      notes.push_back(note("model.config." + key, value.get<int64_t>(), "default of " + type));
    }
  }
}

void resolve_model(json& config, std::vector<std::string>& notes) {
  resolve_family(config, notes);
  const std::optional<int64_t> heads = positive(config, "num_attention_heads");
  const std::optional<int64_t> hidden = positive(config, "hidden_size");
  if (!heads) return;
  if (!config.contains("num_key_value_heads")) {
    config["num_key_value_heads"] = *heads;
    notes.push_back(note("model.config.num_key_value_heads", *heads, "num_attention_heads"));
  }
  if (!config.contains("head_dim") && hidden && *hidden % *heads == 0) {
    config["head_dim"] = *hidden / *heads;
    notes.push_back(
        note("model.config.head_dim", *hidden / *heads, "hidden_size / num_attention_heads"));
  }
}

void resolve_init(json& model, std::vector<std::string>& notes) {
  if (model.contains("init")) return;
  model["init"] = model.contains("path") ? "pretrained" : "random";
  if (model.contains("path")) notes.emplace_back("model.init = pretrained (path is given)");
}

// The share of the steps that warm up; nothing if it is not a share.
std::optional<double> warmup_ratio_of(const json& schedule) {
  const auto given = schedule.find("warmupRatio");
  if (given == schedule.end()) {
    return schedule.value("name", json()) == "constant" ? 0 : kDefaultWarmupRatio;
  }
  if (!given->is_number()) return std::nullopt;
  const auto ratio = given->get<double>();
  return ratio >= 0 && ratio <= 1 ? std::optional(ratio) : std::nullopt;
}

void resolve_schedule(json& schedule, int64_t steps, std::vector<std::string>& notes) {
  const std::optional<int64_t> warmup = warmup_steps_of(schedule, steps);
  if (!warmup) return;
  if (!schedule.contains("warmupSteps")) {
    const double ratio = warmup_ratio_of(schedule).value();
    schedule.erase("warmupRatio");
    schedule["warmupSteps"] = *warmup;
    notes.push_back(
        note("schedule.warmupSteps", *warmup, "warmupRatio " + json(ratio).dump() + " of steps"));
  }
  const auto tenth =
      static_cast<int64_t>(std::llround(kDefaultDecayRatio * static_cast<double>(steps)));
  const int64_t decay = std::min(std::max<int64_t>(1, tenth), steps - *warmup);
  if (schedule.value("name", json()) == "wsd" && !schedule.contains("decaySteps") && decay > 0) {
    schedule["decaySteps"] = decay;
    notes.push_back(note("schedule.decaySteps", decay, "a tenth of steps, after warm-up"));
  }
}

void resolve_optimizer(json& optimizer, std::vector<std::string>& notes) {
  const json name = optimizer.value("name", json());
  if (optimizer.contains("weightDecay") || !name.is_string()) return;
  const double decay = name == "adamw" ? kDefaultDecoupledDecay : 0.0;
  optimizer["weightDecay"] = decay;
  notes.push_back(std::string("optimizer.weightDecay = ")
                      .append(json(decay).dump())
                      .append(" (default of ")
                      .append(name.get<std::string>())
                      .append(")"));
}

// A conversation that is cut in two teaches answers to questions that are not seen.
void resolve_task(const json& task, json& data, std::vector<std::string>& notes) {
  const bool is_talk = learns_from_conversations(task);
  const bool keeps_whole = is_talk || learns_from_pairs(task);
  if (is_talk && !data.contains("loss")) {
    data["loss"] = "response";
    notes.push_back(
        std::string("data.loss = response (task ").append(task.get<std::string>()).append(")"));
  }
  if (data.contains("packing")) return;
  data["packing"] = !keeps_whole;
  if (!keeps_whole) return;
  notes.push_back(
      std::string("data.packing = false (task ").append(task.get<std::string>()).append(")"));
}

// The object `parent[key]`, or null.
json* find_object(json& parent, const char* key) {
  if (!parent.is_object()) return nullptr;
  const auto found = parent.find(key);
  return found != parent.end() && found->is_object() ? &*found : nullptr;
}

}  // namespace

std::optional<int64_t> warmup_steps_of(const json& schedule, int64_t steps) {
  if (const auto given = schedule.find("warmupSteps"); given != schedule.end()) {
    if (!given->is_number_integer()) return std::nullopt;
    const auto warmup = given->get<int64_t>();
    return warmup >= 0 && warmup <= kMaxSteps ? std::optional(warmup) : std::nullopt;
  }
  const std::optional<double> ratio = warmup_ratio_of(schedule);
  if (!ratio) return std::nullopt;
  return static_cast<int64_t>(std::llround(*ratio * static_cast<double>(steps)));
}

ResolvedTrain resolve_train(const json& train, int64_t ranks) {
  ResolvedTrain result{.train = train, .notes = {}};
  if (json* batch = find_object(result.train, "batch");
      batch != nullptr && ranks >= 1 && ranks <= kMaxFactor) {
    resolve_batch(*batch, ranks, result.notes);
  }
  if (json* data = find_object(result.train, "data")) {
    resolve_task(result.train.value("task", json()), *data, result.notes);
  }
  if (json* model = find_object(result.train, "model")) {
    resolve_init(*model, result.notes);
    if (json* config = find_object(*model, "config")) resolve_model(*config, result.notes);
  }
  if (json* optimizer = find_object(result.train, "optimizer")) {
    resolve_optimizer(*optimizer, result.notes);
  }
  if (json* schedule = find_object(result.train, "schedule")) {
    if (const std::optional<int64_t> steps = positive(result.train, "steps", kMaxSteps)) {
      resolve_schedule(*schedule, *steps, result.notes);
    }
  }
  return result;
}

}  // namespace lockstep::common
