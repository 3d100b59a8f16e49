#include "operator/convert/flags.h"

#include <algorithm>
#include <utility>

#include "runtime/common/suggest.h"

namespace lockstep::convert {
namespace {

using nlohmann::json;

// "--nproc-per-node=4": nproc_per_node, and "4".
struct Flag {
  std::string name;
  std::optional<std::string> value;
};

Flag split_flag(const std::string& word) {
  Flag flag;
  flag.name = word.substr(std::min(word.find_first_not_of('-'), word.size()));
  if (const size_t equals = flag.name.find('='); equals != std::string::npos) {
    flag.value = flag.name.substr(equals + 1);
    flag.name.resize(equals);
  }
  std::replace(flag.name.begin(), flag.name.end(), '-', '_');
  return flag;
}

void put_flag(const std::string& word, const Flag& flag, json value, ParsedFlags& parsed) {
  if (parsed.document.value.contains(flag.name)) {
    parsed.problems.push_back({.path = word, .message = "is there twice", .hint = "remove one"});
    return;
  }
  parsed.document.value[flag.name] = std::move(value);
}

std::string unknown_flag(const Flag& flag, const std::vector<std::string>& known) {
  const std::optional<std::string> near = common::closest(flag.name, known);
  return near ? "unknown flag: did you mean --" + *near + "?" : "unknown flag";
}

}  // namespace

json flag_value(const std::string& word) {
  const common::ParsedText parsed = common::parse_documents(word);
  const bool is_scalar = parsed.problems.empty() && parsed.documents.size() == 1 &&
                         !parsed.documents.front().value.is_structured() &&
                         !parsed.documents.front().value.is_null();
  return is_scalar ? parsed.documents.front().value : json(word);
}

ParsedFlags parse_flags(const std::vector<std::string>& words,
                        const std::vector<std::string>& switches, const Table& table) {
  ParsedFlags parsed;
  parsed.document.value = json::object();
  std::vector<std::string> known = switches;
  known.reserve(switches.size() + table.size());
  for (const Row& row : table) known.push_back(row.key);
  size_t at = 0;
  for (; at < words.size() && words[at].starts_with('-') && words[at] != "-"; ++at) {
    if (words[at] == "--") {
      ++at;
      break;
    }
    const std::string& word = words[at];
    const Flag flag = split_flag(word);
    if (std::find(switches.begin(), switches.end(), flag.name) != switches.end()) {
      put_flag(word, flag, flag.value ? flag_value(*flag.value) : json(true), parsed);
    } else if (std::find(known.begin(), known.end(), flag.name) == known.end()) {
      parsed.problems.push_back({.path = word, .message = unknown_flag(flag, known)});
      break;
    } else if (flag.value) {
      put_flag(word, flag, flag_value(*flag.value), parsed);
    } else if (at + 1 < words.size()) {
      put_flag(word, flag, flag_value(words[++at]), parsed);
    } else {
      parsed.problems.push_back({.path = word, .message = "needs a value"});
    }
  }
  parsed.rest.assign(words.begin() + static_cast<std::ptrdiff_t>(std::min(at, words.size())),
                     words.end());
  return parsed;
}

ParsedFlags parse_open_flags(const std::vector<std::string>& words) {
  ParsedFlags parsed;
  parsed.document.value = json::object();
  for (size_t at = 0; at < words.size(); ++at) {
    const std::string& word = words[at];
    if (!word.starts_with("--")) {
      parsed.problems.push_back({.path = word, .message = "is no flag, and follows none"});
      continue;
    }
    const Flag flag = split_flag(word);
    if (flag.value) {
      put_flag(word, flag, flag_value(*flag.value), parsed);
    } else if (at + 1 < words.size() && !words[at + 1].starts_with("--")) {
      put_flag(word, flag, flag_value(words[++at]), parsed);
    } else {
      put_flag(word, flag, true, parsed);
    }
  }
  return parsed;
}

}  // namespace lockstep::convert
