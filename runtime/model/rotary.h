// The angles of the rotary embedding, by the kind of scaling that a config asks for.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/common/model_config.h"

namespace lockstep::runtime {

// The table that rotary_forward() takes, [seq, rotary_dim], rounded as Transformers rounds it.
//   has_window: for layers with a sliding window, which may have a base of their own.
// Source: modeling_rope_utils of Transformers 5; YaRN is arXiv:2309.00071.
std::vector<float> rotary_values(const common::ModelConfig& config, int64_t seq, bool has_window);

}  // namespace lockstep::runtime
