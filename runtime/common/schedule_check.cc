#include "runtime/common/train_config.h"
#include "runtime/common/train_relations.h"

namespace lockstep::common {
namespace {

using nlohmann::json;

void check_length_of_run(Relations& out) {
  if (!out.train.is_object()) return;
  const bool has_steps = out.find("steps") != nullptr;
  const bool has_epochs = out.find("epochs") != nullptr;
  if (has_steps && has_epochs) {
    out.report(".epochs", "and steps exclude each other", "give one of them");
  } else if (!has_steps && !has_epochs) {
    out.report(".steps", "is required", "or give epochs");
  }
}

void check_evaluation(Relations& out) {
  const std::optional<int64_t> every = out.integer("evaluation/everySteps", 0, kMaxSteps);
  const std::optional<int64_t> patience =
      out.integer("evaluation/earlyStoppingPatience", 0, kMaxSteps);
  const bool has_data = out.find("data/validation") != nullptr;
  const bool has_share = out.find("data/validationFraction") != nullptr;
  if (has_data && has_share) {
    out.report(".data.validationFraction", "and validation exclude each other",
               "hold a share of the training data out, or name other data");
  }
  if (every && *every > 0 && !has_data && !has_share) {
    out.report(".evaluation.everySteps", "needs data.validation or data.validationFraction",
               "name the data to measure on");
  }
  if (every && *every == 0 && patience && *patience > 0) {
    out.report(".evaluation.earlyStoppingPatience", "needs evaluation.everySteps",
               "say how often to evaluate");
  }
}

void check_warmup(Relations& out) {
  const std::optional<int64_t> steps = out.integer("steps", 1, kMaxSteps);
  const std::optional<int64_t> warmup = out.integer("schedule/warmupSteps", 0, kMaxSteps);
  if (warmup && out.find("schedule/warmupRatio") != nullptr) {
    out.report(".schedule.warmupSteps", "and warmupRatio exclude each other", "give one of them");
  }
  if (steps && warmup && *warmup > *steps) {
    out.report(".schedule.warmupSteps", std::string("must be at most steps ")
                                            .append(std::to_string(*steps))
                                            .append(", found ")
                                            .append(std::to_string(*warmup)));
  }
}

void check_decay(Relations& out) {
  const json* schedule = out.find("schedule");
  const std::optional<int64_t> decay = out.integer("schedule/decaySteps", 1, kMaxSteps);
  if (schedule == nullptr || !schedule->is_object() || !decay) return;
  const json name = schedule->value("name", json());
  if (name == "constant") {
    out.report(".schedule.decaySteps", "must not be given: a constant schedule never falls",
               "remove it, or set name to wsd");
  }
  const std::optional<int64_t> steps = out.integer("steps", 1, kMaxSteps);
  if (name != "wsd" || !steps) return;
  const std::optional<int64_t> warmup = warmup_steps_of(*schedule, *steps);
  if (warmup && *warmup <= *steps && *warmup + *decay > *steps) {
    out.report(".schedule.decaySteps", std::string("must be at most steps - warmupSteps = ")
                                           .append(std::to_string(*steps - *warmup))
                                           .append(", found ")
                                           .append(std::to_string(*decay)));
  }
}

void check_warmup_lr(Relations& out) {
  const json* lr = out.find("optimizer/lr");
  const json* start = out.find("schedule/warmupMinLr");
  if (lr == nullptr || start == nullptr || !lr->is_number() || !start->is_number()) return;
  if (lr->get<double>() >= 0 && start->get<double>() > lr->get<double>()) {
    out.report(".schedule.warmupMinLr", std::string("must be at most optimizer.lr ")
                                            .append(lr->dump())
                                            .append(", found ")
                                            .append(start->dump()));
  }
}

void check_optimizer(Relations& out) {
  const json* name = out.find("optimizer/name");
  const json* momentum = out.find("optimizer/momentum");
  const json* nesterov = out.find("optimizer/nesterov");
  if (name == nullptr || !name->is_string()) return;
  for (const char* const field : {"momentum", "nesterov"}) {
    if (*name == "sgd" || out.find(std::string("optimizer/").append(field)) == nullptr) continue;
    out.report(std::string(".optimizer.").append(field),
               std::string("is of sgd only, name is ").append(name->get<std::string>()),
               "remove it");
  }
  const bool has_momentum =
      momentum != nullptr && momentum->is_number() && momentum->get<double>() > 0;
  if (*name == "sgd" && nesterov != nullptr && *nesterov == true && !has_momentum) {
    out.report(".optimizer.nesterov", "needs a momentum above 0", "give optimizer.momentum");
  }
}

void check_profile(Relations& out) {
  const std::optional<int64_t> steps = out.integer("steps", 1, kMaxSteps);
  const std::optional<int64_t> from = out.integer("logging/profile/fromStep", 1, kMaxSteps);
  if (steps && from && *from > *steps) {
    out.report(".logging.profile.fromStep", std::string("must be at most steps ")
                                                .append(std::to_string(*steps))
                                                .append(", found ")
                                                .append(std::to_string(*from)));
  }
}

}  // namespace

void check_schedule(Relations& out) {
  check_length_of_run(out);
  check_evaluation(out);
  check_warmup(out);
  check_decay(out);
  check_warmup_lr(out);
  check_optimizer(out);
  check_profile(out);
}

}  // namespace lockstep::common
