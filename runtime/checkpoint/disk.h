// The seam to the file system for everything that must survive a crash: tests fail or stop at any
// call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "runtime/common/result.h"

namespace lockstep::runtime {

// An open file. Closed by the destructor, whose outcome does not matter: what must last is synced
// before.
class DiskFile {
 public:
  DiskFile(int descriptor, std::string path);
  ~DiskFile();
  DiskFile(const DiskFile&) = delete;
  DiskFile& operator=(const DiskFile&) = delete;

  int descriptor() const { return descriptor_; }
  const std::string& path() const { return path_; }

 private:
  int descriptor_;
  std::string path_;
};

enum class OpenMode {
  kCreate,    // new, or emptied if it exists
  kExisting,  // must exist; contents are kept
};

// Every error names the path and the system's reason.
class Disk {
 public:
  virtual ~Disk() = default;

  virtual common::Result<std::unique_ptr<DiskFile>> open(const std::string& path,
                                                         OpenMode mode) = 0;
  // Writes all of `bytes` at `offset_bytes`, or fails.
  virtual common::Result<void> write_at(DiskFile& file, int64_t offset_bytes,
                                        std::span<const std::byte> bytes) = 0;
  // Returns when file contents, or a folder's entries, are on stable storage.
  virtual common::Result<void> sync_file(DiskFile& file) = 0;
  virtual common::Result<void> sync_folder(const std::string& path) = 0;
  // Creates the folder and missing parents; fine if it exists.
  virtual common::Result<void> make_folder(const std::string& path) = 0;
  // Atomic. A file replaces a file; a folder never replaces a folder that holds something:
  // kAlreadyExists.
  virtual common::Result<void> rename(const std::string& from, const std::string& to) = 0;
  // Removes a file, or a folder with all below; fine if it does not exist.
  virtual common::Result<void> remove_tree(const std::string& path) = 0;
};

std::unique_ptr<Disk> real_disk();

// Replaces `folder`/`name` as a whole: readers and crashes see the old contents or the new, synced.
common::Result<void> replace_file(Disk& disk, const std::string& folder, const std::string& name,
                                  std::string_view contents);

}  // namespace lockstep::runtime
