// From a pod's JSON, as plan() renders it, to the command of a local process. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace lockstep::local {

// What takes the place of the pod's volumes, network and node.
struct ProcessPlace {
  std::string job_file;  // of the attempt's ConfigMap
  std::string output;    // absolute
  std::string log_file;
  std::string termination_file;
  std::string runtime_program;  // stands for the image's `lockstep-runtime`
  int master_port = 0;          // on 127.0.0.1, of the attempt
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
