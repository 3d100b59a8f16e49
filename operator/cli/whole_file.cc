#include "operator/cli/whole_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <unistd.h>

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

// Gives the file `beside` its name; 0, or errno.
int publish(const std::string& beside, const std::string& path, Existing existing) {
  if (existing == Existing::kReplace) return rename(beside.c_str(), path.c_str()) == 0 ? 0 : errno;
  return link(beside.c_str(), path.c_str()) == 0 ? 0 : errno;  // never over what is there
}

}  // namespace

common::Result<void> write_whole_file(const std::string& path, const std::string& text,
                                      Existing existing) {
  const std::string beside = path + ".new." + std::to_string(getpid());
  errno = 0;
  std::ofstream out(beside, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  const int failure = out ? publish(beside, path, existing) : errno;
  const bool is_there = out && failure == EEXIST;
  std::error_code ignored;
  fs::remove(beside, ignored);
  if (out && failure == 0) return {};
  if (is_there) {
    return common::Error{common::ErrorCode::kAlreadyExists, path + " is there already",
                         "name another file, or replace it with --overwrite"};
  }
  return common::Error{common::ErrorCode::kPermissionDenied,
                       "cannot write " + path + ": " + std::strerror(failure), "name another file"};
}

}  // namespace lockstep::cli
