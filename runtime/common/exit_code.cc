#include "runtime/common/exit_code.h"

#include <algorithm>
#include <cstddef>

#include <nlohmann/json.hpp>

namespace lockstep::common {
namespace {

constexpr std::size_t kMaxMessageBytes = 2048;

// Removes at least `excess` bytes from the end of `text`, at a UTF-8 boundary, and marks the cut.
void cut(std::string& text, std::size_t excess) {
  constexpr std::string_view kMark = "...";
  std::size_t size = text.size() - std::min(text.size(), excess + kMark.size());
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;
  text.resize(size);
  text += kMark;
}

std::string to_json_line(const TerminationMessage& message) {
  const nlohmann::ordered_json json = {{"rank", message.rank},
                                       {"step", message.step},
                                       {"reason", message.reason},
                                       {"message", message.message},
                                       {"hint", message.hint}};
  // A file name need not be UTF-8; a message about it must still be written.
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

const std::vector<ExitCodeInfo>& exit_codes() {
  static const std::vector<ExitCodeInfo> table = {
      {ExitCode::kSucceeded, "Succeeded", false, false},
      {ExitCode::kInvalidData, "InvalidData", false, true},
      {ExitCode::kInputNotFound, "InputNotFound", false, true},
      {ExitCode::kInputUnavailable, "InputUnavailable", true, true},
      {ExitCode::kInternal, "Internal", true, true},
      {ExitCode::kPortInUse, "PortInUse", true, true},
      {ExitCode::kRendezvousTimeout, "RendezvousTimeout", true, true},
      {ExitCode::kOutputUnwritable, "OutputUnwritable", false, true},
      {ExitCode::kCheckpointDamaged, "CheckpointDamaged", false, true},
      {ExitCode::kOutOfMemory, "OutOfMemory", true, true},
      {ExitCode::kInvalidConfig, "InvalidConfig", false, true},
      {ExitCode::kOutputFinished, "OutputFinished", false, true},
      {ExitCode::kOutputNotShared, "OutputNotShared", false, true},
      {ExitCode::kCollectiveTimeout, "CollectiveTimeout", true, true},
      {ExitCode::kPeerLost, "PeerLost", true, true},
      {ExitCode::kNonFinite, "NonFinite", false, true},
      {ExitCode::kPreempted, "Preempted", true, false},
      {ExitCode::kNoDevice, "NoDevice", false, true},
  };
  return table;
}

std::optional<ExitCodeInfo> find_exit_code(int status) {
  for (const ExitCodeInfo& info : exit_codes()) {
    if (static_cast<int>(info.code) == status) return info;
  }
  return std::nullopt;
}

std::string_view reason_of(ExitCode code) {
  const std::optional<ExitCodeInfo> info = find_exit_code(static_cast<int>(code));
  return info ? info->reason : "Unknown";
}

std::string encode(const TerminationMessage& message) {
  TerminationMessage shortened = message;
  std::string line = to_json_line(shortened);
  // The hint is short and tells what to do: it goes last.
  for (std::string* field : {&shortened.message, &shortened.hint, &shortened.reason}) {
    if (line.size() <= kMaxMessageBytes) break;
    cut(*field, line.size() - kMaxMessageBytes);
    line = to_json_line(shortened);
  }
  return line;
}

std::optional<TerminationMessage> decode_termination_message(std::string_view line) {
  const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  try {
    return TerminationMessage{.rank = json.at("rank").get<int>(),
                              .step = json.at("step").get<long long>(),
                              .reason = json.at("reason").get<std::string>(),
                              .message = json.at("message").get<std::string>(),
                              .hint = json.value("hint", "")};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;  // JSON, but of somebody else's program
  }
}

}  // namespace lockstep::common
