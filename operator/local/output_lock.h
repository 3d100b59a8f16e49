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

}  // namespace lockstep::local
