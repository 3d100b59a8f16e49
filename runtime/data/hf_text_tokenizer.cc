#include "runtime/data/hf_text_tokenizer.h"

#include <array>
#include <cstdio>
#include <utility>

#include "runtime/data/file_fingerprint.h"
#include "runtime/text/tokenizer_folder.h"

namespace lockstep::runtime {

using common::Error;
using common::ErrorCode;
using common::Result;

Result<HfTextTokenizer> HfTextTokenizer::open(const std::string& path) {
  ASSIGN_OR_RETURN(const TokenizerFolder files, read_tokenizer_folder(path));
  ASSIGN_OR_RETURN(HfTokenizer tokenizer, open_tokenizer(files));
  HfTextTokenizer opened(std::move(tokenizer));
  const auto eos = files.special_tokens.find("eos_token");
  if (eos != files.special_tokens.end()) {
    opened.eos_ = opened.tokenizer_.id_of(eos->second);
    if (!opened.eos_) {
      return Error{ErrorCode::kInvalidArgument,
                   files.folder + ": eos_token " + eos->second + " is no token of tokenizer.json",
                   "name one in tokenizer_config.json"};
    }
  }
  FileFingerprint fingerprint;
  fingerprint.add(files.tokenizer_json);
  fingerprint.add(std::string(":").append(std::to_string(opened.eos_.value_or(-1))));
  std::array<char, 24> name{};
  std::snprintf(name.data(), name.size(), "hf:%016llx",
                static_cast<unsigned long long>(fingerprint.hash()));
  opened.name_ = name.data();
  return opened;
}

Result<void> HfTextTokenizer::encode(
    std::string_view text, const std::function<void(std::span<const int32_t>)>& sink) const {
  if (text.empty()) return {};
  if (text.size() > kMaxTextBytes) {
    return Error{ErrorCode::kInvalidArgument,
                 "the text has " + std::to_string(text.size()) +
                     " bytes, a tokenizer takes up to " + std::to_string(kMaxTextBytes) +
                     " at once",
                 "cut it into texts, one to a line of a *.jsonl file"};
  }
  ASSIGN_OR_RETURN(Encoding encoding, tokenizer_.encode(text, /*add_special_tokens=*/true));
  const bool has_end = !encoding.ids.empty() && eos_ && encoding.ids.back() == *eos_;
  if (eos_ && !has_end) encoding.ids.push_back(*eos_);
  sink(encoding.ids);
  return {};
}

}  // namespace lockstep::runtime
