#include "runtime/model/embedding.h"

#include <stdexcept>
#include <string>

#include "runtime/kernels/elementwise.h"

namespace lockstep::runtime {

Embedding::Embedding(const common::ModelConfig& config)
    : vocab_size_(config.vocab_size),
      hidden_size_(config.hidden_size),
      is_tied_(config.tie_word_embeddings),
      unit_(embedding_unit(config)) {}

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
  embedding_forward(shape.rows(), hidden_size_, io.tokens, params, buffers.y);
}

void Embedding::backward(const BatchShape& shape, ConstValues /*params*/, MicroBatchIo& io,
                         const BlockBuffers& buffers, float* gradients) const {
  if (is_tied_) {
    for (int64_t row = 0; row < shape.rows(); ++row) {
      add_in_place(hidden_size_, buffers.dy + row * hidden_size_,
                   gradients + io.tokens[row] * hidden_size_);
    }
    return;
  }
  embedding_backward(shape.rows(), hidden_size_, vocab_size_, io.tokens, buffers.dy, gradients);
}

}  // namespace lockstep::runtime
