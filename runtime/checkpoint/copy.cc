#include "runtime/checkpoint/copy.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <system_error>
#include <vector>

#include "runtime/checkpoint/layout.h"

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;

constexpr int64_t kBufferBytes = 1024 * 1024;

Result<void> copy_file(Disk& disk, const std::string& from, const std::string& to) {
  std::ifstream in(from, std::ios::binary);
  if (!in) return Error{ErrorCode::kInternal, "cannot read " + from, ""};
  ASSIGN_OR_RETURN(const std::unique_ptr<DiskFile> file, disk.open(to, OpenMode::kCreate));
  std::vector<char> buffer(kBufferBytes);
  for (int64_t done = 0; in;) {
    in.read(buffer.data(), kBufferBytes);
    const std::span<const char> text(buffer.data(), static_cast<std::size_t>(in.gcount()));
    RETURN_IF_ERROR(disk.write_at(*file, done, std::as_bytes(text)));
    done += in.gcount();
  }
  if (!in.eof()) return Error{ErrorCode::kInternal, "cannot read " + from, ""};
  return disk.sync_file(*file);
}

}  // namespace

Result<void> copy_checkpoint(Disk& disk, const CheckpointReader& from, const std::string& output,
                             int64_t attempt) {
  const Manifest& manifest = from.manifest();
  const std::string parent = checkpoints_folder(output);
  const std::string target = parent + "/" + step_name(manifest.step);
  std::error_code error;
  if (std::filesystem::exists(target, error)) return {};
  const std::string gathered = parent + "/" + attempt_name(attempt, manifest.step);
  RETURN_IF_ERROR(disk.remove_tree(gathered));
  RETURN_IF_ERROR(disk.make_folder(gathered));
  std::set<std::string> files = {std::string(kManifestName)};
  for (const Piece& piece : manifest.pieces) files.insert(piece.file);
  for (const std::string& file : files) {
    RETURN_IF_ERROR(copy_file(disk, from.folder() + "/" + file, gathered + "/" + file));
  }
  RETURN_IF_ERROR(disk.sync_folder(gathered));
  RETURN_IF_ERROR(disk.rename(gathered, target));
  return disk.sync_folder(parent);
}

}  // namespace lockstep::runtime
