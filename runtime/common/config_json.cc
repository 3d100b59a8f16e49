#include "runtime/common/config_json.h"

#include "runtime/common/model_json.h"
#include "runtime/common/text_file.h"

namespace lockstep::common {
namespace {

using nlohmann::json;

// Where gpt2's config.json does not give them, Transformers takes 0.1.
Result<void> check_dropout(const json& object) {
  if (object.value("model_type", json()) != "gpt2") return {};
  for (const char* const key : {"embd_pdrop", "resid_pdrop", "attn_pdrop"}) {
    if (object.contains(key)) continue;
    return Error{ErrorCode::kInvalidArgument,
                 std::string(key) + ": is absent, which stands for 0.1",
                 "dropout is not applied: set it to 0"};
  }
  return {};
}

Result<json> parse_object(std::string_view text) {
  json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (object.is_object()) return object;
  return Error{ErrorCode::kInvalidArgument, "not a JSON object", "is it a config.json?"};
}

Result<std::string> read_text(const std::string& path) {
  Result<std::string> text = read_text_file(path);
  if (text || text.error().code != ErrorCode::kNotFound) return text;
  return Error{ErrorCode::kNotFound, text.error().message,
               "a Hugging Face directory holds a config.json"};
}

Error in_file(const std::string& path, const Error& error) {
  return {error.code, path + ": " + error.message, error.hint};
}

}  // namespace

std::string encode_config_json(const ModelConfig& config, DType dtype, const json& special_ids) {
  nlohmann::ordered_json object = encode_model_json(config, dtype);
  for (const auto& [key, value] : special_ids.items()) object[key] = value;
  return object.dump(2) + "\n";
}

Result<ModelConfig> decode_config_json(std::string_view text) {
  ASSIGN_OR_RETURN(const json object, parse_object(text));
  RETURN_IF_ERROR(check_dropout(object));
  return decode_model_json(object);
}

Result<ModelConfig> read_config_json(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, read_text(path));
  Result<ModelConfig> config = decode_config_json(text);
  if (!config) return in_file(path, config.error());
  return config;
}

Result<json> read_special_ids(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, read_text(path));
  const Result<json> object = parse_object(text);
  if (!object) return in_file(path, object.error());
  json ids = json::object();
  for (const char* const key : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    if (object->contains(key)) ids[key] = object->at(key);
  }
  return ids;
}

}  // namespace lockstep::common
