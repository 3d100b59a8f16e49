// From a pod's JSON, as plan() renders it, to the command of a local process. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "operator/local/node_place.h"

namespace lockstep::local {

// What takes the place of the pod's volumes, network and node.
struct ProcessPlace {
  std::string job_file;  // of the attempt's ConfigMap
  std::string output;    // absolute
  std::string log_file;
  std::string termination_file;
  std::string runtime_program;  // stands for the image's `lockstep-runtime`
  NodePlace node;               // of the nodes
  int master_port = 0;          // where rank 0 listens: on node 0, with one node on 127.0.0.1
  int metrics_port = 0;         // on 127.0.0.1, of this rank
  std::string output_mode;      // auto | resume | overwrite
};

struct RankCommand {
  std::vector<std::string> argv;
  std::map<std::string, std::string> env;  // on top of our own environment
  std::string log_file;
  std::string termination_file;
};

RankCommand rank_command(const nlohmann::json& pod, const ProcessPlace& place);

}  // namespace lockstep::local
