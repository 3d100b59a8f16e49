#include "runtime/text/tokenizer_folder.h"

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "runtime/common/system_error.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;
using common::Error;
using common::ErrorCode;
using common::Result;
using nlohmann::json;

constexpr std::array kSpecialTokens = {"bos_token", "eos_token", "unk_token", "sep_token",
                                       "pad_token", "cls_token", "mask_token"};

Result<std::string> read_text(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file || !text) return common::system_error("read", path, errno);
  return std::move(text).str();
}

// The file's text; nothing if there is no such file.
Result<std::optional<std::string>> read_if_there(const std::string& path) {
  std::error_code unseen;
  if (!fs::exists(path, unseen)) return std::optional<std::string>();
  ASSIGN_OR_RETURN(std::string text, read_text(path));
  return std::optional<std::string>(std::move(text));
}

Error wrong(const std::string& path, const std::string& what) {
  return {ErrorCode::kInvalidArgument, path + ": " + what, ""};
}

// The object in `path`; an empty one if there is no such file.
Result<json> read_object(const std::string& path) {
  ASSIGN_OR_RETURN(const std::optional<std::string> text, read_if_there(path));
  if (!text) return json::object();
  json parsed = json::parse(*text, nullptr, false);
  if (!parsed.is_object()) return wrong(path, "is not a JSON object");
  return parsed;
}

// A token is a text or an object with one; null stands for none.
Result<void> add_special_tokens(const std::string& path, const json& config,
                                std::map<std::string, std::string>& tokens) {
  for (const char* name : kSpecialTokens) {
    const auto found = config.find(name);
    if (found == config.end() || found->is_null()) continue;
    const json& token =
        found->is_object() && found->contains("content") ? (*found)["content"] : *found;
    if (!token.is_string()) return wrong(path, std::string(name) + " is not a token");
    tokens.emplace(name, token.get<std::string>());
  }
  return {};
}

// The template in tokenizer_config.json: a text, or a list of named ones.
Result<std::optional<std::string>> template_of(const std::string& path, const json& config) {
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return std::optional<std::string>();
  if (found->is_string()) return std::optional<std::string>(found->get<std::string>());
  if (found->is_array()) {
    for (const json& item : *found) {
      if (!item.is_object() || item.value("name", json()) != "default") continue;
      const json text = item.value("template", json());
      if (text.is_string()) return std::optional<std::string>(text.get<std::string>());
    }
  }
  return wrong(path, "chat_template is neither a template nor a list with one named default");
}

}  // namespace

Result<TokenizerFolder> read_tokenizer_folder(const std::string& path) {
  std::error_code unseen;
  const bool is_file = fs::path(path).filename() == "tokenizer.json";
  TokenizerFolder files;
  files.folder = is_file ? fs::path(path).parent_path().string() : path;
  if (files.folder.empty()) files.folder = ".";
  const std::string tokenizer = is_file ? path : path + "/tokenizer.json";
  if (!fs::exists(tokenizer, unseen)) {
    return Error{ErrorCode::kNotFound, tokenizer + " is not there",
                 "give a directory with a tokenizer.json; Transformers writes one when it saves a "
                 "tokenizer"};
  }
  ASSIGN_OR_RETURN(files.tokenizer_json, read_text(tokenizer));
  const std::string config_name = files.folder + "/tokenizer_config.json";
  ASSIGN_OR_RETURN(const json config, read_object(config_name));
  RETURN_IF_ERROR(add_special_tokens(config_name, config, files.special_tokens));
  const std::string map_name = files.folder + "/special_tokens_map.json";
  ASSIGN_OR_RETURN(const json map, read_object(map_name));
  RETURN_IF_ERROR(add_special_tokens(map_name, map, files.special_tokens));
  files.chat_template_name = files.folder + "/chat_template.jinja";
  ASSIGN_OR_RETURN(files.chat_template, read_if_there(files.chat_template_name));
  if (!files.chat_template) {
    files.chat_template_name = config_name;
    ASSIGN_OR_RETURN(files.chat_template, template_of(config_name, config));
  }
  return files;
}

Result<HfTokenizer> open_tokenizer(const TokenizerFolder& files) {
  return HfTokenizer::open(files.tokenizer_json, files.folder + "/tokenizer.json");
}

Result<ChatTemplate> open_chat_template(const TokenizerFolder& files) {
  if (!files.chat_template) {
    return Error{ErrorCode::kNotFound, files.folder + " has no chat template",
                 "add a chat_template.jinja to it"};
  }
  return ChatTemplate::open(*files.chat_template, files.chat_template_name);
}

}  // namespace lockstep::runtime
