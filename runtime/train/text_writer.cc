#include "runtime/train/text_writer.h"

#include <algorithm>

namespace lockstep::runtime {

TextWriter::TextWriter(const SpeakingModel& model, int64_t max_tokens)
    : model_(model),
      decoder_(model.config, std::min(max_tokens, model.config.max_position_embeddings),
               model.params()) {}

WritingEnd TextWriter::go_on(std::span<const int32_t> tokens, const WritingOptions& options,
                             std::mt19937_64& random, const std::function<bool(int32_t)>& take) {
  seen_.resize(static_cast<std::size_t>(decoder_.num_tokens()));  // the last one was not put in
  // The last of `tokens` always is: its logits are wanted.
  const auto before_last = tokens.first(tokens.empty() ? 0 : tokens.size() - 1);
  const auto shared = static_cast<std::size_t>(
      std::mismatch(seen_.begin(), seen_.end(), before_last.begin(), before_last.end()).first -
      seen_.begin());
  decoder_.keep(static_cast<int64_t>(shared));
  seen_.resize(shared);
  std::vector<float> logits = decoder_.extend(tokens.subspan(shared));
  seen_.assign(tokens.begin(), tokens.end());
  for (int64_t i = 0; i < options.max_new_tokens; ++i) {
    if (i > 0) logits = decoder_.extend(std::span(seen_).last(1));
    const double uniform = static_cast<double>(random() >> 11) * 0x1p-53;
    const std::span<const float> known(logits.data(),
                                       static_cast<std::size_t>(model_.vocabulary.num_tokens));
    const int32_t next = draw_token(token_probabilities(known, options.sampling), uniform);
    if (model_.vocabulary.ends.contains(next)) return WritingEnd::kText;
    if (!take(next)) return WritingEnd::kStopped;
    if (decoder_.num_tokens() == max_tokens()) return WritingEnd::kRoom;
    seen_.push_back(next);
  }
  return WritingEnd::kCount;
}

}  // namespace lockstep::runtime
