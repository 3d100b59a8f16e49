#include "runtime/model/config_json.h"

#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "runtime/common/model_json.h"

namespace lockstep::runtime {

using common::Error;
using common::ErrorCode;
using common::ModelConfig;
using common::Result;

namespace {

// Where gpt2's config.json does not give them, Transformers takes 0.1.
Result<void> check_dropout(const nlohmann::json& object) {
  if (object.value("model_type", nlohmann::json()) != "gpt2") return {};
  for (const char* const key : {"embd_pdrop", "resid_pdrop", "attn_pdrop"}) {
    if (object.contains(key)) continue;
    return Error{ErrorCode::kInvalidArgument,
                 std::string(key) + ": is absent, which stands for 0.1",
                 "dropout is not applied: set it to 0"};
  }
  return {};
}

}  // namespace

std::string encode_config_json(const ModelConfig& config, common::DType dtype) {
  return common::encode_model_json(config, dtype).dump(2) + "\n";
}

Result<ModelConfig> decode_config_json(std::string_view text) {
  const auto object = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) {
    return Error{ErrorCode::kInvalidArgument, "not a JSON object", "is it a config.json?"};
  }
  RETURN_IF_ERROR(check_dropout(object));
  return common::decode_model_json(object);
}

Result<ModelConfig> read_config_json(const std::string& path) {
  const std::ifstream file(path, std::ios::binary);
  if (!file) return Error{ErrorCode::kNotFound, path + ": cannot be read", ""};
  std::ostringstream text;
  text << file.rdbuf();
  Result<ModelConfig> config = decode_config_json(text.str());
  if (!config) {
    const Error& error = config.error();
    return Error{error.code, path + ": " + error.message, error.hint};
  }
  return config;
}

}  // namespace lockstep::runtime
