// Documents one after another in one stream of tokens: what samples are cut from.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "runtime/common/result.h"

namespace lockstep::runtime {

inline constexpr int32_t kNoLabel = -1;  // a position without loss

// Note [Documents and separators]
// A document made of text begins with the separator token, but for the first of the data. So the
// last token of a text predicts the separator (the text ends), the separator sees nothing before
// itself and predicts how a text begins, and no token learns from a text that it cannot see. The
// same stream without borders is what one would train on if documents were ignored. Documents that
// come as tokens are taken as they are: their last token predicts nothing. So are those that a
// Hugging Face tokenizer makes of texts, which have its own tokens at their begin and end.

// Reading is const and may be done from several threads.
class TokenSource {
 public:
  virtual ~TokenSource() = default;

  virtual int64_t num_tokens() const = 0;
  virtual int64_t num_documents() const = 0;
  // No token or label reaches it.
  virtual int64_t num_token_ids() const = 0;

  // The first token of `document` in the stream, ascending; num_documents() gives num_tokens().
  virtual int64_t document_begin(int64_t document) const = 0;

  // Writes stream tokens [begin, begin + tokens.size()) and what each of them predicts: the next
  // token of its document, or kNoLabel. A document's last token predicts the separator, if there is
  // one. `labels` is as long as `tokens`, and the range lies in the stream.
  // Errors: kDataLoss naming the file if what it holds was damaged.
  virtual common::Result<void> read(int64_t begin, std::span<int32_t> tokens,
                                    std::span<int32_t> labels) const = 0;

  // How many of tokens [begin, end) predict something. Errors as read().
  virtual common::Result<int64_t> count_labels(int64_t begin, int64_t end) const = 0;

  // Identifies the data, wherever it is mounted.
  virtual const std::string& fingerprint() const = 0;
};

// The document that token `position`, in [0, num_tokens()), belongs to.
int64_t document_at(const TokenSource& source, int64_t position);

}  // namespace lockstep::runtime
