#include "runtime/checkpoint/copy.h"

#include <cerrno>
#include <set>
#include <span>

#include "runtime/checkpoint/layout.h"
#include "runtime/common/system_error.h"

namespace lockstep::runtime {
namespace {

using common::Result;

constexpr std::size_t kBufferBytes = std::size_t{1024} * 1024;

}  // namespace

CheckpointCopy::CheckpointCopy(Disk& disk, const CheckpointReader& from, const std::string& output,
                               int64_t attempt)
    : disk_(disk),
      from_(from.folder()),
      parent_(checkpoints_folder(output)),
      target_(parent_ + "/" + step_name(from.manifest().step)),
      gathered_(parent_ + "/" + attempt_name(attempt, from.manifest().step)),
      buffer_(kBufferBytes) {
  std::set<std::string> files = {std::string(kManifestName)};
  for (const Piece& piece : from.manifest().pieces) files.insert(piece.file);
  files_.assign(files.begin(), files.end());
}

Result<bool> CheckpointCopy::advance(std::chrono::milliseconds slice) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + slice;
  if (!is_begun_) RETURN_IF_ERROR(begin());
  do {
    RETURN_IF_ERROR(move_buffer());
  } while (num_done_ < files_.size() && Clock::now() < end);
  if (num_done_ == files_.size()) {
    RETURN_IF_ERROR(publish());
    return true;
  }
  if (out_ != nullptr) RETURN_IF_ERROR(disk_.sync_file(*out_));
  return false;
}

Result<void> CheckpointCopy::begin() {
  is_begun_ = true;
  RETURN_IF_ERROR(disk_.remove_tree(gathered_));
  return disk_.make_folder(gathered_);
}

// The next bytes of the file under way, or the first of the next one.
Result<void> CheckpointCopy::move_buffer() {
  const std::string& file = files_[num_done_];
  const std::string path = from_ + "/" + file;
  errno = 0;
  if (out_ == nullptr) {
    in_.clear();
    in_.open(path, std::ios::binary);
    if (!in_) return unreadable(path);
    ASSIGN_OR_RETURN(out_, disk_.open(gathered_ + "/" + file, OpenMode::kCreate));
    offset_bytes_ = 0;
  }
  in_.read(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
  if (in_.bad()) return unreadable(path);
  const std::span<const char> bytes(buffer_.data(), static_cast<std::size_t>(in_.gcount()));
  RETURN_IF_ERROR(disk_.write_at(*out_, offset_bytes_, std::as_bytes(bytes)));
  offset_bytes_ += in_.gcount();
  if (!in_.eof()) return {};
  RETURN_IF_ERROR(disk_.sync_file(*out_));
  out_.reset();
  in_.close();
  ++num_done_;
  return {};
}

Result<void> CheckpointCopy::publish() {
  RETURN_IF_ERROR(disk_.sync_folder(gathered_));
  RETURN_IF_ERROR(disk_.rename(gathered_, target_));
  return disk_.sync_folder(parent_);
}

common::Error CheckpointCopy::unreadable(const std::string& path) {
  const int number = errno;
  is_unreadable_ = true;
  return common::system_error("read", path, number == 0 ? EIO : number);
}

}  // namespace lockstep::runtime
