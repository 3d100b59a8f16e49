// A decoder that goes on from what it has seen: keys and values of earlier tokens are kept.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/kernels/float_buffer.h"
#include "runtime/model/decoder_blocks.h"

namespace lockstep::runtime {

// One sequence, computed in fp32; no gradients. Attention has the bits of the whole sequence
// computed at once. Products do not, since their bits depend on the number of their rows: logits
// differ by the rounding of fp32, 1e-5 of the largest, with how a sequence is cut into calls.
class CachedDecoder {
 public:
  //   max_tokens: that the sequence may have; the cache is allocated for so many, of every layer.
  //   params: [block], each [its unit's elements], fp32; borrowed, must outlive this object.
  // Throws std::invalid_argument as make_decoder_blocks(), or for a wrong number of params;
  // std::bad_alloc.
  CachedDecoder(const common::ModelConfig& config, int64_t max_tokens,
                std::vector<ConstValues> params);

  int64_t max_tokens() const { return max_tokens_; }
  int64_t num_tokens() const { return num_tokens_; }
  // Forgets all but the first `num_tokens`, of num_tokens() at most.
  void keep(int64_t num_tokens);

  // Puts `tokens` behind the sequence: the logits of the last, [vocab]. Throws
  // std::invalid_argument for no tokens or more than there is room for, std::out_of_range on one
  // beyond the vocabulary; the sequence is then as it was.
  std::vector<float> extend(std::span<const int32_t> tokens);

 private:
  // Some tokens through all blocks but the last.
  void run_layers(std::span<const int32_t> tokens);
  std::vector<float> last_logits(int64_t num_rows) const;

  common::ModelConfig config_;
  int64_t max_tokens_;
  std::vector<ConstValues> params_;
  DecoderBlocks decoder_;
  int64_t rows_;  // of a call's piece, at most
  std::optional<ActivationBuffers> buffers_;
  FloatBuffer cache_;  // [layer][layer_elems_]
  int64_t layer_elems_ = 0;
  FloatBuffer scratch_;  // of attention
  int64_t num_tokens_ = 0;
};

}  // namespace lockstep::runtime
