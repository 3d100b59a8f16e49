#include "runtime/common/exec_strings.h"

#include <unistd.h>

namespace lockstep::common {

std::vector<std::string> merged_environment(const std::map<std::string, std::string>& ours) {
  std::vector<std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!ours.contains(text.substr(0, text.find('=')))) merged.push_back(text);
  }
  for (const auto& [name, value] : ours) merged.push_back(name + "=" + value);
  return merged;
}

std::vector<char*> exec_pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const std::string& text : strings) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace lockstep::common
