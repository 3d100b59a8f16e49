#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/checkpoint/crc32c.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/common/system_error.h"

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;
using nlohmann::json;

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit
constexpr int64_t kEdgeBytes = 4096;               // of the data, for a fingerprint

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

// Where in the file the tensors lie.
struct DataRange {
  int64_t begin_bytes = 0, end_bytes = 0;
};

// Reads one entry; throws json::exception where a field is missing or has another type.
Result<StoredTensor> parse_tensor(const std::string& path, const std::string& name,
                                  const json& entry, const DataRange& data) {
  StoredTensor tensor;
  entry.at("dtype").get_to(tensor.dtype);
  uint64_t num_bytes = bytes_of_elem(tensor.dtype);
  if (num_bytes == 0) return unsound(path, name + " has the unknown type " + tensor.dtype);
  for (const json& extent : entry.at("shape")) {
    if (!extent.is_number_unsigned()) return unsound(path, name + " has a bad shape");
    const auto value = extent.get<uint64_t>();
    if (__builtin_mul_overflow(num_bytes, value, &num_bytes) || value > INT64_MAX) {
      return unsound(path, name + " is impossibly large");
    }
    tensor.shape.push_back(static_cast<int64_t>(value));
  }
  const json& offsets = entry.at("data_offsets");
  if (offsets.size() != 2 || !offsets.at(0).is_number_unsigned() ||
      !offsets.at(1).is_number_unsigned()) {
    return unsound(path, name + " has bad offsets");
  }
  const auto begin = offsets.at(0).get<uint64_t>();
  const auto end = offsets.at(1).get<uint64_t>();
  const auto data_bytes = static_cast<uint64_t>(data.end_bytes - data.begin_bytes);
  if (begin > end || end > data_bytes || end - begin != num_bytes) {
    return unsound(path, name + " at bytes " + std::to_string(begin) + " to " +
                             std::to_string(end) + " does not fit its shape and the " +
                             std::to_string(data_bytes) + " bytes of data");
  }
  tensor.begin_bytes = data.begin_bytes + static_cast<int64_t>(begin);
  tensor.num_bytes = static_cast<int64_t>(num_bytes);
  return tensor;
}

// The format has neither gaps nor overlaps, so a file that was cut or grew is noticed.
Result<void> check_tiling(const std::string& path,
                          const std::map<std::string, StoredTensor>& tensors,
                          const DataRange& data) {
  std::vector<std::pair<int64_t, int64_t>> ranges;
  ranges.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) {
    ranges.emplace_back(tensor.begin_bytes, tensor.num_bytes);
  }
  std::sort(ranges.begin(), ranges.end());
  int64_t next = data.begin_bytes;
  for (const auto& [begin_bytes, num_bytes] : ranges) {
    if (begin_bytes != next) return unsound(path, "its tensors overlap or leave a gap");
    next += num_bytes;
  }
  if (next != data.end_bytes) return unsound(path, "bytes follow its last tensor");
  return {};
}

Result<std::map<std::string, StoredTensor>> parse_tensors(const std::string& path,
                                                          const std::string& text,
                                                          const DataRange& data) {
  const json header = json::parse(text, nullptr, false);
  if (!header.is_object()) return unsound(path, "its header is not a JSON object");
  std::map<std::string, StoredTensor> tensors;
  try {
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") continue;
      ASSIGN_OR_RETURN(StoredTensor tensor, parse_tensor(path, name, entry, data));
      tensors.emplace(name, std::move(tensor));
    }
  } catch (const json::exception& failure) {
    return unsound(path, failure.what());
  }
  RETURN_IF_ERROR(check_tiling(path, tensors, data));
  return tensors;
}

}  // namespace

SafetensorsReader::SafetensorsReader(std::unique_ptr<DiskFile> file, std::string header,
                                     int64_t file_bytes)
    : file_(std::move(file)), header_(std::move(header)), file_bytes_(file_bytes) {}

Result<SafetensorsReader> SafetensorsReader::open(const std::string& path) {
  // A pipe would wait for its writer.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return common::system_error("open", path, errno);
  auto file = std::make_unique<DiskFile>(descriptor, path);
  struct stat status = {};
  if (::fstat(descriptor, &status) != 0) return common::system_error("stat", path, errno);
  if (!S_ISREG(status.st_mode)) return unsound(path, "it is no regular file");
  const int64_t field_bytes{kLengthFieldBytes};
  if (status.st_size < field_bytes) return unsound(path, "it has fewer than 8 bytes");
  SafetensorsReader reader(std::move(file), "", status.st_size);
  uint64_t length = 0;
  RETURN_IF_ERROR(reader.read_at(0, std::as_writable_bytes(std::span(&length, 1))));
  if (length > kMaxHeaderBytes || length > static_cast<uint64_t>(status.st_size - field_bytes)) {
    return unsound(path, "its header of " + std::to_string(length) + " bytes exceeds the file");
  }
  reader.header_.resize(length);
  RETURN_IF_ERROR(reader.read_at(field_bytes, std::as_writable_bytes(std::span(reader.header_))));
  const DataRange data = {field_bytes + static_cast<int64_t>(length), status.st_size};
  ASSIGN_OR_RETURN(reader.tensors_, parse_tensors(path, reader.header_, data));
  return reader;
}

Result<void> SafetensorsReader::read_at(int64_t offset_bytes, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t num_read = ::pread(file_->descriptor(), out.data(), out.size(), offset_bytes);
    if (num_read < 0 && errno == EINTR) continue;
    if (num_read < 0) return common::system_error("read", path(), errno);
    if (num_read == 0) {
      return unsound(path(), "it ends at byte " + std::to_string(offset_bytes) +
                                 " and was longer when it was opened");
    }
    offset_bytes += num_read;
    out = out.subspan(static_cast<std::size_t>(num_read));
  }
  return {};
}

Result<void> SafetensorsReader::read(const StoredTensor& tensor, int64_t begin_bytes,
                                     std::span<std::byte> out) const {
  assert(begin_bytes >= 0 && begin_bytes + static_cast<int64_t>(out.size()) <= tensor.num_bytes);
  return read_at(tensor.begin_bytes + begin_bytes, out);
}

Result<uint32_t> SafetensorsReader::fingerprint() const {
  const std::string size = std::to_string(file_bytes_);
  uint32_t crc = crc32c(std::as_bytes(std::span(header_)));
  crc = crc32c(std::as_bytes(std::span(size)), crc);
  const int64_t begin = static_cast<int64_t>(kLengthFieldBytes + header_.size());
  const int64_t edge = std::min(kEdgeBytes, file_bytes_ - begin);
  std::vector<std::byte> bytes(static_cast<std::size_t>(edge));
  for (const int64_t offset : {begin, file_bytes_ - edge}) {
    RETURN_IF_ERROR(read_at(offset, bytes));
    crc = crc32c(bytes, crc);
  }
  return crc;
}

Result<std::string> SafetensorsReader::stamp() const {
  struct stat status = {};
  if (::fstat(file_->descriptor(), &status) != 0) {
    return common::system_error("stat", path(), errno);
  }
  return std::to_string(status.st_size) + ":" + std::to_string(status.st_mtim.tv_sec) + "." +
         std::to_string(status.st_mtim.tv_nsec);
}

}  // namespace lockstep::runtime
