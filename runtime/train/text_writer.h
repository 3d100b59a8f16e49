// Tokens one after another: what `generate` and `chat` share.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <vector>

#include "runtime/model/cached_decoder.h"
#include "runtime/train/sampling.h"
#include "runtime/train/speaking_model.h"

namespace lockstep::runtime {

struct WritingOptions {
  int64_t max_new_tokens = 200;
  Sampling sampling;
};

// Why no more tokens came.
enum class WritingEnd {
  kText,     // the model ended its text
  kCount,    // max_new_tokens are there
  kRoom,     // the sequence is as long as it may be
  kStopped,  // who takes the tokens wanted no more
};

class TextWriter {
 public:
  //   model: borrowed, must outlive this object.
  //   max_tokens: of a sequence; at most what the model sees (max_position_embeddings) is taken.
  TextWriter(const SpeakingModel& model, int64_t max_tokens);

  int64_t max_tokens() const { return decoder_.max_tokens(); }

  // Goes on from `tokens`; what they share with the sequence before is not computed again.
  //   random: one number is drawn for each token, whatever the temperature.
  //   take: gets each new token, the text's end excepted; false: no more.
  // Throws std::invalid_argument for no tokens or more than max_tokens().
  WritingEnd go_on(std::span<const int32_t> tokens, const WritingOptions& options,
                   std::mt19937_64& random, const std::function<bool(int32_t)>& take);

 private:
  const SpeakingModel& model_;
  CachedDecoder decoder_;
  std::vector<int32_t> seen_;  // what the decoder has
};

}  // namespace lockstep::runtime
