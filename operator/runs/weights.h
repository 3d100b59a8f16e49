// The exported weights of two runs: the same bits or not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/common/result.h"

namespace lockstep::runs {

struct WeightsComparison {
  int64_t num_tensors = 0;                  // of the same name in both
  std::vector<std::string> only_a, only_b;  // names
  std::vector<std::string> other_form;      // of another dtype or shape
  std::vector<std::string> other_bits;
  bool same() const {
    return only_a.empty() && only_b.empty() && other_form.empty() && other_bits.empty();
  }
};

// Compares the tensors of all *.safetensors in two folders by name, whatever file they are in,
// holding 2 MiB at a time.
// Errors: kNotFound if a folder has no such file; kDataLoss, naming it, if one is cut or its header
// is no safetensors header; kInternal if it cannot be read.
// Source of the format: github.com/huggingface/safetensors, README.
common::Result<WeightsComparison> compare_weights(const std::string& folder_a,
                                                  const std::string& folder_b);

}  // namespace lockstep::runs
