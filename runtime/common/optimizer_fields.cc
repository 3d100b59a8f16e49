#include "runtime/common/field_builders.h"
#include "runtime/common/train_sections.h"

namespace lockstep::common {

Field optimizer_section() {
  Field beta = number("", 0, 1, 0, "");
  beta.default_value = nullptr;
  beta.exclusive_maximum = true;
  Field momentum = number("momentum", 0, 1, 0, "Momentum of sgd; 0 unless given.");
  momentum.default_value = nullptr;
  momentum.exclusive_maximum = true;
  Field nesterov = boolean("nesterov", false, "Nesterov's momentum, of sgd; false unless given.");
  nesterov.default_value = nullptr;
  Field decay = number("weightDecay", 0, 1000, 0,
                       "Decoupled in adamw (0.1 unless given); added to the gradient in adam and "
                       "sgd (0 unless given).");
  decay.default_value = nullptr;
  Field field = object(
      "optimizer", "The optimizer and its settings, with the meanings of torch.optim.",
      {
          choice("name", {"adamw", "adam", "sgd"}, {"lion", "adafactor", "muon"}, "The optimizer."),
          number("lr", 0, 1000, 3e-4, "Learning rate after warm-up."),
          {.name = "betas",
           .type = FieldType::kList,
           .doc = "Decay rates of the two moments, of adamw and adam.",
           .default_value = {0.9, 0.95},
           .min_items = 2,
           .max_items = 2,
           .element = {beta}},
          positive(number("eps", 0, 1, 1e-8, "Added to the denominator, of adamw and adam.")),
          momentum,
          nesterov,
          decay,
          choice("weightDecayOn", {"matrices", "all"}, {}, "Which weights decay."),
          number("gradientClip", 0, 1e12, 1.0, "Largest global norm of the gradient; 0 = off."),
      });
  field.rules = {
      {"self.name == 'sgd' || !has(self.momentum)", "momentum is of sgd only", ".momentum"},
      {"self.name == 'sgd' || !has(self.nesterov)", "nesterov is of sgd only", ".nesterov"},
      {"!has(self.nesterov) || !self.nesterov || (has(self.momentum) && self.momentum > 0.0)",
       "nesterov needs a momentum above 0", ".nesterov"},
  };
  return field;
}

Field schedule_section() {
  Field ratio = number("warmupRatio", 0, 1, 0,
                       "Share of the steps that warm up; 0.03 unless given (constant: 0).");
  ratio.default_value = nullptr;
  Field field = object(
      "schedule", "Learning rate over the steps.",
      {choice("name", {"cosine", "linear", "constant", "wsd"}, {},
              "Shape after warm-up; wsd: constant, then a linear fall in the last steps."),
       ratio, integer("warmupSteps", 0, kMaxCount, "Steps that warm up, in place of warmupRatio."),
       choice("warmupType", {"linear", "log"}, {},
              "Rise from warmupMinLr to lr: step / warmupSteps, or log(step + 1) / "
              "log(warmupSteps) as DeepSpeed's WarmupLR."),
       number("warmupMinLr", 0, 1000, 0, "Learning rate that the warm-up starts from."),
       integer("decaySteps", 1, kMaxCount,
               "Steps of the fall to minLrRatio; unless given all after warm-up (wsd: a "
               "tenth of steps)."),
       number("minLrRatio", 0, 1, 0.1, "Last learning rate as a share of lr.")});
  field.rules = {{"!(has(self.warmupRatio) && has(self.warmupSteps))",
                  "give warmupRatio or warmupSteps, not both", ".warmupSteps"},
                 {"self.name != 'constant' || !has(self.decaySteps)",
                  "a constant schedule has no decaySteps", ".decaySteps"}};
  return field;
}

}  // namespace lockstep::common
