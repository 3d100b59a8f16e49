// The table of `spec.train`: every field that this version honours.
#pragma once

#include "runtime/common/schema.h"

namespace lockstep::common {

// Fields of `spec.train`. What the design names but this version does not honour is listed as
// planned, so that the refusal says so.
const Field& train_fields();

}  // namespace lockstep::common
