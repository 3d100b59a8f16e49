// A whole file mapped read-only: its pages are loaded when touched and never counted as ours.
#pragma once

#include <cerrno>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/common/result.h"
#include "runtime/common/system_error.h"

namespace lockstep::common {

// Move-only owner of the mapping. A file that shrinks while mapped kills its readers (SIGBUS):
// inputs must not be cut while a job runs.
class MappedFile {
 public:
  // Maps `path`; an empty file gives empty bytes. Errors name the path.
  static Result<MappedFile> open(const std::string& path) {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return system_error("open", path, errno);
    struct stat status = {};
    if (::fstat(descriptor, &status) != 0) {
      const int number = errno;
      ::close(descriptor);
      return system_error("stat", path, number);
    }
    const auto num_bytes = static_cast<std::size_t>(status.st_size);
    void* address = nullptr;
    int number = 0;
    if (num_bytes > 0) {
      address = ::mmap(nullptr, num_bytes, PROT_READ, MAP_SHARED, descriptor, 0);
      number = address == MAP_FAILED ? errno : 0;
    }
    ::close(descriptor);
    if (number != 0) return system_error("map", path, number);
    return MappedFile(static_cast<const std::byte*>(address), num_bytes);
  }

  MappedFile(MappedFile&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        num_bytes_(std::exchange(other.num_bytes_, 0)) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(num_bytes_, other.num_bytes_);
    return *this;
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile() {
    if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), num_bytes_);
  }

  std::span<const std::byte> bytes() const { return {data_, num_bytes_}; }

 private:
  MappedFile(const std::byte* data, std::size_t num_bytes) : data_(data), num_bytes_(num_bytes) {}

  const std::byte* data_ = nullptr;
  std::size_t num_bytes_ = 0;
};

}  // namespace lockstep::common
