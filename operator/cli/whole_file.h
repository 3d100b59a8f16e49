// Files that are there as a whole, or not at all.
#pragma once

#include <string>

#include "runtime/common/result.h"

namespace lockstep::cli {

enum class Existing { kReplace, kKeep };

// Writes `text` to `path`: beside it first, then by one rename or link, so a reader never sees half
// of it. Errors leave what was there: kAlreadyExists (of kKeep), kPermissionDenied.
common::Result<void> write_whole_file(const std::string& path, const std::string& text,
                                      Existing existing);

}  // namespace lockstep::cli
