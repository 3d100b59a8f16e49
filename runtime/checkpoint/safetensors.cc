#include "runtime/checkpoint/safetensors.h"

#include <bit>
#include <cassert>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "runtime/common/system_error.h"

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;
using nlohmann::ordered_json;

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr int64_t kAlignmentBytes = 8;

// Checks that the tensors of one unit follow each other from 0 to its end, each as large as its
// shape.
Result<void> check_unit(const UnitLayout& unit, std::set<std::string>& names) {
  int64_t next_elem = 0;
  for (const TensorLayout& tensor : unit.tensors) {
    int64_t num_elems = 1;
    for (const int64_t extent : tensor.shape) num_elems *= extent;
    if (tensor.begin_elem != next_elem || tensor.num_elems != num_elems) {
      return Error{ErrorCode::kInvalidArgument,
                   "tensor " + tensor.name + " has " + std::to_string(tensor.num_elems) +
                       " elements from " + std::to_string(tensor.begin_elem) +
                       " on; its shape and place ask for " + std::to_string(num_elems) + " from " +
                       std::to_string(next_elem),
                   ""};
    }
    if (tensor.name == "__metadata__" || !names.insert(tensor.name).second) {
      return Error{ErrorCode::kInvalidArgument, "tensor name used twice: " + tensor.name, ""};
    }
    next_elem += num_elems;
  }
  if (next_elem != unit.num_elems) {
    return Error{ErrorCode::kInvalidArgument,
                 "a unit has " + std::to_string(unit.num_elems) + " elements, its tensors " +
                     std::to_string(next_elem),
                 ""};
  }
  return {};
}

std::string length_field(uint64_t length) {
  std::string field;
  for (std::size_t byte = 0; byte < kLengthFieldBytes; ++byte) {
    field.push_back(static_cast<char>((length >> (8 * byte)) & 0xff));
  }
  return field;
}

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

std::string temporary_of(const std::string& path) {
  return folder_of(path) + "/." + std::filesystem::path(path).filename().string() + ".partial";
}

std::string_view name_of(common::DType dtype) {
  return dtype == common::DType::kFp32 ? "F32" : dtype == common::DType::kBf16 ? "BF16" : "F16";
}

}  // namespace

Result<SafetensorsPlan> plan_safetensors(std::span<const UnitLayout> units, common::DType dtype) {
  const int64_t elem_bytes = common::elem_bytes(dtype);
  ordered_json entries = {{"__metadata__", {{"format", "pt"}}}};
  std::set<std::string> names;
  std::vector<int64_t> unit_offsets;  // from the start of the data
  int64_t data_bytes = 0;
  for (const UnitLayout& unit : units) {
    RETURN_IF_ERROR(check_unit(unit, names));
    unit_offsets.push_back(data_bytes);
    for (const TensorLayout& tensor : unit.tensors) {
      const int64_t begin = data_bytes + tensor.begin_elem * elem_bytes;
      const int64_t end = begin + tensor.num_elems * elem_bytes;
      entries[tensor.name] = ordered_json{
          {"dtype", name_of(dtype)}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
    }
    data_bytes += unit.num_elems * elem_bytes;
  }
  std::string text = entries.dump();
  text.resize((text.size() + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes, ' ');
  SafetensorsPlan plan;
  plan.header = length_field(text.size()) + text;
  const auto header_bytes = static_cast<int64_t>(plan.header.size());
  for (const int64_t offset : unit_offsets)
    plan.unit_offsets_bytes.push_back(header_bytes + offset);
  plan.total_bytes = header_bytes + data_bytes;
  plan.elem_bytes = elem_bytes;
  return plan;
}

SafetensorsWriter::SafetensorsWriter(Disk& disk, std::string path, const SafetensorsPlan& plan,
                                     std::unique_ptr<DiskFile> file)
    : disk_(&disk),
      path_(std::move(path)),
      unit_offsets_bytes_(plan.unit_offsets_bytes),
      total_bytes_(plan.total_bytes),
      elem_bytes_(plan.elem_bytes),
      file_(std::move(file)) {}

Result<SafetensorsWriter> SafetensorsWriter::create(Disk& disk, const std::string& path,
                                                    const SafetensorsPlan& plan) {
  RETURN_IF_ERROR(disk.make_folder(folder_of(path)));
  ASSIGN_OR_RETURN(std::unique_ptr<DiskFile> file,
                   disk.open(temporary_of(path), OpenMode::kCreate));
  // One byte at the end gives the file its size; the ranks fill in the rest.
  if (plan.total_bytes > static_cast<int64_t>(plan.header.size())) {
    const std::byte zero{0};
    RETURN_IF_ERROR(disk.write_at(*file, plan.total_bytes - 1, std::span(&zero, 1)));
  }
  RETURN_IF_ERROR(
      disk.write_at(*file, 0, std::as_bytes(std::span(plan.header.data(), plan.header.size()))));
  return SafetensorsWriter(disk, path, plan, std::move(file));
}

Result<SafetensorsWriter> SafetensorsWriter::join(Disk& disk, const std::string& path,
                                                  const SafetensorsPlan& plan) {
  ASSIGN_OR_RETURN(std::unique_ptr<DiskFile> file,
                   disk.open(temporary_of(path), OpenMode::kExisting));
  return SafetensorsWriter(disk, path, plan, std::move(file));
}

Result<void> SafetensorsWriter::write_range(int64_t unit, int64_t begin_elem,
                                            std::span<const std::byte> elements) {
  assert(unit >= 0 && unit < static_cast<int64_t>(unit_offsets_bytes_.size()) && begin_elem >= 0);
  const int64_t offset_bytes =
      unit_offsets_bytes_[static_cast<std::size_t>(unit)] + begin_elem * elem_bytes_;
  assert(offset_bytes + static_cast<int64_t>(elements.size()) <= total_bytes_);
  return disk_->write_at(*file_, offset_bytes, elements);
}

Result<void> SafetensorsWriter::sync() {
  return disk_->sync_file(*file_);
}

Result<void> SafetensorsWriter::finish() {
  RETURN_IF_ERROR(sync());
  struct stat status = {};
  if (::fstat(file_->descriptor(), &status) != 0) {
    return common::system_error("stat", file_->path(), errno);
  }
  if (status.st_size != total_bytes_) {
    return Error{ErrorCode::kDataLoss,
                 file_->path() + " has " + std::to_string(status.st_size) + " bytes instead of " +
                     std::to_string(total_bytes_) + ": another process writes to it",
                 "run one job per output folder"};
  }
  RETURN_IF_ERROR(disk_->rename(file_->path(), path_));
  return disk_->sync_folder(folder_of(path_));
}

}  // namespace lockstep::runtime
