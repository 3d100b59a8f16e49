// What our tokenizers and chat templates make of what Transformers is given too:
//   text_dump tokenizer FOLDER STRINGS_JSON OUT_JSON      for each string ids, places and texts
//   text_dump template FOLDER REQUESTS_JSON OUT_JSON      for each {"variables", "now"} text and
//   mask
#include <cstdio>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "runtime/text/assistant_mask.h"
#include "runtime/text/tokenizer_folder.h"

namespace lockstep::runtime {
namespace {

using nlohmann::ordered_json;

template <typename T>
T take(common::Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(result).value();
}

ordered_json read_json(const std::string& path) {
  std::ifstream file(path);
  return ordered_json::parse(file);
}

ordered_json encoded(const HfTokenizer& tokenizer, const std::string& text) {
  const Encoding plain = take(tokenizer.encode(text, false));
  const Encoding special = take(tokenizer.encode(text, true));
  ordered_json offsets = ordered_json::array();
  for (const TextSpan& span : special.offsets) offsets.push_back({span.begin, span.end});
  return {{"ids", plain.ids},
          {"special_ids", special.ids},
          {"offsets", offsets},
          {"decoded", take(tokenizer.decode(special.ids, false))},
          {"decoded_plain", take(tokenizer.decode(special.ids, true))}};
}

ordered_json rendered(const ChatTemplate& chat, const HfTokenizer& tokenizer,
                      const ordered_json& request) {
  const std::chrono::system_clock::time_point now{
      std::chrono::seconds(request.at("now").get<int64_t>())};
  const auto rendering = chat.render(request.at("variables"), now);
  if (!rendering) return {{"error", rendering.error().message}};
  const Encoding encoding = take(tokenizer.encode(rendering->text, false));
  const std::vector<bool> mask = assistant_mask(encoding, rendering->generated);
  return {{"text", rendering->text}, {"mask", std::vector<int>(mask.begin(), mask.end())}};
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() != 4) throw std::runtime_error("usage: text_dump VERB FOLDER IN OUT");
  const TokenizerFolder files = take(read_tokenizer_folder(arguments[1]));
  const HfTokenizer tokenizer = take(open_tokenizer(files));
  ordered_json out = ordered_json::array();
  const ordered_json in = read_json(arguments[2]);
  if (arguments[0] == "template") {
    const ChatTemplate chat = take(open_chat_template(files));
    for (const ordered_json& request : in) out.push_back(rendered(chat, tokenizer, request));
  } else {
    for (const ordered_json& text : in) out.push_back(encoded(tokenizer, text.get<std::string>()));
  }
  std::ofstream(arguments[3]) << out.dump();
  return 0;
}

}  // namespace
}  // namespace lockstep::runtime

int main(int argc, char** argv) {
  try {
    return lockstep::runtime::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "text_dump: %s\n", error.what());
    return 1;
  }
}
