// The sections of `spec.train`, one function each; train_fields() puts them together.
#pragma once

#include "runtime/common/schema.h"

namespace lockstep::common {

Field model_section();
Field tokenizer_section();
Field data_section();
Field evaluation_section();
Field batch_section();
Field precision_choice();
Field lora_section();
Field preference_section();
Field distill_section();
Field loss_scale_section();
Field non_finite_section();
Field parallelism_section();
Field offload_section();
Field optimizer_section();
Field schedule_section();
Field checkpoint_section();
Field communication_section();
Field logging_section();

}  // namespace lockstep::common
