#include <array>
#include <string>
#include <vector>

#include "runtime/common/train_config.h"
#include "runtime/common/train_relations.h"

namespace lockstep::common {
namespace {

using nlohmann::json;

constexpr const char* kNeedsTalk = "needs task sft or distill";
constexpr const char* kChooseTalk = "set task: sft or distill";

void check_tokenizer(Relations& out) {
  const json* type = out.find("tokenizer/type");
  const json* path = out.find("tokenizer/path");
  if (type == nullptr || !type->is_string()) return;
  if (*type != "hf") {
    if (path != nullptr) {
      out.report(".tokenizer.path", "needs type hf, found " + type->dump(),
                 "set tokenizer.type: hf");
    }
    return;
  }
  if (path == nullptr && out.find("model/path") == nullptr) {
    out.report(".tokenizer.type", "hf needs tokenizer.path or model.path",
               "name a directory with a tokenizer.json");
  }
}

//   has_prompt: the task has one that stands before something.
void check_columns(Relations& out, bool is_talk, bool has_prompt) {
  const std::array<std::vector<const char*>, 3> kinds = {
      {{"messages"}, {"prompt", "completion"}, {"instruction", "input", "response"}}};
  std::string first;  // column of an earlier kind
  for (const auto& kind : kinds) {
    std::string found;
    for (const char* const name : kind) {
      if (out.find(std::string("data/columns/").append(name)) != nullptr) found = name;
    }
    if (found.empty()) continue;
    const std::string field = ".data.columns." + found;
    if (!is_talk && !(has_prompt && found == "prompt")) {
      out.report(field, kNeedsTalk, kChooseTalk);
      return;
    }
    if (!first.empty()) {
      out.report(field, "and columns." + first + " exclude each other",
                 "name messages, or prompt and completion, or instruction, input and response");
      return;
    }
    first = found;
  }
}

}  // namespace

void check_task(Relations& out) {
  check_tokenizer(out);
  const json* task = out.find("task");
  const bool is_talk = task != nullptr && learns_from_conversations(*task);
  const bool has_pairs = task != nullptr && learns_from_pairs(*task);
  check_columns(out, is_talk, is_talk || has_pairs);
  const json* format = out.find("data/format");
  if (!is_talk) {
    if (out.find("data/loss") != nullptr) {
      out.report(".data.loss", kNeedsTalk,
                 has_pairs ? "answers of pairs are learned from, and nothing else"
                           : "pretraining learns every token");
    }
    if (!has_pairs && format != nullptr && *format == "messages") {
      out.report(".data.format", std::string("messages ").append(kNeedsTalk), kChooseTalk);
    }
    if (!has_pairs) return;
  }
  const json* type = out.find("tokenizer/type");
  if (type != nullptr && *type == "bytes" && (format == nullptr || *format != "tokens")) {
    out.report(".tokenizer.type",
               "task " + task->get<std::string>() + " needs type hf, found \"bytes\"",
               "conversations become text by the chat template of a Hugging Face tokenizer");
  }
}

}  // namespace lockstep::common
