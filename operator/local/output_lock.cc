#include "operator/local/output_lock.h"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

namespace lockstep::local {

using common::Error;
using common::ErrorCode;

namespace {

Error cannot_write(const std::string& output, const std::string& why) {
  return {ErrorCode::kPermissionDenied, "cannot write " + output + ": " + why,
          "choose another --output"};
}

}  // namespace

common::Result<std::unique_ptr<OutputLock>> OutputLock::take(const std::string& output) {
  std::error_code made;
  std::filesystem::create_directories(output, made);
  if (made) return cannot_write(output, made.message());
  const int fd = open((output + "/.lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644);
  if (fd < 0) return cannot_write(output, std::strerror(errno));
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return std::unique_ptr<OutputLock>(new OutputLock(fd));
  close(fd);
  return Error{ErrorCode::kAlreadyExists, "another run is at work in " + output,
               "wait for it, or choose another --output"};
}

OutputLock::~OutputLock() {
  close(fd_);
}

}  // namespace lockstep::local
