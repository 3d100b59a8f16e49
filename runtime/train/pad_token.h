// The token that texts are filled up with, whose place in a text is not scored.
#pragma once

#include <optional>

#include "runtime/common/result.h"
#include "runtime/text/hf_tokenizer.h"
#include "runtime/text/tokenizer_folder.h"
#include "runtime/train/rank_state.h"

namespace lockstep::runtime {

// The tokenizer's pad_token, or else its eos_token, as TRL takes it for a reward model; nothing if
// it names neither.
std::optional<int32_t> pad_token_of(const TokenizerFolder& files, const HfTokenizer& tokenizer);

// Under task reward sets s.pad_token, else does nothing: Transformers scores the last token that is
// not the pad token of the exported config.json, which is this one. Every rank must call it; rank 0
// alone reads. Throws as agree_on().
void find_pad_token(RankState& s);

}  // namespace lockstep::runtime
