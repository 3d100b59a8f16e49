#include "operator/machine/proc_text.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>

namespace lockstep::machine {
namespace {

// Those that kernels or libraries of ours choose by, as /proc/cpuinfo writes them.
constexpr std::array<std::string_view, 14> kInstructionSets = {
    "sse4_2",   "avx",      "fma",         "f16c",        "avx2",        "avx512f",  "avx512bw",
    "avx512dq", "avx512vl", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16"};

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\"");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\"\r") - begin + 1);
}

// Value of the first line "KEY<separator>VALUE"; empty without one.
std::string value_of(const std::string& text, std::string_view key, char separator) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find(separator);
    if (at != std::string::npos && trimmed(line.substr(0, at)) == key) {
      return trimmed(line.substr(at + 1));
    }
  }
  return "";
}

int64_t kibibytes_of(const std::string& text, std::string_view key) {
  std::istringstream value(value_of(text, key, ':'));
  int64_t kibibytes = 0;
  value >> kibibytes;
  return kibibytes * 1024;
}

}  // namespace

CpuFacts parse_cpuinfo(const std::string& text) {
  CpuFacts cpu;
  cpu.model = value_of(text, "model name", ':');
  std::istringstream flags(value_of(text, "flags", ':'));
  std::vector<std::string> all;
  for (std::string flag; flags >> flag;) all.push_back(flag);
  for (const std::string_view set : kInstructionSets) {
    if (std::find(all.begin(), all.end(), set) != all.end()) cpu.instruction_sets.emplace_back(set);
  }
  return cpu;
}

int64_t count_list(const std::string& text) {
  int64_t count = 0;
  std::istringstream list(text);
  for (std::string part; std::getline(list, part, ',');) {
    int64_t first = 0;
    int64_t last = 0;
    std::istringstream range(part);
    if (!(range >> first)) return 0;
    char dash = 0;
    if (!(range >> dash >> last)) last = first;
    count += last - first + 1;
  }
  return count;
}

MemoryFacts parse_meminfo(const std::string& text) {
  return {.total_bytes = kibibytes_of(text, "MemTotal"),
          .available_bytes = kibibytes_of(text, "MemAvailable")};
}

std::string parse_os_release(const std::string& text) {
  return value_of(text, "PRETTY_NAME", '=');
}

std::string parse_nvidia_version(const std::string& text) {
  // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 ...": the first number
  // with a point.
  std::istringstream words(value_of(text, "NVRM version", ':'));
  for (std::string word; words >> word;) {
    const bool is_number = std::all_of(word.begin(), word.end(),
                                       [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
    if (is_number && word.find('.') != std::string::npos) return word;
  }
  return "";
}

}  // namespace lockstep::machine
