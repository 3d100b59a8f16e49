// Facts as text to paste into a report, and as JSON. Pure.
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "operator/machine/facts.h"

namespace lockstep::machine {

// A line per fact, the name in front: "memory            15.6 GiB, 12.1 GiB available".
std::string facts_text(const MachineFacts& facts);

// The same with all digits; what is unknown is null.
nlohmann::json facts_json(const MachineFacts& facts);

// "1.5 MiB".
std::string bytes_text(int64_t bytes);

// NUMA nodes, and what GPUs have in common: "2 NUMA nodes; GPUs 0-1 by NVLink".
std::string topology_text(const MachineFacts& facts);

// One line of facts_text().
std::string fact_line(const std::string& name, const std::string& text);

}  // namespace lockstep::machine
