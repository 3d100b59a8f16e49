// The checksums by which the hub names contents.
#pragma once

#include <stop_token>
#include <string>

#include "runtime/common/result.h"

namespace lockstep::runtime {

enum class Digest {
  kSha256,   // of a file that git holds a pointer to
  kGitSha1,  // of git's object: "blob SIZE\0", then the contents
};

// The checksum of a file in hexadecimal digits, read piece by piece. kUnavailable once `stop` is
// requested; what the system says if it cannot be read.
common::Result<std::string> digest_of(const std::string& path, Digest digest,
                                      const std::stop_token& stop = {});

}  // namespace lockstep::runtime
