// Chat templates: from messages to the text that a model was trained on.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runtime/common/result.h"
#include "runtime/text/hf_tokenizer.h"

struct LockstepTemplate;  // rust/lockstep_text.h

namespace lockstep::runtime {

struct Rendering {
  std::string text;
  std::vector<TextSpan> generated;  // what stood in {% generation %}, in the order of their begins
};

// Jinja as Transformers has it: trim_blocks and lstrip_blocks, `tojson`, `strftime_now`,
// `raise_exception`, {% generation %}, {% break %}, methods of Python's str, list and dict. Const
// functions may be called from several threads.
class ChatTemplate {
 public:
  // `name`: of the file, for errors. kInvalidArgument naming the line for what is no template.
  static common::Result<ChatTemplate> open(std::string_view source, const std::string& name);

  // Whether the template says which text is the assistant's.
  bool marks_generation() const;

  // The text of `variables`, an object: `messages`, `tools`, `documents`, `add_generation_prompt`,
  // `bos_token` and what else a template asks for. Of `messages` keys that are null are left out,
  // and reasoning has all of its names, as Transformers does.
  //   now: of strftime_now, in local time.
  // kInvalidArgument naming the line, with the template's own words if it raises an exception.
  common::Result<Rendering> render(const nlohmann::ordered_json& variables,
                                   std::chrono::system_clock::time_point now) const;

 private:
  struct Close {
    void operator()(LockstepTemplate* chat_template) const;
  };
  ChatTemplate() = default;

  std::unique_ptr<LockstepTemplate, Close> template_;
  std::string name_;
};

}  // namespace lockstep::runtime
