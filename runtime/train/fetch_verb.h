// `lockstep-runtime fetch`: what jobs name by hf://, into the cache of this machine.
#pragma once

#include <string>

namespace lockstep::runtime {

struct FetchVerbOptions {
  // A reference. Of data it says hf://datasets/ORG/NAME, or `is_data` does.
  std::string reference;
  bool is_data = false;
  bool is_validation = false;  // of data, the part that data.validation would take
  std::string train;           // instead: the JSON text of a job's `train`, for all that it names
};

// Fetches and returns what lies where, one a line: the path alone for a reference, "FIELD PATH" for
// each of a job's. Tells progress on standard error. Blocks. Throws RunError: kInvalidConfig for
// what is no reference, as exit_code_of_hub() says for what cannot be fetched.
std::string fetch_verb(const FetchVerbOptions& options);

}  // namespace lockstep::runtime
