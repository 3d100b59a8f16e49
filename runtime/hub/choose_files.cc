#include "runtime/hub/choose_files.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>

#include "runtime/common/model_folder.h"
#include "runtime/common/suggest.h"

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;

constexpr std::string_view kWeights = "model.safetensors";
constexpr std::string_view kIndex = "model.safetensors.index.json";

std::string in_folder(const std::string& folder, std::string_view name) {
  return folder.empty() ? std::string(name) : folder + "/" + std::string(name);
}

// The files of these names that `folder` has.
std::vector<std::string> those_in(const RepoTree& tree, const std::string& folder,
                                  std::span<const std::string_view> names) {
  std::vector<std::string> found;
  for (const std::string_view name : names) {
    std::string path = in_folder(folder, name);
    if (tree.contains(path)) found.push_back(std::move(path));
  }
  return found;
}

// Where a model's file lies instead, for a hint.
std::string folder_with(const RepoTree& tree, const std::string& name) {
  for (const auto& [path, file] : tree) {
    if (path.ends_with("/" + name)) return path.substr(0, path.size() - name.size() - 1);
  }
  return "";
}

bool holds_pickles(const RepoTree& tree, const std::string& folder) {
  return tree.contains(in_folder(folder, "pytorch_model.bin")) ||
         tree.contains(in_folder(folder, "pytorch_model.bin.index.json"));
}

}  // namespace

Result<std::vector<std::string>> choose_model_files(const RepoTree& tree, const std::string& folder,
                                                    bool weights) {
  std::vector<std::string> chosen = {in_folder(folder, "config.json")};
  if (!tree.contains(chosen.front())) {
    const std::string where = folder_with(tree, "config.json");
    return Error{ErrorCode::kNotFound, "the repository has no " + chosen.front(),
                 where.empty() ? "name a repository that holds a model of Transformers"
                               : "there is one in " + where + ": name that folder behind the name"};
  }
  const auto take = [&chosen](const std::vector<std::string>& more) {
    chosen.insert(chosen.end(), more.begin(), more.end());
  };
  take(those_in(tree, folder, common::kVocabularyFiles));
  take(those_in(tree, folder, common::kTokenSettingsFiles));
  if (!weights) return chosen;
  for (const std::string_view name : {kWeights, kIndex}) {
    std::string path = in_folder(folder, name);
    if (!tree.contains(path)) continue;
    chosen.push_back(std::move(path));
    return chosen;
  }
  return Error{
      ErrorCode::kNotFound,
      std::string("the repository has neither ")
          .append(in_folder(folder, kWeights))
          .append(" nor ")
          .append(kIndex),
      holds_pickles(tree, folder)
          ? "pytorch_model.bin is not fetched: name a revision with safetensors, often @refs/pr/N"
          : "name a repository with safetensors, or set model.init: random"};
}

Result<std::vector<std::string>> choose_tokenizer_files(const RepoTree& tree,
                                                        const std::string& path) {
  if (tree.contains(path)) return std::vector<std::string>{path};
  std::vector<std::string> chosen = those_in(tree, path, common::kVocabularyFiles);
  if (chosen.empty()) {
    const std::string where = folder_with(tree, "tokenizer.json");
    return Error{ErrorCode::kNotFound, "the repository has no " + in_folder(path, "tokenizer.json"),
                 where.empty() ? "name a repository that holds a tokenizer of Transformers"
                               : "there is one in " + where + ": name that folder behind the name"};
  }
  for (std::string& settings : those_in(tree, path, common::kTokenSettingsFiles)) {
    chosen.push_back(std::move(settings));
  }
  return chosen;
}

std::string find_index(const std::vector<std::string>& files) {
  const auto found = std::find_if(files.begin(), files.end(), [](const std::string& path) {
    return path.substr(path.rfind('/') + 1) == kIndex;
  });
  return found == files.end() ? "" : *found;
}

Result<std::vector<std::string>> choose_shards(const RepoTree& tree, const std::string& folder,
                                               std::string_view index_text) {
  const nlohmann::json index = nlohmann::json::parse(index_text, nullptr, false);
  const bool has_map = index.is_object() && index.contains("weight_map") &&
                       index.at("weight_map").is_object() && !index.at("weight_map").empty();
  if (!has_map) {
    return Error{ErrorCode::kDataLoss, in_folder(folder, kIndex) + " has no weight_map", ""};
  }
  std::set<std::string> shards;
  for (const nlohmann::json& file : index.at("weight_map")) {
    const std::string path =
        in_folder(folder, file.is_string() ? file.get<std::string>() : file.dump());
    if (!tree.contains(path)) {
      return Error{
          ErrorCode::kDataLoss,
          in_folder(folder, kIndex) + " names " + path + ", which is not in the repository",
          "name another revision"};
    }
    shards.insert(path);
  }
  return std::vector<std::string>(shards.begin(), shards.end());
}

}  // namespace lockstep::runtime
