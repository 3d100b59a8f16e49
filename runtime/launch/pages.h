// The pages of a pod: those of its ranks, on one port.
#pragma once

#include <map>
#include <string>

#include "runtime/common/http_server.h"

namespace lockstep::launch {

// The ranks of the pod and where they can be asked.
struct PodRanks {
  int first_rank = 0;
  int num_ranks = 1;
  std::string host;    // that the ranks' pages listen on
  std::string folder;  // in which every rank writes port_file() once it listens
};

// The name of the file in which `rank` tells its port.
std::string port_file(const std::string& folder, int rank);

// /healthz: the launcher is there. /status and /status/RANK: the first rank's answer and that of
// each; 503 while a rank does not answer. /metrics: the samples of all ranks that answer, and
// lockstep_rank_up of every one.
std::map<std::string, common::HttpHandler> pod_routes(const PodRanks& ranks);

}  // namespace lockstep::launch
