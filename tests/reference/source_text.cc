#include "tests/reference/source_text.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "tests/support/paths.h"

namespace lockstep::reference {
namespace {

namespace fs = std::filesystem;

bool is_source(const fs::path& path) {
  return path.extension() == ".cc" || path.extension() == ".h";
}

// Lines of nothing but a comment, and comments behind code, where no literal holds two slashes.
std::string without_comments(const std::string& text) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t slashes = line.find("//");
    const bool is_comment =
        slashes != std::string::npos &&
        std::count(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(slashes), '"') % 2 == 0;
    out += is_comment ? line.substr(0, slashes) : line;
    out += '\n';
  }
  return out;
}

}  // namespace

std::string read_source(const std::string& path) {
  std::ifstream file(fs::path(support::kSourceTree) / path);
  if (!file) throw std::runtime_error("there is no " + path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string read_sources(const std::vector<std::string>& folders) {
  const fs::path root = support::kSourceTree;
  std::vector<std::string> paths;
  for (const std::string& folder : folders) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / folder)) {
      if (entry.is_regular_file() && is_source(entry.path())) {
        paths.push_back(fs::relative(entry.path(), root).string());
      }
    }
  }
  std::sort(paths.begin(), paths.end());
  std::string text;
  for (const std::string& path : paths) text += without_comments(read_source(path)) + "\n";
  return text;
}

std::vector<std::string> literals_of(const std::string& source) {
  std::vector<std::string> literals;
  bool is_adjacent = false;  // nothing but blanks since the last literal
  for (std::size_t at = 0; at < source.size(); ++at) {
    const char c = source[at];
    if (c == '\'') {  // a character, perhaps a quote; or a separator of digits
      const std::size_t end = source.find('\'', at + (source.compare(at, 3, "'\\'") == 0 ? 3 : 2));
      if (end != std::string::npos && end - at <= 3) at = end;
    }
    if (c != '"') {
      is_adjacent = is_adjacent && (c == ' ' || c == '\n');
      continue;
    }
    std::string text;
    for (++at; at < source.size() && source[at] != '"'; ++at) {
      if (source[at] == '\\' && at + 1 < source.size()) ++at;
      text += source[at];
    }
    if (is_adjacent) {
      literals.back() += text;
    } else {
      literals.push_back(std::move(text));
    }
    is_adjacent = true;
  }
  return literals;
}

std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|' || c == '<') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

}  // namespace lockstep::reference
