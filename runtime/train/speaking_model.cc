#include "runtime/train/speaking_model.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include "runtime/common/config_json.h"
#include "runtime/common/hub_reference.h"
#include "runtime/common/model_folder.h"
#include "runtime/common/peft_config.h"
#include "runtime/data/byte_tokenizer.h"
#include "runtime/model/unit.h"
#include "runtime/train/fetch_verb.h"
#include "runtime/train/merged_weights.h"
#include "runtime/train/pretrained_weights.h"
#include "runtime/train/run_error.h"

namespace lockstep::runtime {
namespace {

using common::ErrorCode;
using common::ExitCode;
using common::Result;

template <typename T>
T read_or_raise(Result<T> result) {
  const bool missing = !result && result.error().code == ErrorCode::kNotFound;
  return value_or_raise(std::move(result),
                        missing ? ExitCode::kInputNotFound : ExitCode::kInvalidData);
}

// Where the parts of what is to speak lie.
struct ModelFolders {
  std::string model;
  std::string adapter;  // empty: there is none
  common::LoraConfig lora;
  std::string tokenizer;  // of the two the one that has one
};

bool is_there(const std::string& path) {
  std::error_code unseen;
  return std::filesystem::exists(path, unseen);
}

// A path as it is; of a reference to the hub where its files lie, once they are fetched.
std::string place_of(const std::string& model) {
  return common::is_hub_reference(model) ? fetch_verb({.reference = model}) : model;
}

bool is_adapter_folder(const std::string& folder) {
  return is_there(folder + "/" + common::kAdapterConfigFile) && !is_there(folder + "/config.json");
}

// The folder itself, or what a run has exported to it.
std::string find_model(const std::string& named) {
  if (is_there(named + "/config.json") || is_adapter_folder(named)) return named;
  const std::string exported = named + "/model";
  if (is_there(exported + "/config.json") || is_adapter_folder(exported)) return exported;
  if (is_there(named + "/checkpoints")) {
    throw RunError({ExitCode::kInputNotFound, named + " is a run that has no model yet",
                    "make one of its checkpoints: lockstep export " + named});
  }
  return named;  // whose config.json is told to be missing
}

ModelFolders find_folders(const std::string& model, const std::string& named_base) {
  const bool is_adapter = is_adapter_folder(model);
  if (!is_adapter && !named_base.empty()) {
    throw RunError({ExitCode::kInvalidConfig,
                    model + " is no PEFT adapter, so --base has no meaning", "leave --base out"});
  }
  if (!is_adapter) return {model, "", {}, model};
  common::PeftAdapter adapter = read_or_raise(common::read_adapter_config(model));
  const std::string base = named_base.empty() ? adapter.base_model : named_base;
  if (!is_there(base + "/config.json")) {
    throw RunError(
        {ExitCode::kInputNotFound,
         model + " is an adapter of the model in '" + base + "', where there is no config.json",
         "name the model's directory with --base"});
  }
  const bool has_tokenizer = common::find_tokenizer(model).has_value();
  return {base, model, std::move(adapter.lora), has_tokenizer ? model : base};
}

// The parameters of all units of the model, [unit elements] each, an adapter added to them.
std::vector<std::vector<float>> load_units(const ModelFolders& folders,
                                           const common::ModelConfig& config) {
  const std::vector<Unit> units = model_units(config);
  const PretrainedWeights weights =
      read_or_raise(PretrainedWeights::open(folders.model, config, units));
  std::optional<MergedWeights> merged;
  if (!folders.adapter.empty()) {
    merged.emplace(
        read_or_raise(MergedWeights::open(weights, folders.adapter, config, folders.lora)));
  }
  std::vector<std::vector<float>> params;
  params.reserve(units.size());
  for (const Unit& unit : units) {
    const auto index = static_cast<int64_t>(params.size());
    std::vector<float>& values = params.emplace_back(static_cast<std::size_t>(unit.num_elems));
    read_or_raise(merged ? merged->read(index, 0, values) : weights.read(index, 0, values));
  }
  return params;
}

Vocabulary open_bytes(const std::string& folder, const common::ModelConfig& config) {
  if (config.vocab_size < kNumByteTokens) {
    throw RunError({ExitCode::kInvalidConfig,
                    folder + "/config.json: vocab_size must be at least 256, found " +
                        std::to_string(config.vocab_size),
                    "the model was not trained on bytes"});
  }
  Vocabulary bytes;
  bytes.begin = 0;  // what stands between two files of a corpus
  bytes.num_tokens = kNumByteTokens;
  return bytes;
}

void add_ends(const std::string& path, std::set<int32_t>& ends) {
  const nlohmann::json ids = read_or_raise(common::read_special_ids(path));
  const nlohmann::json found = ids.value("eos_token_id", nlohmann::json());
  for (const nlohmann::json& end : found.is_array() ? found : nlohmann::json::array({found})) {
    if (end.is_number_integer()) ends.insert(end.get<int32_t>());
  }
}

Vocabulary open_vocabulary(const ModelFolders& folders, const common::ModelConfig& config) {
  const std::string& folder = folders.tokenizer;
  const std::optional<std::string> beside = common::find_tokenizer(folder);
  if (!beside) return open_bytes(folder, config);
  if (!beside->ends_with("/tokenizer.json")) {
    throw RunError({ExitCode::kInvalidConfig,
                    *beside + ": the model has a tokenizer of its own, which is not read",
                    "write a tokenizer.json with Transformers"});
  }
  Vocabulary vocabulary;
  vocabulary.files = read_or_raise(read_tokenizer_folder(folder));
  const TokenizerFolder& files = *vocabulary.files;
  vocabulary.tokenizer = read_or_raise(open_tokenizer(files));
  const HfTokenizer& tokenizer = *vocabulary.tokenizer;
  vocabulary.num_tokens = std::min(config.vocab_size, tokenizer.num_ids());
  const auto id_of = [&](const char* name) -> std::optional<int32_t> {
    const auto token = files.special_tokens.find(name);
    return token == files.special_tokens.end() ? std::nullopt : tokenizer.id_of(token->second);
  };
  vocabulary.begin = id_of("bos_token");
  if (const std::optional<int32_t> end = id_of("eos_token")) vocabulary.ends.insert(*end);
  for (const char* const name : {"config.json", "generation_config.json"}) {
    const std::string path = folders.model + "/" + name;
    if (is_there(path)) add_ends(path, vocabulary.ends);
  }
  return vocabulary;
}

}  // namespace

std::vector<int32_t> Vocabulary::encode(const std::string& text, bool add_special_tokens) const {
  if (!tokenizer) return encode_bytes(text);
  std::vector<int32_t> ids =
      value_or_raise(tokenizer->encode(text, add_special_tokens), ExitCode::kInvalidConfig).ids;
  for (const int32_t id : ids) {
    if (id < num_tokens) continue;
    throw RunError({ExitCode::kInvalidConfig,
                    "the prompt has token " + std::to_string(id) + ", but the model knows " +
                        std::to_string(num_tokens),
                    "use the model's own tokenizer"});
  }
  return ids;
}

std::string Vocabulary::decode(std::span<const int32_t> tokens) const {
  if (!tokenizer) return decode_bytes(tokens);
  return value_or_raise(tokenizer->decode(tokens, /*skip_special_tokens=*/true),
                        ExitCode::kInvalidData);
}

std::vector<ConstValues> SpeakingModel::params() const {
  std::vector<ConstValues> pointers;
  pointers.reserve(units.size());
  for (const std::vector<float>& unit : units) pointers.emplace_back(unit.data());
  return pointers;
}

SpeakingModel load_speaking_model(const std::string& model, const std::string& base) {
  const ModelFolders folders = find_folders(find_model(place_of(model)), place_of(base));
  SpeakingModel loaded;
  loaded.folder = folders.adapter.empty() ? folders.model : folders.adapter;
  loaded.config = read_or_raise(common::read_config_json(folders.model + "/config.json"));
  loaded.vocabulary = open_vocabulary(folders, loaded.config);
  loaded.units = load_units(folders, loaded.config);
  return loaded;
}

}  // namespace lockstep::runtime
