#include "runtime/offload/swap_file.h"

#include <cerrno>
#include <cstdlib>
#include <utility>

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "runtime/common/system_error.h"
#include "runtime/offload/checked_swap_file.h"

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using common::Result;
using common::system_error;

class DescriptorSwapFile final : public SwapFile {
 public:
  DescriptorSwapFile(int descriptor, std::string path)
      : descriptor_(descriptor), path_(std::move(path)) {}
  ~DescriptorSwapFile() override { ::close(descriptor_); }
  DescriptorSwapFile(const DescriptorSwapFile&) = delete;
  DescriptorSwapFile& operator=(const DescriptorSwapFile&) = delete;

  Result<void> read(int64_t offset_bytes, std::span<std::byte> into) override {
    while (!into.empty()) {
      const ssize_t moved = ::pread(descriptor_, into.data(), into.size(), offset_bytes);
      if (moved < 0 && errno == EINTR) continue;
      if (moved < 0) return system_error("read", path_, errno);
      if (moved == 0) {
        return Error{
            ErrorCode::kDataLoss,
            path_ + " ends before byte " + std::to_string(offset_bytes) + ": somebody has cut it"};
      }
      offset_bytes += moved;
      into = into.subspan(static_cast<std::size_t>(moved));
    }
    return {};
  }

  Result<void> write(int64_t offset_bytes, std::span<const std::byte> from) override {
    while (!from.empty()) {
      const ssize_t moved = ::pwrite(descriptor_, from.data(), from.size(), offset_bytes);
      if (moved < 0 && errno == EINTR) continue;
      if (moved < 0) return system_error("write", path_, errno);
      offset_bytes += moved;
      from = from.subspan(static_cast<std::size_t>(moved));
    }
    return {};
  }

 private:
  int descriptor_;
  std::string path_;
};

std::string mebibytes(int64_t bytes) {
  return std::to_string((bytes + (1 << 20) - 1) >> 20).append(" MiB");
}

Error too_small(const std::string& folder, int64_t num_bytes, int64_t free_bytes) {
  return {
      ErrorCode::kUnavailable,
      folder + " has " + mebibytes(free_bytes) + " free and this rank needs " +
          mebibytes(num_bytes),
      "free space there, use a larger volume or more ranks; `lockstep estimate` shows the need"};
}

int64_t free_bytes_of(const std::string& folder) {
  struct statvfs space = {};
  if (::statvfs(folder.c_str(), &space) != 0) return 0;
  return static_cast<int64_t>(space.f_bavail) * static_cast<int64_t>(space.f_frsize);
}

Result<void> reserve(int descriptor, const std::string& folder, int64_t num_bytes) {
  int number = EINTR;
  while (number == EINTR) number = ::posix_fallocate(descriptor, 0, num_bytes);
  if (number == ENOSPC) return too_small(folder, num_bytes, free_bytes_of(folder));
  if (number != 0) return system_error("reserve space in", folder, number);
  return {};
}

}  // namespace

std::unique_ptr<SwapFile> make_swap_file(int descriptor, std::string path) {
  return std::make_unique<DescriptorSwapFile>(descriptor, std::move(path));
}

Result<CreatedSwapFile> create_swap_file(const std::string& folder, int64_t num_bytes) {
  std::string path = folder + "/.lockstep-swap-XXXXXX";
  const int descriptor = ::mkostemp(path.data(), O_CLOEXEC);
  if (descriptor < 0) return system_error("create a file in", folder, errno);
  CreatedSwapFile created{.file = make_swap_file(descriptor, path)};
  if (::unlink(path.c_str()) != 0) return system_error("unlink", path, errno);
  // Before anything is reserved: a file system without room to spare shall not even be tried.
  const int64_t free_bytes = free_bytes_of(folder);
  if (free_bytes < num_bytes) return too_small(folder, num_bytes, free_bytes);
  RETURN_IF_ERROR(reserve(descriptor, folder, num_bytes));
  created.is_direct = ::fcntl(descriptor, F_SETFL, O_DIRECT) == 0;
  created.file = check_blocks(std::move(created.file), path, num_bytes);
  return created;
}

}  // namespace lockstep::runtime
