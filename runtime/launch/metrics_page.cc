#include "runtime/launch/metrics_page.h"

#include <cstddef>
#include <map>
#include <sstream>
#include <string_view>

namespace lockstep::launch {
namespace {

struct Family {
  std::vector<std::string> comments;  // HELP, then TYPE
  std::string samples;
};

// The name in "# HELP name text" and "# TYPE name type"; empty for any other line.
std::string family_of(const std::string& line) {
  std::istringstream words(line);
  std::string hash;
  std::string kind;
  std::string name;
  if (!(words >> hash >> kind >> name) || hash != "#") return "";
  return kind == "HELP" || kind == "TYPE" ? name : "";
}

}  // namespace

std::string join_pages(const std::vector<std::string>& pages) {
  std::vector<Family> families;
  std::map<std::string, std::size_t> index;
  for (std::size_t page = 0; page < pages.size(); ++page) {
    std::istringstream lines(pages[page]);
    std::size_t current = index.try_emplace("", families.size()).first->second;
    std::map<std::size_t, bool> began_here;
    if (current == families.size()) families.emplace_back();
    for (std::string line; std::getline(lines, line);) {
      const std::string name = family_of(line);
      if (!name.empty()) {
        current = index.try_emplace(name, families.size()).first->second;
        if (current == families.size()) {
          families.emplace_back();
          began_here[current] = true;
        }
        if (began_here[current]) families[current].comments.push_back(line);
      } else if (!line.empty() && line.front() != '#') {
        families[current].samples += line + "\n";
      }
    }
  }
  std::string joined;
  for (const Family& family : families) {
    for (const std::string& comment : family.comments) joined += comment + "\n";
    joined += family.samples;
  }
  return joined;
}

}  // namespace lockstep::launch
