#include "runtime/text/chat_template.h"

#include <nlohmann/json.hpp>

#include "runtime/text/rust/lockstep_text.h"
#include "runtime/text/rust_text.h"

namespace lockstep::runtime {

using common::Result;

void ChatTemplate::Close::operator()(LockstepTemplate* chat_template) const {
  lockstep_template_close(chat_template);
}

Result<ChatTemplate> ChatTemplate::open(std::string_view source, const std::string& name) {
  LockstepTemplate* parsed = nullptr;
  LockstepBytes error{};
  if (!lockstep_template_open(rust_bytes(source), source.size(), &parsed, &error)) {
    return rust_error(name, error);
  }
  ChatTemplate opened;
  opened.template_.reset(parsed);
  opened.name_ = name;
  return opened;
}

bool ChatTemplate::marks_generation() const {
  return lockstep_template_marks_generation(template_.get());
}

Result<Rendering> ChatTemplate::render(const nlohmann::ordered_json& variables,
                                       std::chrono::system_clock::time_point now) const {
  const std::string text = variables.dump();
  const auto since_1970 =
      std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch());
  LockstepRendering rendered{};
  LockstepBytes error{};
  if (!lockstep_template_render(template_.get(), rust_bytes(text), text.size(), since_1970.count(),
                                &rendered, &error)) {
    return rust_error(name_, error);
  }
  Rendering rendering{
      .text = {reinterpret_cast<const char*>(rendered.text.data), rendered.text.size},
      .generated = rust_spans(rendered.spans)};
  lockstep_text_free_rendering(rendered);
  return rendering;
}

}  // namespace lockstep::runtime
