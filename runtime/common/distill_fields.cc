#include "runtime/common/field_builders.h"
#include "runtime/common/hub_reference.h"
#include "runtime/common/train_sections.h"

namespace lockstep::common {

Field distill_section() {
  Field field = object("distill", "The model that task distill learns from.",
                       {required(Field{.name = "teacher",
                                       .doc = "A Hugging Face directory with weights, or "
                                              "hf://ORG/NAME[@revision]: of any family, with the "
                                              "tokens of this model. It is not trained.",
                                       .min_length = 1,
                                       .max_length = 4096}),
                        positive(number("temperature", 0, 1e3, 2,
                                        "What both models' logits are divided by: the higher, the "
                                        "more the tokens count that are not the likeliest.")),
                        number("alpha", 0, 1, 0.5,
                               "What the teacher counts; the data's own tokens count the rest.")});
  field.default_value = nullptr;
  field.rules = {hub_rule("teacher", HubKind::kModel)};
  return field;
}

}  // namespace lockstep::common
