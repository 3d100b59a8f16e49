// The tables of a TrainingJob's spec and status, from which the CRD is made.
#pragma once

#include <string>
#include <vector>

#include "runtime/common/schema.h"

namespace lockstep::api {

inline constexpr const char* kNamePattern = "^[a-z]([-a-z0-9]*[a-z0-9])?$";
inline constexpr int64_t kMaxNameLength = 45;  // every child's name and host name then fits 63
inline constexpr int64_t kMaxRanks = 4096;
inline constexpr int64_t kMaxRanksPerPod = 64;
inline constexpr int64_t kMaxNodeFailures = 16;
// Longest texts in status; encode_status() cuts at these, the schema refuses more.
inline constexpr int64_t kMaxStatusWord = 253;
inline constexpr int64_t kMaxStatusMessage = 4096;

// Fields of `spec`, `spec.train` included.
const common::Field& spec_fields();
// Fields of `status`.
const common::Field& status_fields();
// Names of the kinds of volume that inputs and output may be.
const std::vector<std::string>& volume_source_names();

}  // namespace lockstep::api
