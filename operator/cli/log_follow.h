// What the ranks of a job print, as they print it, until the job has ended.
//
// Note [Following logs]
// One look decides: every few seconds the job and its pods are read, and what is not followed yet
// is, of the newest attempt or of the one that was asked for. Each pod has a thread that reads its
// log and puts lines into a box; one thread prints them. A stream that ends while its container
// runs on was cut, by a server that restarts or a minute of silence: the next look opens it again
// where it ended. The time stamps of the lines say where that was; they are not printed.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "operator/cli/cluster_verbs.h"

namespace lockstep::cli {

// Where in the log of a pod a reader is.
class LogPlace {
 public:
  // The text of a line that comes with its time stamp, if it comes after this place, which then is
  // behind it. A line without a time stamp is taken as it is.
  // False: it was read before, from an earlier stream.
  bool take(std::string_view line, std::string_view& text);
  // A new stream begins; it tells lines of the last second again.
  void reopen() { num_seen_now_ = 0; }
  // Time stamp of the last line; empty = none was read.
  const std::string& last() const { return last_; }

 private:
  std::string last_;
  int64_t num_at_last_ = 0;   // lines read with that time stamp
  int64_t num_seen_now_ = 0;  // of these, by the present stream
};

// The query of a stream: from `place` on; of a log that was never read the last `tail` lines, or
// all if that is negative.
std::string follow_query(const LogPlace& place, int64_t tail);

// Blocks until the job has ended and all has been printed: kOk if it succeeded, kFailed if it
// failed, kNoSuchJob if it is deleted. An API server that is away for a while is waited for.
//   look_again: how often the job is looked at.
int follow_logs(const LogsArguments& arguments, const Session& session,
                std::chrono::milliseconds look_again = std::chrono::seconds(2));

}  // namespace lockstep::cli
