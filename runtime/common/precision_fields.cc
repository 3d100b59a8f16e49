#include "runtime/common/field_builders.h"
#include "runtime/common/train_sections.h"

namespace lockstep::common {

Field precision_choice() {
  return choice("precision", {"fp32", "bf16", "fp16"}, {"fp8"},
                "Type of products and of what only feeds them. Master weights, moments, gradients, "
                "sums, norms and the loss are fp32.");
}

Field loss_scale_section() {
  Field field = object(
      "lossScale", "Scale of the loss under precision fp16, as DeepSpeed's; defaults unless given.",
      {
          number("static", 0, 4294967296, 0, "A fixed scale; 0 = dynamic."),
          defaulted(integer("initialPower", 0, 32, "The first dynamic scale, as a power of two."),
                    16),
          defaulted(integer("window", 1, kMaxCount,
                            "Steps without overflow after which the scale is doubled."),
                    1000),
          defaulted(integer("hysteresis", 1, 1000,
                            "Overflows from which on the scale is halved; full again when it is "
                            "doubled."),
                    2),
          positive(number("min", 0, 65536, 1, "The scale never falls below it.")),
      });
  field.default_value = nullptr;  // its presence asks for fp16
  return field;
}

Field non_finite_section() {
  return object("nonFinite", "Steps whose loss or gradient is not finite.",
                {defaulted(integer("maxConsecutiveSkips", 0, kMaxCount,
                                   "Such steps in a row that are skipped; one more ends the run. "
                                   "Overflows that lower the loss scale do not count."),
                           3)});
}

}  // namespace lockstep::common
