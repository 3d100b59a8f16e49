#include "operator/convert/host_file.h"

#include <algorithm>
#include <sstream>

#include "operator/convert/draft.h"
#include "operator/convert/flags.h"

namespace lockstep::convert {

HostFile parse_host_file(const std::string& path, const std::string& text) {
  HostFile hosts;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line.erase(std::min(line.find('#'), line.size()));
    std::istringstream words(line);
    std::string host;
    std::string slots;
    std::string more;
    if (!(words >> host)) continue;
    words >> slots >> more;
    const std::optional<int64_t> count =
        slots.starts_with("slots=") ? whole(flag_value(slots.substr(6))) : std::nullopt;
    const bool twice = std::any_of(hosts.slots.begin(), hosts.slots.end(),
                                   [&host](const auto& known) { return known.first == host; });
    if (!count || *count < 1 || !more.empty() || twice) {
      hosts.problems.push_back(
          {.path = path,
           .line = number,
           .message = twice ? host + " is there twice" : "must be like \"host slots=4\""});
    } else {
      hosts.slots.emplace_back(host, *count);
    }
  }
  if (hosts.slots.empty() && hosts.problems.empty()) {
    hosts.problems.push_back({.path = path, .message = "names no host"});
  }
  return hosts;
}

}  // namespace lockstep::convert
