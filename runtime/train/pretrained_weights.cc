#include "runtime/train/pretrained_weights.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "runtime/common/peft_config.h"
#include "runtime/kernels/kernel_table.h"

namespace lockstep::runtime {
namespace {

using common::DType;
using common::Error;
using common::ErrorCode;
using common::Result;

constexpr std::size_t kPieceElems = std::size_t{1} << 20U;
constexpr const char* kHeadName = "lm_head.weight";
constexpr const char* kWhoseConfig = "does config.json belong to these weights?";
constexpr const char* kWhoseAdapter = "is it an adapter of this model, with these targets?";

std::string text_of(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (const int64_t size : shape) {
    text.append(text.size() > 1 ? ", " : "").append(std::to_string(size));
  }
  return text.append("]");
}

// The name in a directory that was saved without the head.
std::string without_first_part(const std::string& name) {
  for (const std::string_view part : {"model.", "transformer."}) {
    if (name.starts_with(part)) return name.substr(part.size());
  }
  return name;
}

bool is_computed(const std::string& name, std::string_view model_type) {
  if (name.ends_with(".rotary_emb.inv_freq")) return true;
  return model_type == "gpt2" && (name.ends_with(".attn.bias") || name.ends_with(".masked_bias"));
}

std::optional<DType> dtype_named(const std::string& name) {
  if (name == "F32") return DType::kFp32;
  if (name == "BF16") return DType::kBf16;
  if (name == "F16") return DType::kFp16;
  return std::nullopt;
}

Error wrong(const FolderTensor& tensor, const std::string& name, const std::string& what,
            const std::string& hint) {
  return Error{ErrorCode::kInvalidArgument, tensor.file->path() + ": tensor " + name + " " + what,
               hint};
}

Result<DType> check_stored(const FolderTensor& tensor, const std::string& name,
                           const std::vector<int64_t>& shape, const char* hint) {
  if (tensor.stored->shape != shape) {
    return wrong(
        tensor, name,
        "has shape " + text_of(tensor.stored->shape) + ", the model's has " + text_of(shape), hint);
  }
  const std::optional<DType> dtype = dtype_named(tensor.stored->dtype);
  if (dtype) return *dtype;
  return wrong(tensor, name, "has type " + tensor.stored->dtype + ", which is not read",
               "save the weights as F32, BF16 or F16");
}

}  // namespace

PretrainedWeights::PretrainedWeights(std::string path, SafetensorsFolder folder, const char* hint)
    : path_(std::move(path)), hint_(hint), folder_(std::move(folder)) {}

Result<PretrainedWeights> PretrainedWeights::open(const std::string& folder,
                                                  const common::ModelConfig& config,
                                                  std::span<const Unit> units) {
  ASSIGN_OR_RETURN(SafetensorsFolder files, SafetensorsFolder::open(folder));
  PretrainedWeights weights(folder, std::move(files), kWhoseConfig);
  RETURN_IF_ERROR(weights.find_sources(units));
  RETURN_IF_ERROR(weights.check_rest(config, units.front().tensors.front()));
  return weights;
}

Result<PretrainedWeights> PretrainedWeights::open_adapter(const std::string& folder,
                                                          std::span<const Unit> units) {
  ASSIGN_OR_RETURN(SafetensorsFolder files,
                   SafetensorsFolder::open_file(folder, common::kAdapterWeightsFile));
  PretrainedWeights weights(folder, std::move(files), kWhoseAdapter);
  RETURN_IF_ERROR(weights.find_sources(units));
  const std::set<std::string> used = weights.used_names();
  for (const auto& [name, tensor] : weights.folder_.tensors()) {
    if (!used.contains(name)) return wrong(tensor, name, "is none of the adapters'", kWhoseAdapter);
  }
  return weights;
}

Result<void> PretrainedWeights::find_sources(std::span<const Unit> units) {
  for (const Unit& unit : units) {
    std::vector<Source>& sources = units_.emplace_back();
    sources.reserve(unit.tensors.size());
    for (const UnitTensor& tensor : unit.tensors) {
      if (tensor.role == common::TensorRole::kScore && !folder_.tensors().contains(tensor.name)) {
        lacking_.insert(static_cast<int64_t>(units_.size()) - 1);
        continue;
      }
      ASSIGN_OR_RETURN(Source source, find_source(tensor));
      sources.push_back(std::move(source));
    }
  }
  return {};
}

std::set<std::string> PretrainedWeights::used_names() const {
  std::set<std::string> used;
  for (const std::vector<Source>& sources : units_) {
    for (const Source& source : sources) used.insert(source.name);
  }
  return used;
}

Result<PretrainedWeights::Source> PretrainedWeights::find_source(const UnitTensor& tensor) const {
  const auto& stored = folder_.tensors();
  auto found = stored.find(tensor.name);
  if (found == stored.end()) found = stored.find(without_first_part(tensor.name));
  if (found == stored.end()) {
    return Error{ErrorCode::kInvalidArgument, path_ + " has no tensor " + tensor.name, hint_};
  }
  ASSIGN_OR_RETURN(const DType dtype,
                   check_stored(found->second, found->first, tensor.shape, hint_));
  return Source{found->first, tensor.begin_elem, tensor.num_elems, dtype, found->second};
}

Result<void> PretrainedWeights::check_rest(const common::ModelConfig& config,
                                           const UnitTensor& embedding) {
  const std::set<std::string> used = used_names();
  for (const auto& [name, tensor] : folder_.tensors()) {
    if (used.contains(name) || is_computed(name, config.model_type)) continue;
    if (name == kHeadName && config.has_score) continue;
    if (name == kHeadName && config.tie_word_embeddings) {
      ASSIGN_OR_RETURN(const DType dtype, check_stored(tensor, name, embedding.shape, hint_));
      tied_head_ = Source{name, 0, embedding.num_elems, dtype, tensor};
      continue;
    }
    return wrong(tensor, name, "is none of the model's", kWhoseConfig);
  }
  return {};
}

bool PretrainedWeights::lacks_some(int64_t unit) const {
  return lacking_.contains(unit);
}

Result<void> PretrainedWeights::read_source(const Source& source, int64_t begin_elem,
                                            std::span<float> out) {
  const SafetensorsReader& file = *source.tensor.file;
  if (source.dtype == DType::kFp32) {
    return file.read(*source.tensor.stored, begin_elem * static_cast<int64_t>(sizeof(float)),
                     std::as_writable_bytes(out));
  }
  std::vector<uint16_t> piece(std::min(kPieceElems, out.size()));
  while (!out.empty()) {
    const std::span<uint16_t> halves = std::span(piece).first(std::min(piece.size(), out.size()));
    RETURN_IF_ERROR(file.read(*source.tensor.stored,
                              begin_elem * static_cast<int64_t>(sizeof(uint16_t)),
                              std::as_writable_bytes(halves)));
    const auto count = static_cast<int64_t>(halves.size());
    chosen_kernels().widen(count, {source.dtype, halves.data()}, out.data());
    begin_elem += count;
    out = out.subspan(halves.size());
  }
  return {};
}

Result<void> PretrainedWeights::compare_tied(int64_t begin_elem,
                                             std::span<const float> embedding) const {
  std::vector<float> head(std::min(kPieceElems / 2, embedding.size()));
  while (!embedding.empty()) {
    const std::span<float> piece = std::span(head).first(std::min(head.size(), embedding.size()));
    RETURN_IF_ERROR(read_source(*tied_head_, begin_elem, piece));
    if (std::memcmp(piece.data(), embedding.data(), piece.size_bytes()) != 0) {
      return wrong(tied_head_->tensor, kHeadName,
                   "differs from the embedding, but config.json ties them",
                   "set tie_word_embeddings to false in config.json, or remove the tensor");
    }
    begin_elem += static_cast<int64_t>(piece.size());
    embedding = embedding.subspan(piece.size());
  }
  return {};
}

Result<void> PretrainedWeights::read(int64_t unit, int64_t begin_elem, std::span<float> out) const {
  const std::vector<Source>& sources = units_.at(static_cast<std::size_t>(unit));
  const int64_t end_elem = begin_elem + static_cast<int64_t>(out.size());
  for (const Source& source : sources) {
    const int64_t begin = std::max(begin_elem, source.begin_elem);
    const int64_t end = std::min(end_elem, source.begin_elem + source.num_elems);
    if (begin >= end) continue;
    const std::span<float> part = out.subspan(static_cast<std::size_t>(begin - begin_elem),
                                              static_cast<std::size_t>(end - begin));
    RETURN_IF_ERROR(read_source(source, begin - source.begin_elem, part));
    const bool is_tied = tied_head_ && unit == 0 && &source == &sources.front();
    if (is_tied) RETURN_IF_ERROR(compare_tied(begin, part));
  }
  return {};
}

}  // namespace lockstep::runtime
