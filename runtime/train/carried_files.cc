#include "runtime/train/carried_files.h"

#include <optional>
#include <string_view>

#include "runtime/common/config_json.h"
#include "runtime/common/model_folder.h"
#include "runtime/common/text_file.h"
#include "runtime/text/tokenizer_folder.h"
#include "runtime/train/pad_token.h"

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;

constexpr std::string_view kOfTheModel = "generation_config.json";

Result<void> carry(const std::string& folder, std::string_view name, CarriedFiles& carried) {
  Result<std::string> text = common::read_text_file(folder + "/" + std::string(name));
  if (!text) return text.error().code == ErrorCode::kNotFound ? Result<void>() : text.error();
  carried.files.emplace_back(name, std::move(text).value());
  return {};
}

Result<void> carry_tokenizer(const std::string& folder, CarriedFiles& carried) {
  for (const std::string_view name : common::kVocabularyFiles) {
    RETURN_IF_ERROR(carry(folder, name, carried));
  }
  for (const std::string_view name : common::kTokenSettingsFiles) {
    if (name != kOfTheModel) RETURN_IF_ERROR(carry(folder, name, carried));
  }
  return {};
}

Result<void> add_special_ids(const TokenizerFolder& files, bool is_scored, nlohmann::json& ids) {
  ASSIGN_OR_RETURN(const HfTokenizer tokenizer, open_tokenizer(files));
  const std::optional<int32_t> pad = pad_token_of(files, tokenizer);
  if (is_scored && pad) ids["pad_token_id"] = *pad;  // which decides what is scored
  for (const std::string name : {"bos_token", "eos_token", "pad_token"}) {
    const auto token = files.special_tokens.find(name);
    if (token == files.special_tokens.end()) continue;
    const std::optional<int32_t> id = tokenizer.id_of(token->second);
    if (id && ids.value(name + "_id", nlohmann::json()).is_null()) ids[name + "_id"] = *id;
  }
  return {};
}

Result<void> carry_of_model(const std::string& folder, CarriedFiles& carried) {
  ASSIGN_OR_RETURN(carried.special_ids, common::read_special_ids(folder + "/config.json"));
  return carry(folder, kOfTheModel, carried);
}

// What makes tokens, and the special ids that config.json does not have.
Result<void> carry_of_tokenizer(const common::TrainConfig& config, CarriedFiles& carried) {
  ASSIGN_OR_RETURN(const TokenizerFolder files, read_tokenizer_folder(config.tokenizer.path));
  RETURN_IF_ERROR(add_special_ids(files, config.model.has_score, carried.special_ids));
  return carry_tokenizer(files.folder, carried);
}

Result<void> of_field(const char* field, Result<void> done) {
  if (done) return done;
  const Error& error = done.error();
  return Error{error.code, std::string(field).append(": ").append(error.message), error.hint};
}

}  // namespace

Result<CarriedFiles> read_carried_files(const common::TrainConfig& config) {
  constexpr const char* kModelPath = "train.model.path";
  const common::ModelSource& source = config.model_source;
  CarriedFiles carried;
  if (source.is_pretrained) {
    RETURN_IF_ERROR(of_field(kModelPath, carry_of_model(source.path, carried)));
  }
  if (config.tokenizer.type == common::TokenizerConfig::Type::kHuggingFace) {
    RETURN_IF_ERROR(of_field("train.tokenizer", carry_of_tokenizer(config, carried)));
  } else if (source.is_pretrained) {
    RETURN_IF_ERROR(of_field(kModelPath, carry_tokenizer(source.path, carried)));
  }
  return carried;
}

}  // namespace lockstep::runtime
