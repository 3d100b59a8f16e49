#include "runtime/checkpoint/writer.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <set>
#include <system_error>
#include <utility>

#include "runtime/checkpoint/cleanup.h"
#include "runtime/checkpoint/crc32c.h"
#include "runtime/checkpoint/layout.h"
#include "runtime/checkpoint/output_folder.h"
#include "runtime/common/system_error.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;
using common::Error;
using common::ErrorCode;
using common::Result;

static_assert(std::endian::native == std::endian::little, "shards hold little-endian floats");

std::vector<uint32_t> block_checksums(std::span<const std::byte> bytes) {
  std::vector<uint32_t> checksums;
  while (!bytes.empty()) {
    const std::size_t num_bytes =
        std::min(bytes.size(), static_cast<std::size_t>(kChecksumBlockBytes));
    checksums.push_back(crc32c(bytes.first(num_bytes)));
    bytes = bytes.subspan(num_bytes);
  }
  return checksums;
}

// Appends `values` at the end of `file`, whose length is in `offset_bytes`, and adds their piece.
Result<void> append(Disk& disk, DiskFile& file, int64_t& offset_bytes,
                    std::span<const float> values, Piece piece, std::vector<Piece>& pieces) {
  if (values.empty()) return {};
  const std::span<const std::byte> bytes = std::as_bytes(values);
  RETURN_IF_ERROR(disk.write_at(file, offset_bytes, bytes));
  piece.num_elems = static_cast<int64_t>(values.size());
  piece.offset_bytes = offset_bytes;
  piece.block_crc32c = block_checksums(bytes);
  offset_bytes += static_cast<int64_t>(bytes.size());
  pieces.push_back(std::move(piece));
  return {};
}

// Appends what the slice has, one kind after the other.
Result<void> append_slice(Disk& disk, DiskFile& file, const std::string& name,
                          const UnitSlice& slice, int64_t& offset_bytes,
                          std::vector<Piece>& pieces) {
  assert(slice.moment1.empty() || slice.weights.size() == slice.moment1.size());
  assert(slice.moment2.empty() || slice.weights.size() == slice.moment2.size());
  const auto add = [&](PieceKind kind, std::span<const float> values) {
    Piece piece;
    piece.unit = slice.unit;
    piece.kind = kind;
    piece.begin_elem = slice.begin_elem;
    piece.file = name;
    return append(disk, file, offset_bytes, values, std::move(piece), pieces);
  };
  RETURN_IF_ERROR(add(PieceKind::kWeights, slice.weights));
  RETURN_IF_ERROR(add(PieceKind::kMoment1, slice.moment1));
  return add(PieceKind::kMoment2, slice.moment2);
}

// Removes from `folder` what no piece names: shards of an earlier try with more ranks.
Result<void> remove_strangers(Disk& disk, const std::string& folder, const Manifest& manifest) {
  std::set<std::string> named;
  for (const Piece& piece : manifest.pieces) named.insert(piece.file);
  std::vector<std::string> strangers;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); entry != fs::directory_iterator();
       entry.increment(error)) {
    if (!named.contains(entry->path().filename().string())) {
      strangers.push_back(entry->path().string());
    }
  }
  if (error) return common::system_error("list", folder, error.value());
  for (const std::string& stranger : strangers) RETURN_IF_ERROR(disk.remove_tree(stranger));
  return {};
}

Result<void> write_manifest(Disk& disk, const std::string& folder, const Manifest& manifest) {
  const std::string text = encode(manifest);
  ASSIGN_OR_RETURN(const std::unique_ptr<DiskFile> file,
                   disk.open(folder + "/" + std::string(kManifestName), OpenMode::kCreate));
  RETURN_IF_ERROR(disk.write_at(*file, 0, std::as_bytes(std::span(text.data(), text.size()))));
  RETURN_IF_ERROR(disk.sync_file(*file));
  return disk.sync_folder(folder);
}

Error already_published(const std::string& folder) {
  return Error{ErrorCode::kAlreadyExists, folder + " exists: this step is published", ""};
}

}  // namespace

Result<std::vector<Piece>> write_shards(Disk& disk, const ShardTarget& target,
                                        const VisitSlices& visit) {
  const std::string folder =
      checkpoints_folder(target.output) + "/" + attempt_name(target.attempt, target.step);
  const std::string name = shard_name(target.rank);
  RETURN_IF_ERROR(disk.make_folder(folder));
  ASSIGN_OR_RETURN(const std::unique_ptr<DiskFile> file,
                   disk.open(folder + "/" + name, OpenMode::kCreate));
  std::vector<Piece> pieces;
  int64_t offset_bytes = 0;
  Result<void> appended;
  visit([&](const UnitSlice& slice) {
    if (appended) appended = append_slice(disk, *file, name, slice, offset_bytes, pieces);
  });
  if (!appended) return appended.error();
  RETURN_IF_ERROR(disk.sync_file(*file));
  RETURN_IF_ERROR(disk.sync_folder(folder));
  return pieces;
}

Result<std::vector<Piece>> write_shards(Disk& disk, const ShardTarget& target,
                                        std::span<const UnitSlice> slices) {
  return write_shards(disk, target, [slices](const UseSlice& use) {
    std::for_each(slices.begin(), slices.end(), use);
  });
}

Result<Published> publish(Disk& disk, const std::string& output, const std::string& run,
                          const Manifest& manifest, int64_t keep) {
  const std::string parent = checkpoints_folder(output);
  const std::string gathered = parent + "/" + attempt_name(manifest.attempt, manifest.step);
  const std::string published = parent + "/" + step_name(manifest.step);
  RETURN_IF_ERROR(check_pieces(manifest));
  std::error_code error;
  if (fs::exists(published, error)) return already_published(published);
  RETURN_IF_ERROR(check_file_sizes(gathered, manifest));
  RETURN_IF_ERROR(remove_strangers(disk, gathered, manifest));
  RETURN_IF_ERROR(write_manifest(disk, gathered, manifest));
  RETURN_IF_ERROR(check_fence(output, run, manifest.attempt));  // as late as can be
  if (const Result<void> renamed = disk.rename(gathered, published); !renamed) {
    if (renamed.error().code == ErrorCode::kAlreadyExists) return already_published(published);
    return renamed.error();
  }
  RETURN_IF_ERROR(disk.sync_folder(parent));
  RETURN_IF_ERROR(disk.sync_folder(output));

  Published result{.folder = published,
                   .warnings = prune_checkpoints(disk, output, manifest, keep)};
  for (std::string& failure : remove_leftovers(disk, output, manifest.attempt, manifest.step)) {
    result.warnings.push_back(std::move(failure));
  }
  return result;
}

Result<std::string> set_aside_checkpoint(Disk& disk, const std::string& output, int64_t step) {
  const std::string parent = checkpoints_folder(output);
  const std::string base = parent + "/damaged-" + step_name(step);
  std::string target = base;
  std::error_code error;
  for (int number = 2; fs::exists(target, error); ++number) {
    target = base + "-" + std::to_string(number);
  }
  RETURN_IF_ERROR(disk.rename(parent + "/" + step_name(step), target));
  RETURN_IF_ERROR(disk.sync_folder(parent));
  return target;
}

}  // namespace lockstep::runtime
