#include "runtime/checkpoint/disk.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "runtime/common/system_error.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;
using common::Result;
using common::system_error;

class RealDisk final : public Disk {
 public:
  Result<std::unique_ptr<DiskFile>> open(const std::string& path, OpenMode mode) override {
    const int create = mode == OpenMode::kCreate ? O_CREAT | O_TRUNC : 0;
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | create, 0644);
    if (descriptor < 0) return system_error("open for writing", path, errno);
    return std::make_unique<DiskFile>(descriptor, path);
  }

  Result<void> write_at(DiskFile& file, int64_t offset_bytes,
                        std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = ::pwrite(file.descriptor(), bytes.data(), bytes.size(), offset_bytes);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return system_error("write", file.path(), errno);
      offset_bytes += written;
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    return {};
  }

  Result<void> sync_file(DiskFile& file) override {
    if (::fsync(file.descriptor()) != 0) return system_error("sync", file.path(), errno);
    return {};
  }

  Result<void> sync_folder(const std::string& path) override {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return system_error("open folder", path, errno);
    const int number = ::fsync(descriptor) == 0 ? 0 : errno;
    ::close(descriptor);
    // EINVAL: this file system keeps folders safe without being asked, or cannot.
    if (number != 0 && number != EINVAL) return system_error("sync folder", path, number);
    return {};
  }

  Result<void> make_folder(const std::string& path) override {
    std::error_code error;
    fs::create_directories(path, error);
    if (error) return system_error("create folder", path, error.value());
    return {};
  }

  Result<void> rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) {
      return system_error("rename " + from + " to", to, errno);
    }
    return {};
  }

  Result<void> remove_tree(const std::string& path) override {
    std::error_code error;
    fs::remove_all(path, error);
    if (error) return system_error("remove", path, error.value());
    return {};
  }
};

}  // namespace

DiskFile::DiskFile(int descriptor, std::string path)
    : descriptor_(descriptor), path_(std::move(path)) {}

DiskFile::~DiskFile() {
  ::close(descriptor_);
}

std::unique_ptr<Disk> real_disk() {
  return std::make_unique<RealDisk>();
}

Result<void> replace_file(Disk& disk, const std::string& folder, const std::string& name,
                          std::string_view contents) {
  const std::string temporary = folder + "/." + name + ".partial";
  ASSIGN_OR_RETURN(const std::unique_ptr<DiskFile> file, disk.open(temporary, OpenMode::kCreate));
  RETURN_IF_ERROR(
      disk.write_at(*file, 0, std::as_bytes(std::span(contents.data(), contents.size()))));
  RETURN_IF_ERROR(disk.sync_file(*file));
  RETURN_IF_ERROR(disk.rename(temporary, folder + "/" + name));
  return disk.sync_folder(folder);
}

}  // namespace lockstep::runtime
