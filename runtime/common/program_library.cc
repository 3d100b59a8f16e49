#include "runtime/common/program_library.h"

#include <filesystem>
#include <system_error>

#include <dlfcn.h>

namespace lockstep::common {
namespace {

// The path of library `name` in the folder of the running program; empty if it is not there.
std::string beside_program(const std::string& name) {
  std::error_code unknown;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", unknown);
  const auto beside = program.parent_path() / name;
  return !unknown && std::filesystem::exists(beside, unknown) ? beside.string() : "";
}

}  // namespace

Result<void*> load_program_library(const std::string& name, const char* version_symbol,
                                   const std::string& version) {
  const std::string beside = beside_program(name);
  void* const library =
      dlopen(beside.empty() ? name.c_str() : beside.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return Error{ErrorCode::kUnavailable, dlerror(), ""};
  const auto tell = reinterpret_cast<const char* (*)()>(dlsym(library, version_symbol));
  const std::string told = tell == nullptr ? "unknown" : tell();
  if (told == version) return library;
  return Error{ErrorCode::kUnavailable,
               name + " is of version " + told + ", this program is " + version, ""};
}

}  // namespace lockstep::common
