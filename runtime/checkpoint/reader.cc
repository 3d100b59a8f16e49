#include "runtime/checkpoint/reader.h"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "runtime/checkpoint/crc32c.h"
#include "runtime/checkpoint/disk.h"
#include "runtime/checkpoint/layout.h"
#include "runtime/common/system_error.h"
#include "runtime/common/text_file.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;
using common::Error;
using common::ErrorCode;
using common::Result;

Error damaged(const std::string& path, int64_t offset_bytes, const std::string& what) {
  return Error{
      ErrorCode::kDataLoss,
      "shard " + path + " is damaged at byte " + std::to_string(offset_bytes) + ": " + what, ""};
}

// Fills `bytes` from `offset_bytes` of the file.
Result<void> read_at(const DiskFile& file, int64_t offset_bytes, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t num_read = ::pread(file.descriptor(), bytes.data(), bytes.size(), offset_bytes);
    if (num_read < 0 && errno == EINTR) continue;
    if (num_read < 0) return common::system_error("read", file.path(), errno);
    if (num_read == 0) return damaged(file.path(), offset_bytes, "the file ends here");
    offset_bytes += num_read;
    bytes = bytes.subspan(static_cast<std::size_t>(num_read));
  }
  return {};
}

// Fills `out` from byte `begin_bytes` of the piece on, block by verified block.
Result<void> read_piece(const DiskFile& file, const Piece& piece, int64_t begin_bytes,
                        std::span<std::byte> out) {
  const int64_t end_bytes = begin_bytes + static_cast<int64_t>(out.size());
  std::vector<std::byte> buffer;
  for (int64_t block = begin_bytes / kChecksumBlockBytes; block * kChecksumBlockBytes < end_bytes;
       ++block) {
    const int64_t block_begin = block * kChecksumBlockBytes;
    const int64_t block_end = std::min(block_begin + kChecksumBlockBytes, piece_bytes(piece));
    buffer.resize(static_cast<std::size_t>(block_end - block_begin));
    const int64_t offset_bytes = piece.offset_bytes + block_begin;
    RETURN_IF_ERROR(read_at(file, offset_bytes, buffer));
    if (crc32c(buffer) != piece.block_crc32c[static_cast<std::size_t>(block)]) {
      return damaged(file.path(), offset_bytes, "checksum mismatch in this block");
    }
    const int64_t from = std::max(begin_bytes, block_begin);
    const int64_t to = std::min(end_bytes, block_end);
    std::memcpy(out.data() + (from - begin_bytes), buffer.data() + (from - block_begin),
                static_cast<std::size_t>(to - from));
  }
  return {};
}

Result<std::unique_ptr<DiskFile>> open_shard(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    const Error error = common::system_error("open", path, errno);
    // A shard that its manifest names but that is gone is a damaged checkpoint.
    if (error.code != ErrorCode::kNotFound) return error;
    return Error{ErrorCode::kDataLoss, error.message, ""};
  }
  return std::make_unique<DiskFile>(descriptor, path);
}

}  // namespace

Result<std::vector<FoundCheckpoint>> find_checkpoints(const std::string& output) {
  const std::string parent = checkpoints_folder(output);
  std::vector<FoundCheckpoint> found;
  std::error_code error;
  for (fs::directory_iterator entry(parent, error); entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::optional<int64_t> step = parse_step_name(entry->path().filename().string());
    if (!step) continue;
    const fs::path manifest = entry->path() / kManifestName;
    std::error_code unseen;
    const bool is_complete = fs::exists(manifest, unseen);
    if (unseen) return common::system_error("look at", manifest.string(), unseen.value());
    if (is_complete) found.push_back({*step, entry->path().string()});
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return common::system_error("list", parent, error.value());
  }
  std::sort(found.begin(), found.end(),
            [](const FoundCheckpoint& a, const FoundCheckpoint& b) { return a.step > b.step; });
  return found;
}

CheckpointReader::CheckpointReader(std::string folder, Manifest manifest)
    : folder_(std::move(folder)), manifest_(std::move(manifest)) {}

Result<CheckpointReader> CheckpointReader::open(const std::string& folder) {
  const std::string path = folder + "/" + std::string(kManifestName);
  ASSIGN_OR_RETURN(const std::string text, common::read_text_file(path));
  ASSIGN_OR_RETURN(Manifest manifest, decode_manifest(text, path));
  RETURN_IF_ERROR(check_file_sizes(folder, manifest));
  return CheckpointReader(folder, std::move(manifest));
}

Result<void> CheckpointReader::read_slice(int64_t unit, PieceKind kind, int64_t begin_elem,
                                          std::span<float> values) const {
  const int64_t end_elem = begin_elem + static_cast<int64_t>(values.size());
  assert(unit >= 0 && unit < static_cast<int64_t>(manifest_.units.size()));
  assert(begin_elem >= 0 && end_elem <= manifest_.units[static_cast<std::size_t>(unit)].num_elems);
  for (const Piece& piece : manifest_.pieces) {
    if (piece.unit != unit || piece.kind != kind) continue;
    const int64_t from = std::max(begin_elem, piece.begin_elem);
    const int64_t to = std::min(end_elem, piece.begin_elem + piece.num_elems);
    if (from >= to) continue;
    ASSIGN_OR_RETURN(const std::unique_ptr<DiskFile> file, open_shard(folder_ + "/" + piece.file));
    const std::span<float> part = values.subspan(static_cast<std::size_t>(from - begin_elem),
                                                 static_cast<std::size_t>(to - from));
    const int64_t begin_bytes = (from - piece.begin_elem) * static_cast<int64_t>(sizeof(float));
    RETURN_IF_ERROR(read_piece(*file, piece, begin_bytes, std::as_writable_bytes(part)));
  }
  return {};
}

Result<OpenedCheckpoint> open_newest(const std::string& output, int64_t before_step) {
  ASSIGN_OR_RETURN(const std::vector<FoundCheckpoint> found, find_checkpoints(output));
  std::vector<SkippedCheckpoint> skipped;
  for (const FoundCheckpoint& checkpoint : found) {
    if (checkpoint.step >= before_step) continue;
    Result<CheckpointReader> reader = CheckpointReader::open(checkpoint.folder);
    if (reader) return OpenedCheckpoint{std::move(reader).value(), std::move(skipped)};
    if (reader.error().code != ErrorCode::kDataLoss) return reader.error();
    skipped.push_back({checkpoint, reader.error()});
  }
  if (skipped.empty()) {
    return Error{ErrorCode::kNotFound, "no checkpoint in " + checkpoints_folder(output), ""};
  }
  std::string reasons;
  for (const SkippedCheckpoint& checkpoint : skipped) {
    reasons += "; " + step_name(checkpoint.checkpoint.step) + ": " + checkpoint.reason.message;
  }
  return Error{ErrorCode::kDataLoss,
               "every checkpoint in " + checkpoints_folder(output) + " is damaged" + reasons,
               "restore a checkpoint from a backup, or train afresh into an empty output folder"};
}

}  // namespace lockstep::runtime
