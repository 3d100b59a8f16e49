#include "runtime/train/pad_token.h"

#include <string>
#include <utility>

#include "runtime/train/exchange.h"
#include "runtime/train/job_tokenizer.h"

namespace lockstep::runtime {
namespace {

using common::Result;

Result<int32_t> read_pad_token(const std::string& path) {
  ASSIGN_OR_RETURN(const TokenizerFolder files, read_tokenizer_folder(path));
  ASSIGN_OR_RETURN(const HfTokenizer tokenizer, open_tokenizer(files));
  return pad_token_of(files, tokenizer).value_or(-1);
}

}  // namespace

std::optional<int32_t> pad_token_of(const TokenizerFolder& files, const HfTokenizer& tokenizer) {
  for (const std::string name : {"pad_token", "eos_token"}) {
    const auto token = files.special_tokens.find(name);
    if (token == files.special_tokens.end()) continue;
    if (const std::optional<int32_t> id = tokenizer.id_of(token->second)) return id;
  }
  return std::nullopt;
}

void find_pad_token(RankState& s) {
  if (s.config().task != common::Task::kReward) return;
  Result<int32_t> mine = -1;
  if (s.is_rank0()) mine = read_pad_token(s.config().tokenizer.path);
  const common::ExitCode code =
      mine ? common::ExitCode::kSucceeded : exit_code_of_tokenizer(mine.error());
  const int32_t found = agree_on(*s.collective, std::move(mine), code, "looking for a pad token");
  s.pad_token = gather_values(*s.collective, found, "pad token").front();
}

}  // namespace lockstep::runtime
