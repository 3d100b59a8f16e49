#include "runtime/train/flops.h"

#include "runtime/common/estimate_memory.h"
#include "runtime/common/model_family.h"

namespace lockstep::runtime {

double model_flops_per_token(const common::ModelConfig& model, int64_t sequence_length) {
  const int64_t looked_up = model.tie_word_embeddings ? 0 : model.vocab_size * model.hidden_size;
  const int64_t positions = common::family_of(model).has_learned_positions
                                ? model.max_position_embeddings * model.hidden_size
                                : 0;
  const int64_t multiplied = num_parameters(model) - looked_up - positions;
  const int64_t attention = model.num_hidden_layers * model.num_attention_heads * model.head_dim;
  return 6.0 * static_cast<double>(multiplied) +
         12.0 * static_cast<double>(attention) * static_cast<double>(sequence_length);
}

}  // namespace lockstep::runtime
