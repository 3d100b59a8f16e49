#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "runtime/checkpoint/safetensors.h"

namespace lockstep::runtime {
namespace {

using common::DType;
using common::elem_bytes;
using common::Error;
using common::ErrorCode;
using common::Result;
using nlohmann::json;

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit

Error unsound(const std::string& path, const std::string& what) {
  return Error{ErrorCode::kDataLoss, path + " is not a sound safetensors file: " + what,
               "the file may be incomplete: copy or export it again"};
}

// Bytes of one element; 0 for a type that we do not know.
uint64_t bytes_of_elem(const std::string& dtype) {
  static const std::map<std::string, uint64_t> sizes = {
      {"F64", 8}, {"I64", 8}, {"U64", 8},  {"F32", 4},     {"I32", 4},
      {"U32", 4}, {"F16", 2}, {"BF16", 2}, {"I16", 2},     {"U16", 2},
      {"I8", 1},  {"U8", 1},  {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}};
  const auto found = sizes.find(dtype);
  return found == sizes.end() ? 0 : found->second;
}

std::optional<DType> dtype_named(const std::string& name) {
  if (name == "F32") return DType::kFp32;
  if (name == "BF16") return DType::kBf16;
  if (name == "F16") return DType::kFp16;
  return std::nullopt;
}

// The header's text; `data` becomes what follows it.
Result<json> parse_header(const std::string& path, std::span<const std::byte>& data) {
  if (data.size() < kLengthFieldBytes) return unsound(path, "it has fewer than 8 bytes");
  uint64_t length = 0;
  std::memcpy(&length, data.data(), kLengthFieldBytes);
  data = data.subspan(kLengthFieldBytes);
  if (length > kMaxHeaderBytes || length > data.size()) {
    return unsound(path, "its header of " + std::to_string(length) + " bytes exceeds the file");
  }
  const char* text = reinterpret_cast<const char*>(data.data());
  json header = json::parse(text, text + length, nullptr, false);
  if (!header.is_object()) return unsound(path, "its header is not a JSON object");
  data = data.subspan(length);
  return header;
}

// Reads one entry; throws json::exception where a field is missing or has another type.
Result<TensorView> parse_tensor(const std::string& path, const std::string& name, const json& entry,
                                std::span<const std::byte> data) {
  TensorView view;
  entry.at("dtype").get_to(view.dtype);
  uint64_t num_bytes = bytes_of_elem(view.dtype);
  if (num_bytes == 0) return unsound(path, name + " has the unknown type " + view.dtype);
  for (const json& extent : entry.at("shape")) {
    if (!extent.is_number_unsigned()) return unsound(path, name + " has a bad shape");
    const auto value = extent.get<uint64_t>();
    if (__builtin_mul_overflow(num_bytes, value, &num_bytes) || value > INT64_MAX) {
      return unsound(path, name + " is impossibly large");
    }
    view.shape.push_back(static_cast<int64_t>(value));
  }
  const json& offsets = entry.at("data_offsets");
  if (offsets.size() != 2 || !offsets.at(0).is_number_unsigned() ||
      !offsets.at(1).is_number_unsigned()) {
    return unsound(path, name + " has bad offsets");
  }
  const auto begin = offsets.at(0).get<uint64_t>();
  const auto end = offsets.at(1).get<uint64_t>();
  if (begin > end || end > data.size() || end - begin != num_bytes) {
    return unsound(path, name + " at bytes " + std::to_string(begin) + " to " +
                             std::to_string(end) + " does not fit its shape and the " +
                             std::to_string(data.size()) + " bytes of data");
  }
  view.bytes = data.subspan(begin, num_bytes);
  return view;
}

// The format has neither gaps nor overlaps, so a file that was cut or grew is noticed.
Result<void> check_tiling(const std::string& path, const std::map<std::string, TensorView>& tensors,
                          std::span<const std::byte> data) {
  std::vector<std::span<const std::byte>> ranges;
  ranges.reserve(tensors.size());
  for (const auto& [name, view] : tensors) ranges.push_back(view.bytes);
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) {
    return std::pair(a.data(), a.size()) < std::pair(b.data(), b.size());
  });
  const std::byte* next = data.data();
  for (const std::span<const std::byte> range : ranges) {
    if (range.data() != next) return unsound(path, "its tensors overlap or leave a gap");
    next += range.size();
  }
  if (next != data.data() + data.size()) return unsound(path, "bytes follow its last tensor");
  return {};
}

}  // namespace

SafetensorsReader::SafetensorsReader(std::string path, common::MappedFile file)
    : path_(std::move(path)), file_(std::move(file)) {}

Result<SafetensorsReader> SafetensorsReader::open(const std::string& path) {
  ASSIGN_OR_RETURN(common::MappedFile file, common::MappedFile::open(path));
  SafetensorsReader reader(path, std::move(file));
  std::span<const std::byte> data = reader.file_.bytes();
  ASSIGN_OR_RETURN(const json header, parse_header(path, data));
  try {
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") continue;
      ASSIGN_OR_RETURN(TensorView view, parse_tensor(path, name, entry, data));
      reader.tensors_.emplace(name, std::move(view));
    }
  } catch (const json::exception& failure) {
    return unsound(path, failure.what());
  }
  RETURN_IF_ERROR(check_tiling(path, reader.tensors_, data));
  return reader;
}

Result<StoredTensor> SafetensorsReader::stored(const std::string& name, int64_t num_elems) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    return Error{ErrorCode::kNotFound, path_ + " has no tensor " + name, ""};
  }
  const TensorView& view = found->second;
  const std::optional<DType> dtype = dtype_named(view.dtype);
  if (!dtype || view.bytes.size() != static_cast<std::size_t>(num_elems * elem_bytes(*dtype))) {
    return Error{ErrorCode::kInvalidArgument,
                 "tensor " + name + " of " + path_ + " has type " + view.dtype + " and " +
                     std::to_string(view.bytes.size()) + " bytes; expected " +
                     std::to_string(num_elems) + " elements of F32, BF16 or F16",
                 "does config.json belong to this file?"};
  }
  const auto alignment = static_cast<std::uintptr_t>(elem_bytes(*dtype));
  if (reinterpret_cast<std::uintptr_t>(view.bytes.data()) % alignment != 0) {
    return Error{ErrorCode::kInvalidArgument, "tensor " + name + " of " + path_ + " is not aligned",
                 "save the file again with a current safetensors library"};
  }
  return StoredTensor{*dtype, view.bytes.data()};
}

}  // namespace lockstep::runtime
