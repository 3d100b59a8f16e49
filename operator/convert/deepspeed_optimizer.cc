// optimizer and scheduler of a DeepSpeed configuration.
#include <algorithm>

#include "operator/convert/deepspeed.h"

namespace lockstep::convert {
namespace {

using nlohmann::json;

constexpr const char* kTrainers = "the training script's";

// The learning rate that training reaches: WarmupLR and WarmupDecayLR set it themselves.
const json* scheduled_lr(const Draft& draft) {
  const std::string type = draft.text("scheduler.type");
  if (type != "WarmupLR" && type != "WarmupDecayLR") return nullptr;
  return draft.number("scheduler.params.warmup_max_lr");
}

std::optional<Verdict> take_optimizer(const json& value, Draft& draft) {
  const std::string field = "train.optimizer.name";
  const std::string type = value.is_string() ? value.get<std::string>() : "";
  std::string lower = type;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const json* decoupled = draft.key("optimizer.params.adam_w_mode");
  if (lower == "adam" && decoupled != nullptr && *decoupled == false) {
    return draft.map(field, "adam");
  }
  if (lower == "adam") {
    return draft.map(field, "adamw",
                     "DeepSpeed's Adam decouples decay unless adam_w_mode is false");
  }
  for (const char* const name : {"adamw", "sgd", "lion", "muon", "adafactor"}) {
    if (lower == name) return draft.map(field, name);
  }
  if (type.empty()) return broken("must be the name of an optimizer, found " + value.dump());
  return refused("there is no optimizer " + type + " here");
}

std::optional<Verdict> take_lr(const json& value, Draft& draft) {
  const std::string field = "train.optimizer.lr";
  if (const json* lr = scheduled_lr(draft)) {
    if (value == *lr || is_auto(value)) return mapped("is the scheduler's warmup_max_lr");
    return changed("the scheduler's warmup_max_lr counts, as in DeepSpeed: " + lr->dump());
  }
  if (!is_auto(value)) return draft.map(field, value);
  draft.fill_in(field, 5e-5, "the training script's learning_rate");
  return mapped(kTrainers);
}

// A parameter whose "auto" is the script's, `usual` unless it says otherwise.
Take or_auto(std::string field, json usual) {
  return [field = std::move(field), usual = std::move(usual)](const json& value, Draft& draft) {
    if (!is_auto(value)) return std::optional(draft.map(field, value));
    draft.fill_in(field, usual, "the training script's; " + usual.dump() + " is Transformers'");
    return std::optional(mapped(kTrainers));
  };
}

std::optional<Verdict> take_scheduler(const json& value, Draft& draft) {
  if (!value.is_object()) return std::nullopt;
  const std::string type = draft.text("scheduler.type");
  if (type == "LRRangeTest" || type == "OneCycle") {
    return refused("there is no schedule " + type + " here; cosine, linear, constant and wsd are");
  }
  return std::nullopt;
}

std::optional<Verdict> take_scheduler_type(const json& value, Draft& draft) {
  const std::string field = "train.schedule.name";
  if (value == "WarmupLR") return draft.map(field, "constant", "constant after warm-up");
  if (value == "WarmupDecayLR") return draft.map(field, "linear", "falls to 0");
  if (value == "WarmupCosineLR") return draft.map(field, "cosine");
  if (value.is_string()) return refused("there is no schedule " + value.dump() + " here");
  return broken("must be the name of a schedule, found " + value.dump());
}

std::optional<Verdict> take_max_lr(const json& value, Draft& draft) {
  if (!is_auto(value)) return draft.map("train.optimizer.lr", value);
  return mapped("is the optimizer's lr");
}

std::optional<Verdict> take_min_lr(const json& value, Draft& draft) {
  return draft.map("train.schedule.warmupMinLr", is_auto(value) ? json(0) : value);
}

std::optional<Verdict> take_warmup_steps(const json& value, Draft& draft) {
  const std::string field = "train.schedule.warmupSteps";
  if (!is_auto(value)) {
    const std::optional<int64_t> steps = whole(value);
    return draft.map(field, steps ? json(*steps) : value);
  }
  draft.fill_in(field, 0, "the training script's warmup_steps");
  return mapped(kTrainers);
}

std::optional<Verdict> take_total_steps(const json& value, Draft& draft) {
  if (is_auto(value)) return mapped("the schedule ends with train.steps");
  const std::optional<int64_t> steps = whole(value);
  return draft.map("train.steps", steps ? json(*steps) : value, "training ends with its schedule");
}

std::optional<Verdict> take_warmup_min_ratio(const json& value, Draft& draft) {
  if (!value.is_number()) return broken("must be a number, found " + value.dump());
  const json* lr = draft.number("optimizer.params.lr");
  if (value == 0) return draft.map("train.schedule.warmupMinLr", 0);
  if (lr == nullptr) return refused("is a share of optimizer.params.lr, which is not given");
  return draft.map("train.schedule.warmupMinLr", value.get<double>() * lr->get<double>(),
                   "a learning rate, not a share");
}

}  // namespace

Table deepspeed_optimizer_rows() {
  const std::string optimizer = "optimizer.params.";
  const std::string scheduler = "scheduler.params.";
  constexpr const char* kOneWay = "there is one implementation here";
  Table table = {
      {"optimizer.type", take_optimizer},
      {optimizer + "lr", take_lr},
      {optimizer + "betas", or_auto("train.optimizer.betas", {0.9, 0.999})},
      {optimizer + "eps", or_auto("train.optimizer.eps", 1e-8)},
      {optimizer + "weight_decay", or_auto("train.optimizer.weightDecay", 0.0)},
      {optimizer + "momentum", same("train.optimizer.momentum")},
      {optimizer + "nesterov", same("train.optimizer.nesterov")},
      {optimizer + "dampening", refuse_unless_off("sgd has no dampening here")},
      {optimizer + "amsgrad", refuse_unless_off("there is no AMSGrad here")},
      {optimizer + "bias_correction", always(true, "moments are always corrected")},
      {optimizer + "adam_w_mode", without_effect("is in optimizer.name: adamw or adam")},
      {optimizer + "torch_adam", without_effect(kOneWay)},
      {optimizer + "fused", without_effect(kOneWay)},
      {optimizer + "foreach", without_effect(kOneWay)},
      {"optimizer.legacy_fusion", without_effect(kOneWay)},
      {"scheduler", take_scheduler},
      {"scheduler.type", take_scheduler_type},
      {scheduler + "warmup_min_lr", take_min_lr},
      {scheduler + "warmup_max_lr", take_max_lr},
      {scheduler + "warmup_num_steps", take_warmup_steps},
      {scheduler + "warmup_type", same("train.schedule.warmupType")},
      {scheduler + "total_num_steps", take_total_steps},
      {scheduler + "warmup_min_ratio", take_warmup_min_ratio},
      {scheduler + "cos_min_ratio", same("train.schedule.minLrRatio")},
      {scheduler + "last_batch_iteration",
       without_effect("a resumed run knows its step from the checkpoint")},
  };
  constexpr const char* kOneBit = "gradients are not compressed to bits here";
  for (const char* const key :
       {"freeze_step", "var_freeze_step", "var_update_scaler", "local_step_scaler",
        "local_step_clipper", "cuda_aware", "comm_backend_name", "max_coeff", "min_coeff",
        "coeff_beta", "factor_max", "factor_min", "factor_threshold"}) {
    table.push_back({optimizer + key, refuse(kOneBit)});
  }
  return table;
}

void assume_deepspeed_optimizer_defaults(Draft& draft) {
  const std::string type = draft.text("scheduler.type");
  constexpr const char* kDefault = "DeepSpeed's default";
  const bool scheduled = type == "WarmupLR" || type == "WarmupDecayLR";
  if (draft.key("optimizer") == nullptr && !scheduled) {
    draft.fill_in("train.optimizer.lr", 3e-4, "the training script's optimizer");
  }
  draft.assume("train.optimizer.lr", 1e-3, kDefault);
  if (draft.key("optimizer") != nullptr) {
    if (draft.find("train.optimizer.name") == nullptr ||
        *draft.find("train.optimizer.name") != "sgd") {
      draft.assume("train.optimizer.betas", {0.9, 0.999}, kDefault);
    }
    draft.assume("train.optimizer.weightDecay", 0.0, kDefault);
    draft.assume("train.optimizer.weightDecayOn", "all", "DeepSpeed's, unless the script groups");
  }
  if (draft.key("scheduler") == nullptr) {
    draft.fill_in("train.schedule.name", "constant", "the training script's schedule");
    return;
  }
  if (draft.find("train.schedule.name") == nullptr) return;  // refused
  draft.assume("train.schedule.warmupSteps", 1000, kDefault);
  draft.assume("train.schedule.warmupType", "log", kDefault);
  if (type == "WarmupDecayLR") draft.assume("train.schedule.minLrRatio", 0.0, "falls to 0");
  if (type == "WarmupCosineLR") {
    draft.assume("train.schedule.minLrRatio", 1e-4, kDefault);
  }
}

}  // namespace lockstep::convert
