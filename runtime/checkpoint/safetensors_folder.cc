#include "runtime/checkpoint/safetensors_folder.h"

#include <array>
#include <cstdio>
#include <filesystem>
#include <utility>

#include <nlohmann/json.hpp>

#include "runtime/checkpoint/crc32c.h"
#include "runtime/common/text_file.h"

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;
using nlohmann::json;

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";

// Which file holds a tensor, by the tensor's name.
using WeightMap = std::map<std::string, std::string>;

Error inconsistent(const std::string& path, const std::string& what) {
  return Error{ErrorCode::kDataLoss, path + ": " + what,
               "the directory may be incomplete: copy or export it again"};
}

bool is_there(const std::string& path) {
  std::error_code unseen;
  return std::filesystem::exists(path, unseen);
}

// The name of a file beside the index, not a way out of the folder.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == name.npos &&
         name.find('\0') == name.npos;
}

Result<WeightMap> read_index(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, common::read_text_file(path));
  const json index = json::parse(text, nullptr, false);
  if (!index.is_object()) return inconsistent(path, "it is not a JSON object");
  const auto weights = index.find("weight_map");
  if (weights == index.end() || !weights->is_object() || weights->empty()) {
    return inconsistent(path, "it has no weight_map");
  }
  WeightMap map;
  for (const auto& [tensor, file] : weights->items()) {
    if (!file.is_string() || !is_plain_name(file.get<std::string>())) {
      return inconsistent(
          path, "tensor " + tensor + " is in " + file.dump() + ", which is no file beside it");
    }
    map[tensor] = file.get<std::string>();
  }
  return map;
}

Error no_weights(const std::string& folder) {
  const bool has_pickles =
      is_there(folder + "/pytorch_model.bin") || is_there(folder + "/pytorch_model.bin.index.json");
  return Error{ErrorCode::kNotFound,
               folder + " holds neither " + kSingleFile + " nor " + kIndexFile,
               has_pickles ? "pytorch_model.bin is not read: save the model as safetensors"
                           : "name a Hugging Face directory, or set model.init: random"};
}

// Index and shards must tell the same, or one of them is from another model.
Result<void> compare(const std::string& index, const WeightMap& map,
                     const std::map<std::string, SafetensorsReader>& files) {
  for (const auto& [tensor, file] : map) {
    if (files.at(file).tensors().contains(tensor)) continue;
    return inconsistent(index,
                        "it says that tensor " + tensor + " is in " + file + ", which lacks it");
  }
  for (const auto& [name, file] : files) {
    for (const auto& [tensor, stored] : file.tensors()) {
      const auto found = map.find(tensor);
      if (found != map.end() && found->second == name) continue;
      return inconsistent(index, "it does not say that tensor " + tensor + " is in " + name);
    }
  }
  return {};
}

}  // namespace

SafetensorsFolder::SafetensorsFolder(std::map<std::string, SafetensorsReader> files)
    : files_(std::move(files)) {
  for (const auto& [name, file] : files_) {
    for (const auto& [tensor, stored] : file.tensors()) tensors_[tensor] = {&file, &stored};
  }
}

Result<SafetensorsFolder> SafetensorsFolder::open_file(const std::string& folder,
                                                       const std::string& name) {
  ASSIGN_OR_RETURN(SafetensorsReader file, SafetensorsReader::open(folder + "/" + name));
  std::map<std::string, SafetensorsReader> files;
  files.emplace(name, std::move(file));
  return SafetensorsFolder(std::move(files));
}

Result<SafetensorsFolder> SafetensorsFolder::open(const std::string& folder) {
  const std::string single = folder + "/" + kSingleFile;
  const std::string index = folder + "/" + kIndexFile;
  std::map<std::string, SafetensorsReader> files;
  if (is_there(single) || !is_there(index)) {
    if (!is_there(single)) return no_weights(folder);
    return open_file(folder, kSingleFile);
  }
  ASSIGN_OR_RETURN(const WeightMap map, read_index(index));
  for (const auto& [tensor, name] : map) {
    if (files.contains(name)) continue;
    Result<SafetensorsReader> file = SafetensorsReader::open(folder + "/" + name);
    if (!file) {
      Error error = file.error();
      if (error.code == ErrorCode::kNotFound) {
        error.message += ", which " + index + " names for tensor " + tensor;
        error.hint = "the directory is incomplete: copy it again";
      }
      return error;
    }
    files.emplace(name, std::move(file).value());
  }
  RETURN_IF_ERROR(compare(index, map, files));
  return SafetensorsFolder(std::move(files));
}

Result<std::string> SafetensorsFolder::fingerprint() const {
  uint32_t crc = 0;
  for (const auto& [name, file] : files_) {
    ASSIGN_OR_RETURN(const uint32_t own, file.fingerprint());
    crc = crc32c(std::as_bytes(std::span(&own, 1)), crc);
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "v1:%zu:%08x", files_.size(), crc);
  return std::string(text.data());
}

Result<std::string> SafetensorsFolder::stamp() const {
  std::string all;
  for (const auto& [name, file] : files_) {
    ASSIGN_OR_RETURN(const std::string own, file.stamp());
    all.append(name).append("@").append(own).append(";");
  }
  return all;
}

}  // namespace lockstep::runtime
