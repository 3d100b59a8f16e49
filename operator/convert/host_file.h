// DeepSpeed's host files: "node1 slots=4", a host a line.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "runtime/common/problem.h"

namespace lockstep::convert {

struct HostFile {
  std::vector<std::pair<std::string, int64_t>> slots;  // of each host, in order
  common::Problems problems;                           // with lines
};

// Reads the text of the host file at `path`. As DeepSpeed does, it refuses a line that is not of
// that form and a host that is there twice; what follows '#' is a comment.
// Source: deepspeed/launcher/runner.py, fetch_hostfile().
HostFile parse_host_file(const std::string& path, const std::string& text);

}  // namespace lockstep::convert
