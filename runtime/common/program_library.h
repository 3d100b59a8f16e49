// Libraries of our own that a program loads when it needs what they hold.
#pragma once

#include <string>

#include "runtime/common/result.h"

namespace lockstep::common {

// Loads library `name`, from the program's own folder, else as the loader finds it (the program's
// RUNPATH, LD_LIBRARY_PATH, the system's folders). It stays until the process ends; symbols stay
// local, since what it needs may have its own copies of libraries that the program uses.
//   version_symbol: names a `const char* (*)()` that must say `version`.
// Returns what dlsym() takes. Errors: kUnavailable, with the loader's words or the other version.
Result<void*> load_program_library(const std::string& name, const char* version_symbol,
                                   const std::string& version);

}  // namespace lockstep::common
