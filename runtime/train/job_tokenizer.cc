#include "runtime/train/job_tokenizer.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "runtime/common/model_folder.h"
#include "runtime/data/byte_tokenizer.h"
#include "runtime/data/hf_text_tokenizer.h"

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using common::ExitCode;
using common::Result;
using Type = common::TokenizerConfig::Type;

// Bytes are not the tokens that the weights were trained with.
Result<void> check_bytes(const common::TrainConfig& config) {
  if (!config.model_source.is_pretrained) return {};
  const std::optional<std::string> beside = common::find_tokenizer(config.model_source.path);
  if (!beside) return {};
  return Error{
      ErrorCode::kInvalidArgument,
      "train.tokenizer.type: bytes, but the data is text and the model has a tokenizer of its "
      "own, " +
          *beside,
      beside->ends_with("/tokenizer.json")
          ? "set train.tokenizer.type: hf"
          : "write a tokenizer.json with Transformers, and set train.tokenizer.type: hf"};
}

// Added tokens may lie beyond the vocabulary: the data will show whether a text has one.
Result<void> check_vocabulary(const common::TrainConfig& config, int64_t num_ids) {
  const int64_t vocab_size = config.model.vocab_size;
  if (num_ids <= vocab_size) return {};
  return Error{ErrorCode::kInvalidArgument,
               config.tokenizer.path + " makes " + std::to_string(num_ids) +
                   " tokens, but model.config.vocab_size is " + std::to_string(vocab_size),
               "use the model's tokenizer, or a larger vocab_size"};
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> open_job_tokenizer(const common::TrainConfig& config) {
  if (config.tokenizer.type == Type::kBytes) {
    RETURN_IF_ERROR(check_bytes(config));
    return std::unique_ptr<Tokenizer>(std::make_unique<ByteTokenizer>());
  }
  ASSIGN_OR_RETURN(HfTextTokenizer opened, HfTextTokenizer::open(config.tokenizer.path));
  RETURN_IF_ERROR(check_vocabulary(config, std::max<int64_t>(opened.tokenizer().num_model_ids(),
                                                             opened.eos().value_or(-1) + 1)));
  return std::unique_ptr<Tokenizer>(std::make_unique<HfTextTokenizer>(std::move(opened)));
}

Result<std::unique_ptr<ConversationTokenizer>> open_job_conversations(
    const common::TrainConfig& config, const ConversationLayout& layout,
    std::chrono::system_clock::time_point now) {
  const bool is_cut = !config.data.packing;
  const bool learns_all =
      config.data.loss == common::DataConfig::Loss::kAll && !common::is_preference(config.task);
  ASSIGN_OR_RETURN(
      ConversationTokenizer opened,
      ConversationTokenizer::open({.tokenizer = config.tokenizer.path,
                                   .layout = layout,
                                   .learns_all = learns_all,
                                   .now = now,
                                   .sample_tokens = is_cut ? config.data.sequence_length : 0}));
  RETURN_IF_ERROR(check_vocabulary(config, opened.tokenizer().num_model_ids()));
  return std::make_unique<ConversationTokenizer>(std::move(opened));
}

ExitCode exit_code_of_tokenizer(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
      return ExitCode::kInvalidConfig;
    case ErrorCode::kNotFound:
    case ErrorCode::kPermissionDenied:
      return ExitCode::kInputNotFound;
    default:
      return ExitCode::kInternal;
  }
}

}  // namespace lockstep::runtime
