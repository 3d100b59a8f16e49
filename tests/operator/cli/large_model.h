// A job whose state outweighs a small batch.
#pragma once

#include "runtime/common/train_config.h"

namespace lockstep::cli {

// 100 M parameters.
inline common::TrainConfig large_model(int64_t sequence_length, common::BatchConfig batch) {
  return {.model = {.model_type = "llama",
                    .vocab_size = 32000,
                    .hidden_size = 768,
                    .intermediate_size = 2048,
                    .num_hidden_layers = 8,
                    .num_attention_heads = 12,
                    .num_key_value_heads = 12,
                    .head_dim = 64,
                    .max_position_embeddings = sequence_length},
          .data = {.sources = {{.path = "corpus"}}, .sequence_length = sequence_length},
          .batch = batch};
}

}  // namespace lockstep::cli
