// Files that are read as a whole.
#pragma once

#include <string>

#include "runtime/common/result.h"

namespace lockstep::common {

// The whole file as text. Errors are system_error()'s: kNotFound if it does not exist, never an
// empty text for what cannot be read.
Result<std::string> read_text_file(const std::string& path);

}  // namespace lockstep::common
