// What is wrong with a machine, or with a job on it: verdicts over facts. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "operator/machine/facts.h"

namespace lockstep::machine {

// One check and its verdict.
struct Finding {
  std::string check;  // "open files"
  bool is_wrong = false;
  std::string text;  // what was found, in one line
  std::string next;  // exactly one command if it is wrong; else empty
  bool operator==(const Finding&) const = default;
};

// What a job wants of the machine; without a job what any wants.
struct Needs {
  std::string file;                  // the manifest; empty: there is no job
  int64_t ranks = 1;                 // of which all are here
  std::vector<int64_t> rank_counts;  // that would do as well, ascending
  int64_t rank_bytes = 0;            // memory of one rank
  int64_t shared_memory_bytes = 0;   // of all ranks
  int64_t output_bytes = 0;          // checkpoints and model
  bool on_gpus = false;              // ranks here compute on GPUs
};

// The verdicts in the order in which they are told, those that found nothing included.
std::vector<Finding> examine(const MachineFacts& facts, const Needs& needs);

// "ok" and "WRONG" lines, a "next:" behind each that is wrong, and a line that sums up.
std::string findings_text(const std::vector<Finding>& findings);

bool is_anything_wrong(const std::vector<Finding>& findings);

}  // namespace lockstep::machine
