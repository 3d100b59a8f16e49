// Rows of AITraining's keys for adapters and for distillation.
#pragma once

#include "operator/convert/draft.h"
#include "operator/convert/table.h"

namespace lockstep::convert {

Table adapter_rows();
Table distillation_rows();

// Under distillation, what AITraining takes where its file says nothing.
void assume_distillation_defaults(Draft& draft);

}  // namespace lockstep::convert
