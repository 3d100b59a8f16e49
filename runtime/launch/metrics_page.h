// One metrics page from those of several ranks.
#pragma once

#include <string>
#include <vector>

namespace lockstep::launch {

// Joins pages in Prometheus' text format: every family once, with the help and type of the first
// page that has it and the samples of all, which tell their ranks apart by their labels.
// Source: Prometheus' text format 0.0.4: the lines of a metric are one group.
std::string join_pages(const std::vector<std::string>& pages);

}  // namespace lockstep::launch
