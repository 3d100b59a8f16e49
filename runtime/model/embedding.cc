#include "runtime/model/embedding.h"

#include <cmath>
#include <stdexcept>
#include <string>

#include "runtime/common/model_family.h"
#include "runtime/kernels/device.h"
#include "runtime/kernels/elementwise.h"

namespace lockstep::runtime {
namespace {

int64_t position_of(const BatchShape& shape, const MicroBatchIo& io, int64_t row) {
  return io.positions == nullptr ? row % shape.seq : io.positions[row];
}

float multiplier_of(const common::ModelConfig& config) {
  const bool scales = common::family_of(config).scales_embedding;
  return static_cast<float>(scales ? std::sqrt(static_cast<double>(config.hidden_size))
                                   : config.embedding_multiplier);
}

}  // namespace

Embedding::Embedding(const common::ModelConfig& config)
    : vocab_size_(config.vocab_size),
      hidden_size_(config.hidden_size),
      is_tied_(config.tie_word_embeddings),
      num_positions_(
          common::family_of(config).has_learned_positions ? config.max_position_embeddings : 0),
      multiplier_(multiplier_of(config)),
      unit_(embedding_unit(config)) {}

int64_t Embedding::scratch_elems(const BatchShape&) const {
  return num_positions_ > 0 ? hidden_size_ : 0;
}

void Embedding::forward(const BatchShape& shape, ConstValues params, MicroBatchIo& io,
                        const BlockBuffers& buffers) const {
  for (int64_t row = 0; row < shape.rows(); ++row) {
    const int32_t token = io.tokens[row];
    if (token < 0 || token >= vocab_size_) {
      throw std::out_of_range("token " + std::to_string(token) + " at position " +
                              std::to_string(row) + " of a micro-batch: the vocabulary has " +
                              std::to_string(vocab_size_) + " entries");
    }
  }
  embedding_forward(shape.rows(), hidden_size_, io.on_device().tokens, params, buffers.y);
  if (multiplier_ != 1) scale(shape.rows() * hidden_size_, multiplier_, buffers.y, buffers.y);
  for (int64_t row = 0; num_positions_ > 0 && row < shape.rows(); ++row) {
    const int64_t place = vocab_size_ + position_of(shape, io, row);
    widen(hidden_size_, params.from(place * hidden_size_), buffers.scratch);
    add_in_place(hidden_size_, buffers.scratch, buffers.y + row * hidden_size_);
  }
}

// A tied head has written its part of the first tensor's gradient.
void Embedding::backward(const BatchShape& shape, ConstValues /*params*/, MicroBatchIo& io,
                         const BlockBuffers& buffers, float* gradients) const {
  float* const d_positions = gradients + vocab_size_ * hidden_size_;
  clear_floats(num_positions_ * hidden_size_, d_positions);
  for (int64_t row = 0; num_positions_ > 0 && row < shape.rows(); ++row) {
    add_in_place(hidden_size_, buffers.dy + row * hidden_size_,
                 d_positions + position_of(shape, io, row) * hidden_size_);
  }
  if (!is_tied_) clear_floats(vocab_size_ * hidden_size_, gradients);
  embedding_backward(shape.rows(), hidden_size_, io.on_device().tokens, multiplier_, buffers.dy,
                     gradients);
}

}  // namespace lockstep::runtime
