#include "runtime/common/text_file.h"

#include <cerrno>
#include <cstddef>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "runtime/common/system_error.h"

namespace lockstep::common {
namespace {

constexpr std::size_t kReadBytes = 64 * 1024;

}  // namespace

Result<std::string> read_text_file(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return system_error("open", path, errno);
  std::string text;
  std::vector<char> buffer(kReadBytes);
  ssize_t count = 0;
  int number = 0;
  do {
    count = ::read(descriptor, buffer.data(), buffer.size());
    number = count < 0 ? errno : 0;
    if (count > 0) text.append(buffer.data(), static_cast<std::size_t>(count));
  } while (count > 0 || number == EINTR);
  ::close(descriptor);
  if (number != 0) return system_error("read", path, number);
  return text;
}

}  // namespace lockstep::common
