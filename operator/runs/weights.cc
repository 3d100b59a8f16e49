#include "operator/runs/weights.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <tuple>

#include <nlohmann/json.hpp>

namespace lockstep::runs {

namespace fs = std::filesystem;
using common::Error;
using common::ErrorCode;
using common::Result;
using nlohmann::json;

namespace {

constexpr int64_t kChunkBytes = int64_t{1} << 20;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own bound

struct Tensor {
  std::string file;
  json form;                    // [dtype, shape]
  int64_t begin = 0, size = 0;  // bytes in the file
};
using Tensors = std::map<std::string, Tensor>;

Error damaged(const std::string& path, const std::string& why) {
  return {ErrorCode::kDataLoss, path + ": " + why, "export the model again"};
}

// The tensor that `entry` of a header describes; its bytes lie in [data_begin, file_size).
Result<Tensor> read_entry(const std::string& path, const std::string& name, const json& entry,
                          int64_t data_begin, int64_t file_size) {
  const auto is_offset = [](const json& value) { return value.is_number_unsigned(); };
  if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") ||
      !entry.contains("data_offsets") || !entry["data_offsets"].is_array() ||
      entry["data_offsets"].size() != 2 || !is_offset(entry["data_offsets"][0]) ||
      !is_offset(entry["data_offsets"][1])) {
    return damaged(path, "the header's entry of " + name + " is malformed");
  }
  const auto begin = entry["data_offsets"][0].get<uint64_t>();
  const auto end = entry["data_offsets"][1].get<uint64_t>();
  if (begin > end || end > static_cast<uint64_t>(file_size - data_begin)) {
    return damaged(path, "the bytes of " + name + " are not all there");
  }
  return Tensor{.file = path,
                .form = json::array({entry["dtype"], entry["shape"]}),
                .begin = data_begin + static_cast<int64_t>(begin),
                .size = static_cast<int64_t>(end - begin)};
}

Result<void> add_file(const std::string& path, Tensors& tensors) {
  std::error_code error;
  const auto file_size = static_cast<int64_t>(fs::file_size(path, error));
  std::ifstream in(path, std::ios::binary);
  if (error || !in) return Error{ErrorCode::kInternal, path + ": cannot be read", ""};
  // Eight bytes, little-endian as every machine that we run on.
  uint64_t header_size = 0;
  in.read(reinterpret_cast<char*>(&header_size), sizeof header_size);
  const auto prefix = static_cast<int64_t>(sizeof header_size);
  if (!in || header_size > kMaxHeaderBytes ||
      static_cast<int64_t>(header_size) > file_size - prefix) {
    return damaged(path, "not a whole safetensors file");
  }
  std::string text(header_size, '\0');
  in.read(text.data(), static_cast<std::streamsize>(header_size));
  const json header = json::parse(text, nullptr, false);
  if (!in || !header.is_object()) return damaged(path, "its header is not a JSON object");
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    ASSIGN_OR_RETURN(
        tensors[name],
        read_entry(path, name, entry, prefix + static_cast<int64_t>(header_size), file_size));
  }
  return {};
}

Result<Tensors> list_tensors(const std::string& folder) {
  Tensors tensors;
  std::error_code error;
  bool found_any = false;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() != ".safetensors") continue;
    found_any = true;
    RETURN_IF_ERROR(add_file(entry->path().string(), tensors));
  }
  if (found_any) return tensors;
  return Error{ErrorCode::kNotFound, folder + " has no *.safetensors", ""};
}

Result<bool> same_bytes(const Tensor& a, const Tensor& b, std::string& chunk_a,
                        std::string& chunk_b) {
  std::ifstream in_a(a.file, std::ios::binary);
  std::ifstream in_b(b.file, std::ios::binary);
  in_a.seekg(a.begin);
  in_b.seekg(b.begin);
  for (int64_t left = a.size; left > 0;) {
    const int64_t size = std::min(left, kChunkBytes);
    for (const auto& [in, tensor, chunk] :
         {std::tuple(&in_a, &a, &chunk_a), std::tuple(&in_b, &b, &chunk_b)}) {
      if (!in->read(chunk->data(), size)) {
        return Error{ErrorCode::kInternal, tensor->file + ": cannot be read", ""};
      }
    }
    if (std::memcmp(chunk_a.data(), chunk_b.data(), static_cast<std::size_t>(size)) != 0) {
      return false;
    }
    left -= size;
  }
  return true;
}

}  // namespace

Result<WeightsComparison> compare_weights(const std::string& folder_a,
                                          const std::string& folder_b) {
  Tensors a, b;
  ASSIGN_OR_RETURN(a, list_tensors(folder_a));
  ASSIGN_OR_RETURN(b, list_tensors(folder_b));
  WeightsComparison comparison;
  std::string chunk_a(kChunkBytes, '\0'), chunk_b(kChunkBytes, '\0');
  for (const auto& [name, tensor] : a) {
    const auto other = b.find(name);
    if (other == b.end()) {
      comparison.only_a.push_back(name);
      continue;
    }
    ++comparison.num_tensors;
    if (tensor.form != other->second.form || tensor.size != other->second.size) {
      comparison.other_form.push_back(name);
      continue;
    }
    bool same = false;
    ASSIGN_OR_RETURN(same, same_bytes(tensor, other->second, chunk_a, chunk_b));
    if (!same) comparison.other_bits.push_back(name);
  }
  for (const auto& [name, tensor] : b) {
    if (!a.contains(name)) comparison.only_b.push_back(name);
  }
  return comparison;
}

}  // namespace lockstep::runs
