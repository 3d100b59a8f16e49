// Data of known tokens: token i of the stream is i, so that a sample tells what it is made of.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/data/samples.h"
#include "runtime/data/token_source.h"

namespace lockstep::runtime {

class CountingTokens final : public TokenSource {
 public:
  // Documents of so many tokens, without separators.
  explicit CountingTokens(const std::vector<int64_t>& document_tokens) {
    for (const int64_t tokens : document_tokens) begins_.push_back(begins_.back() + tokens);
  }

  int64_t num_tokens() const override { return begins_.back(); }
  int64_t num_documents() const override { return static_cast<int64_t>(begins_.size()) - 1; }
  int64_t num_token_ids() const override { return num_tokens(); }
  int64_t document_begin(int64_t document) const override {
    return begins_[static_cast<std::size_t>(document)];
  }
  common::Result<void> read(int64_t begin, std::span<int32_t> tokens,
                            std::span<int32_t> labels) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const int64_t at = begin + static_cast<int64_t>(i);
      if (at == damaged_token) {
        return common::Error{common::ErrorCode::kDataLoss, "token " + std::to_string(at), ""};
      }
      tokens[i] = static_cast<int32_t>(at);
      const bool is_last = at + 1 == document_begin(document_at(*this, at) + 1);
      labels[i] = is_last ? kNoLabel : tokens[i] + 1;
    }
    return {};
  }
  common::Result<int64_t> count_labels(int64_t begin, int64_t end) const override {
    std::vector<int32_t> tokens(static_cast<std::size_t>(end - begin));
    std::vector<int32_t> labels(tokens.size());
    RETURN_IF_ERROR(read(begin, tokens, labels));
    int64_t count = 0;
    for (const int32_t label : labels) count += label >= 0 ? 1 : 0;
    return count;
  }
  const std::string& fingerprint() const override { return fingerprint_; }

  int64_t damaged_token = -1;  // whoever reads it gets kDataLoss

 private:
  std::vector<int64_t> begins_ = {0};
  std::string fingerprint_ = "counting";
};

inline Samples counting_samples(const std::vector<int64_t>& document_tokens, int64_t length,
                                bool packing = true, int64_t damaged_token = -1) {
  auto source = std::make_unique<CountingTokens>(document_tokens);
  source->damaged_token = damaged_token;
  return Samples::create(std::move(source), {.sequence_length = length, .packing = packing})
      .value();
}

}  // namespace lockstep::runtime
