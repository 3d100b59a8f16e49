#include "runtime/model/cached_decoder.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include "runtime/kernels/attention.h"
#include "runtime/model/head.h"
#include "runtime/model/layer_shapes.h"

namespace lockstep::runtime {
namespace {

// Tokens that go through the layers together: enough for products to be fast.
constexpr int64_t kPieceTokens = 128;

}  // namespace

CachedDecoder::CachedDecoder(const common::ModelConfig& config, int64_t max_tokens,
                             std::vector<ConstValues> params)
    : config_(config),
      max_tokens_(max_tokens),
      params_(std::move(params)),
      decoder_(make_decoder_blocks(config, max_tokens, DType::kFp32, {})),
      rows_(std::min(kPieceTokens, max_tokens)) {
  if (params_.size() != decoder_.blocks.size()) {
    throw std::invalid_argument("cached decoder: parameters of " +
                                std::to_string(decoder_.blocks.size()) + " blocks expected, of " +
                                std::to_string(params_.size()) + " given");
  }
  const BatchShape shape = {.batch = 1, .seq = rows_};
  // No backward follows, so that no layer has to keep anything.
  buffers_.emplace(activation_sizes(decoder_, config, shape),
                   common::ActivationCheckpointing::kBlock, /*offloads=*/false);
  layer_elems_ = attention_cache_elems(attention_shape(config, shape), max_tokens);
  layer_elems_ = (layer_elems_ + 15) / 16 * 16;  // whole cache lines
  cache_ = FloatBuffer(config.num_hidden_layers * layer_elems_);
  scratch_ = FloatBuffer(attention_extend_scratch_elems(max_tokens));
}

void CachedDecoder::keep(int64_t num_tokens) {
  if (num_tokens < 0 || num_tokens > num_tokens_) {
    throw std::invalid_argument("cached decoder: cannot keep " + std::to_string(num_tokens) +
                                " tokens of " + std::to_string(num_tokens_));
  }
  num_tokens_ = num_tokens;
}

void CachedDecoder::run_layers(std::span<const int32_t> tokens) {
  const auto num_rows = static_cast<int64_t>(tokens.size());
  std::vector<int32_t> positions(tokens.size());
  std::iota(positions.begin(), positions.end(), static_cast<int32_t>(num_tokens_));
  MicroBatchIo io = {.tokens = tokens.data(), .positions = positions.data()};
  const BatchShape shape = {.batch = 1, .seq = num_rows};
  AttentionCache cache = {.rows = cache_.data(), .capacity = max_tokens_, .num_rows = num_tokens_};
  for (std::size_t i = 0; i + 1 < decoder_.blocks.size(); ++i) {
    BlockBuffers buffers = buffers_->of(static_cast<int64_t>(i));
    if (i > 0) {
      cache.rows = cache_.data() + (static_cast<int64_t>(i) - 1) * layer_elems_;
      buffers.cache = &cache;
      buffers.cache_scratch = scratch_.data();
    }
    decoder_.blocks[i]->forward(shape, params_[i], io, buffers);
  }
}

std::vector<float> CachedDecoder::last_logits(int64_t num_rows) const {
  BlockBuffers buffers = buffers_->of(static_cast<int64_t>(decoder_.blocks.size()) - 1);
  buffers.tied_weight = params_.front();
  std::vector<float> logits(static_cast<std::size_t>(config_.vocab_size));
  dynamic_cast<const Head&>(*decoder_.blocks.back())
      .logits(1, params_.back(), buffers.x + (num_rows - 1) * config_.hidden_size, buffers,
              logits.data());
  return logits;
}

std::vector<float> CachedDecoder::extend(std::span<const int32_t> tokens) {
  const auto count = static_cast<int64_t>(tokens.size());
  if (count < 1 || count > max_tokens_ - num_tokens_) {
    throw std::invalid_argument("cached decoder: " + std::to_string(count) +
                                " tokens given, 1 to " + std::to_string(max_tokens_ - num_tokens_) +
                                " expected");
  }
  const int64_t before = num_tokens_;
  int64_t rows = 0;
  try {
    while (!tokens.empty()) {
      rows = std::min(rows_, static_cast<int64_t>(tokens.size()));
      run_layers(tokens.first(static_cast<std::size_t>(rows)));
      tokens = tokens.subspan(static_cast<std::size_t>(rows));
      num_tokens_ += rows;
    }
  } catch (const std::out_of_range&) {
    num_tokens_ = before;
    throw;
  }
  return last_logits(rows);
}

}  // namespace lockstep::runtime
