// Exit codes of lockstep-runtime: the typed verdict of one rank, read by the operator and the
// local executor. One table; nothing else in the project knows a number.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::common {

enum class ExitCode : int {
  kSucceeded = 0,
  kInternal = 70,           // our mistake
  kInvalidConfig = 78,      // the job's configuration cannot be honoured
  kInputNotFound = 66,      // a data or model path does not exist or cannot be read
  kInputUnavailable = 69,   // an input on the hub cannot be fetched for now
  kInvalidData = 65,        // the input exists but cannot be trained on (empty corpus, ...)
  kOutputUnwritable = 73,   // the output folder cannot be created or written, or the disk is full
  kOutputFinished = 80,     // the output already holds a finished run
  kOutputNotShared = 81,    // ranks of a job do not see the same output folder
  kCheckpointDamaged = 74,  // every checkpoint is damaged
  kPortInUse = 71,          // a port this rank must listen on is taken
  kRendezvousTimeout = 72,  // the ranks never met
  kCollectiveTimeout = 82,  // a peer is alive but did not arrive in time
  kPeerLost = 83,           // another rank went away; never the cause
  kNonFinite = 84,          // loss or gradient is not finite
  kOutOfMemory = 77,        // memory of the host or of a GPU is used up
  kPreempted = 85,          // asked to stop by SIGTERM; a checkpoint was saved if a step was done
  kNoDevice = 86,           // no GPU or driver, or not enough of either
};

struct ExitCodeInfo {
  ExitCode code;
  std::string_view reason;  // CamelCase, e.g. "PeerLost"
  bool retryable;           // restarting the gang may help
  bool charged;             // a restart for it is taken from the restart budget
};

// All codes, in ascending order of number.
const std::vector<ExitCodeInfo>& exit_codes();
// The entry of a process's exit status; nothing for a number that is not ours.
std::optional<ExitCodeInfo> find_exit_code(int status);
std::string_view reason_of(ExitCode code);

// The termination message: one JSON line of at most 2 KiB.
struct TerminationMessage {
  int rank = 0;
  long long step = 0;   // last finished step
  std::string reason;   // as in ExitCodeInfo
  std::string message;  // what happened
  std::string hint;     // what to do
};
std::string encode(const TerminationMessage& message);
// Nothing if `line` is not such a message (a user's own program may write anything).
std::optional<TerminationMessage> decode_termination_message(std::string_view line);

}  // namespace lockstep::common
