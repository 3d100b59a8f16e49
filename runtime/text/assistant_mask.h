// Which tokens of a conversation a model learns to say.
#pragma once

#include <span>
#include <vector>

#include "runtime/text/hf_tokenizer.h"

namespace lockstep::runtime {

// True for every token of `encoding` that stands for some of the text in `generated`, and for those
// between two such of one span that stand for no text.
//   generated: ascending, as ChatTemplate::render() gives them; spans without text mark nothing.
// As Transformers' return_assistant_tokens_mask, which marks the whole rest if a span ends within
// the first token, and nothing more after a span whose first character has no token: not so here.
std::vector<bool> assistant_mask(const Encoding& encoding, std::span<const TextSpan> generated);

}  // namespace lockstep::runtime
