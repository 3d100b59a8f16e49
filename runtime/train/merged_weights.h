// The weights of a model with a LoRA adapter added to them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/common/lora.h"
#include "runtime/common/model_config.h"
#include "runtime/common/result.h"
#include "runtime/train/pretrained_weights.h"

namespace lockstep::runtime {

// Reads both directories by ranges; what is added to an element depends on no other: sums over the
// rank in its order, in fp32.
class MergedWeights {
 public:
  // Reads the adapter into memory, all of it.
  //   base: the model's, of `units`; borrowed.
  //   adapter: directory in PEFT's format.
  // Errors: those of PretrainedWeights::open_adapter() and read().
  static common::Result<MergedWeights> open(const PretrainedWeights& base,
                                            const std::string& adapter,
                                            const common::ModelConfig& config,
                                            const common::LoraConfig& lora);

  // Fills `out` with elements [begin_elem, begin_elem + out.size()) of a unit of the model, W + s B
  // A. Errors: as PretrainedWeights::read().
  common::Result<void> read(int64_t unit, int64_t begin_elem, std::span<float> out) const;

 private:
  // What is added to one tensor of a unit.
  struct Delta {
    int64_t begin_elem = 0;  // in the unit
    int64_t in = 0, out = 0;
    const float* a = nullptr;  // [rank, in]
    const float* b = nullptr;  // [out, rank]
  };

  explicit MergedWeights(const PretrainedWeights& base) : base_(&base) {}
  void add(const Delta& delta, int64_t begin_elem, std::span<float> out) const;

  const PretrainedWeights* base_;
  int64_t rank_ = 0;
  float scale_ = 0;
  bool is_in_by_out_ = false;
  std::vector<std::vector<float>> adapters_;  // [layer], a unit of adapters each
  std::vector<std::vector<Delta>> deltas_;    // [unit of the model]
};

}  // namespace lockstep::runtime
