#include "operator/local/output_lock.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <sstream>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/common/text_file.h"

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

std::string device_of_mount(const std::string& mountinfo, unsigned long long mount_id) {
  // "36 35 254:1 / /mnt rw,noatime ..."
  std::istringstream lines(mountinfo);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    unsigned long long id = 0, parent = 0;
    unsigned major = 0, minor = 0;
    char colon = 0;
    if (!(words >> id >> parent >> major >> colon >> minor) || id != mount_id) continue;
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%02x:%02x", major, minor);
    return text.data();
  }
  return "";
}

bool is_flocked(const std::string& proc_locks, const std::string& device, unsigned long inode) {
  // "1: FLOCK  ADVISORY  WRITE 4711 fe:01:131090 0 EOF"
  std::istringstream lines(proc_locks);
  const std::string place = ":" + std::to_string(inode);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string number, kind, way, access, holder, file;
    words >> number >> kind >> way >> access >> holder >> file;
    if (kind != "FLOCK" || !file.ends_with(place)) continue;
    if (device.empty() || file == device + place) return true;
  }
  return false;
}

bool is_at_work(const std::string& output) {
  struct statx status = {};
  if (statx(AT_FDCWD, (output + "/.lock").c_str(), 0, STATX_INO | STATX_MNT_ID, &status) != 0) {
    return false;
  }
  const bool knows_mount = (status.stx_mask & STATX_MNT_ID) != 0;  // since Linux 5.8
  const common::Result<std::string> mounts = common::read_text_file("/proc/self/mountinfo");
  const std::string device =
      knows_mount && mounts ? device_of_mount(*mounts, status.stx_mnt_id) : "";
  const common::Result<std::string> locks = common::read_text_file("/proc/locks");
  return locks && is_flocked(*locks, device, status.stx_ino);
}

}  // namespace lockstep::local
