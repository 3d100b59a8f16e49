#include "runtime/common/field_builders.h"
#include "runtime/common/train_sections.h"

namespace lockstep::common {

Field preference_section() {
  Field field = object(
      "preference",
      "How much an answer that is preferred counts, under tasks that learn from pairs. Absent: "
      "their defaults.",
      {positive(number("beta", 0, 1e6, 0.1,
                       "dpo: how closely the model keeps to the one it began as. orpo: the weight "
                       "of the odds ratio (lambda of the paper).")),
       choice("lossType", {"sigmoid", "hinge", "ipo"}, {},
              "Of dpo: the loss of the difference between both answers."),
       number("labelSmoothing", 0, 0.5, 0,
              "Of dpo with lossType sigmoid: the share of pairs that may be the wrong way round."),
       number("centerCoefficient", 0, 1e6, 0,
              "Of reward: what the square of the sum of both answers' rewards counts, so that "
              "rewards stay around 0; 0.01 is usual.")});
  field.default_value = nullptr;
  return field;
}

}  // namespace lockstep::common
