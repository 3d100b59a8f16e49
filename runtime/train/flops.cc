#include "runtime/train/flops.h"

#include <algorithm>

#include "runtime/common/estimate_memory.h"
#include "runtime/common/model_family.h"

namespace lockstep::runtime {

double model_flops_per_token(const common::ModelConfig& model, int64_t sequence_length) {
  const int64_t looked_up = model.tie_word_embeddings ? 0 : model.vocab_size * model.hidden_size;
  const int64_t positions = common::family_of(model).has_learned_positions
                                ? model.max_position_embeddings * model.hidden_size
                                : 0;
  const int64_t not_taken = model.has_experts() ? model.num_experts - model.experts_per_token : 0;
  const int64_t passed_over =
      model.num_hidden_layers * not_taken * 3 * model.feed_forward_size() * model.hidden_size;
  const int64_t multiplied = num_parameters(model) - looked_up - positions - passed_over;
  int64_t seen = 0;  // keys that a token sees, by layer
  for (int64_t layer = 0; layer < model.num_hidden_layers; ++layer) {
    const int64_t window = model.window_of(layer);
    seen += window > 0 ? std::min(window, sequence_length) : sequence_length;
  }
  return 6.0 * static_cast<double>(multiplied) +
         12.0 * static_cast<double>(model.num_attention_heads * model.head_dim) *
             static_cast<double>(seen);
}

}  // namespace lockstep::runtime
