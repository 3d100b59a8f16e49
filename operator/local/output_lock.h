// One run at a time in an output folder of this machine.
#pragma once

#include <memory>
#include <string>

#include "runtime/common/result.h"

namespace lockstep::local {

// Held from construction to destruction, and given back by the system if the process dies.
class OutputLock {
 public:
  // Makes the folder if needed and locks it. Errors: kAlreadyExists if another run holds it,
  // kPermissionDenied if the folder cannot be made or written.
  static common::Result<std::unique_ptr<OutputLock>> take(const std::string& output);
  ~OutputLock();
  OutputLock(const OutputLock&) = delete;
  OutputLock& operator=(const OutputLock&) = delete;

 private:
  explicit OutputLock(int fd) : fd_(fd) {}
  const int fd_;
};

// Whether a run holds `output`. Only looks: a lock that is taken to try it would turn away a run
// that starts at that moment.
bool is_at_work(const std::string& output);

// The device of a mount in /proc/self/mountinfo, whose text this is, as /proc/locks writes it;
// empty if it is not there. Pure. What stat() says of the device is another for some file systems
// (btrfs, overlays). Source: show_mountinfo() and lock_get_status() in Linux, both of the super
// block.
std::string device_of_mount(const std::string& mountinfo, unsigned long long mount_id);

// Whether /proc/locks, whose text this is, has a flock on `inode` of `device`; of any device if
// that is empty. Pure.
bool is_flocked(const std::string& proc_locks, const std::string& device, unsigned long inode);

}  // namespace lockstep::local
