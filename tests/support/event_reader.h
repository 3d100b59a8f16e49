// Reads TensorBoard's event files without any code of ours that writes them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lockstep::support {

struct Event {
  double wall_seconds = 0;
  int64_t step = 0;
  std::string file_version;
  bool is_session_start = false;
  std::map<std::string, float> scalars;
};

// All events of the files in `folder`, in the order of their names. Throws std::runtime_error if a
// record is torn, a checksum is wrong or a field is not what tensorboard's protos say.
std::vector<Event> read_events(const std::string& folder);

// What TensorBoard shows of `tag`: later steps are dropped where a session starts anew.
std::map<int64_t, float> shown_scalars(const std::vector<Event>& events, const std::string& tag);

}  // namespace lockstep::support
