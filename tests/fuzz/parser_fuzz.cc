// libFuzzer's entry points: parser_fuzz --parser=NAME [libFuzzer's flags] FOLDER...
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tests/fuzz/parser_checks.h"

namespace {

const lockstep::fuzz::Parser* chosen = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  constexpr std::string_view kFlag = "--parser=";
  for (int i = 1; i < *argc; ++i) {
    const std::string_view flag = (*argv)[i];
    if (!flag.starts_with(kFlag)) continue;
    for (const lockstep::fuzz::Parser& parser : lockstep::fuzz::parsers()) {
      if (flag.substr(kFlag.size()) == parser.name) chosen = &parser;
    }
  }
  if (chosen != nullptr) return 0;
  std::fprintf(stderr, "usage: parser_fuzz --parser=NAME [FLAG...] FOLDER...; NAME is one of");
  for (const auto& parser : lockstep::fuzz::parsers()) {
    std::fprintf(stderr, " %s", parser.name.c_str());
  }
  std::fprintf(stderr, "\n");
  std::exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  chosen->check({reinterpret_cast<const char*>(data), size});
  return 0;
}
