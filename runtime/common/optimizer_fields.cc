#include "runtime/common/field_builders.h"
#include "runtime/common/train_sections.h"

namespace lockstep::common {

Field optimizer_section() {
  Field beta = number("", 0, 1, 0, "");
  beta.default_value = nullptr;
  beta.exclusive_maximum = true;
  return object(
      "optimizer", "AdamW and its settings.",
      {
          choice("name", {"adamw"}, {"adam", "sgd", "lion", "adafactor", "muon"}, "The optimizer."),
          number("lr", 0, 1000, 3e-4, "Learning rate after warm-up."),
          {.name = "betas",
           .type = FieldType::kList,
           .doc = "Decay rates of the two moments.",
           .default_value = {0.9, 0.95},
           .min_items = 2,
           .max_items = 2,
           .element = {beta}},
          positive(number("eps", 0, 1, 1e-8, "Added to the denominator.")),
          number("weightDecay", 0, 1000, 0.1, "Decoupled weight decay."),
          choice("weightDecayOn", {"matrices", "all"}, {}, "Which weights decay."),
          number("gradientClip", 0, 1e12, 1.0, "Largest global norm of the gradient; 0 = off."),
      });
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
