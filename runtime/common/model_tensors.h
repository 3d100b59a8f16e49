// The tensors of a decoder: names as Hugging Face has them, shapes, and the order in which they lie
// in a unit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/common/model_config.h"

namespace lockstep::common {

// What a tensor does. Tensors of one role follow one another, so that they are one operand.
enum class TensorRole {
  kTokenEmbedding,
  kPositionEmbedding,
  kNorm1,  // before attention
  kNorm1Bias,
  kQkv,
  kQkvBias,
  kQueryNorm,
  kKeyNorm,
  kAttentionOut,
  kAttentionOutBias,
  kAfterAttentionNorm,
  kNorm2,  // before feed-forward
  kNorm2Bias,
  kRouter,  // scores of experts
  kGateUp,  // of experts: gate, up and down of the first, then of the next
  kGateUpBias,
  kDown,
  kDownBias,
  kAfterMlpNorm,
  kFinalNorm,
  kFinalNormBias,
  kLmHead,
  kScore,     // in place of kLmHead
  kAdapterA,  // see lora.h
  kAdapterB,
};

enum class FirstValues { kNormal, kUniform, kOnes, kZeros };

struct ModelTensor {
  std::string name;
  std::vector<int64_t> shape;  // [out, in] for matrices, of gpt2 [in, out]
  TensorRole role = TensorRole::kTokenEmbedding;
  FirstValues first = FirstValues::kNormal;
  // Normal values deviate by the config's initializer_range times this, uniform ones lie in +-
  // this.
  double first_scale = 1;
  int64_t num_elems() const;
};

// The token embedding first: a tied head borrows it by that.
std::vector<ModelTensor> embedding_tensors(const ModelConfig& config);
std::vector<ModelTensor> layer_tensors(const ModelConfig& config, int64_t index);
// The final norm, then the score if the model has one, or lm_head unless it is the embedding's
// weight.
std::vector<ModelTensor> head_tensors(const ModelConfig& config);

}  // namespace lockstep::common
