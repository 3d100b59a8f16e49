// What a rank will hold in memory, before anything is started: pure arithmetic over the job.
// It follows what the runtime allocates (decoder.cc, data_parallel.cc, gradient_reducer.cc); a test
// holds every strategy's estimate within 10 % of what ranks report of themselves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/common/train_config.h"

namespace lockstep::common {

// What ranks compute on, and so where their buffers lie: in the host's memory, or in their GPU's.
enum class RankDevice { kProcessor, kGpu };

// Bytes of one rank; the rank that needs most, where they differ. Of a rank on a GPU, bytes of its
// GPU.
struct MemoryEstimate {
  // Masters, and the copies that bf16 and fp16 compute with; a teacher's are among these and the
  // activations, logits and gathered weights.
  int64_t weights = 0;
  int64_t gradients = 0;
  int64_t optimizer = 0;     // the moments that it has
  int64_t activations = 0;   // of one micro-batch, scratch of the layers included
  int64_t logits = 0;        // what the head's chunk of logits needs beyond that scratch
  int64_t gathered = 0;      // zero3: full weights of the units in use
  int64_t partial_sums = 0;  // of the fixed tree, and gradients that are being exchanged
  int64_t windows = 0;       // through which offloaded state comes and goes
  int64_t snapshot = 0;      // the copy that checkpoints are written from
  int64_t process = 0;  // program, libraries, shared-memory slots; resident, part of it shared;
                        // on a GPU what CUDA keeps there for a process

  int64_t nvme = 0;  // no memory: the rank's space under offload.nvmePath

  // All but `snapshot` and `process`: what the runtime counts as its own buffers.
  int64_t buffers() const {
    return weights + gradients + optimizer + activations + logits + gathered + partial_sums +
           windows;
  }
  int64_t total() const { return buffers() + snapshot + process; }
};

// Parameters of each unit of the model in order: embedding, layers, head (its norm alone if tied).
std::vector<int64_t> unit_parameters(const ModelConfig& model);
// The same, then those of the adapters of each layer, if there are any.
std::vector<int64_t> unit_parameters(const TrainConfig& train);
// Of the model, without adapters.
int64_t num_parameters(const ModelConfig& model);
// Those of units that are not frozen, adapters included.
int64_t num_trained_parameters(const TrainConfig& train);

// What a rank of `train` holds under `strategy` on `ranks` ranks that compute on `device`.
// Preconditions: strategy is not kAuto; `ranks` divides the micro-batches (else, the next lower
// number of micro-batches per rank is assumed).
MemoryEstimate estimate_memory(const TrainConfig& train, Strategy strategy, int64_t ranks,
                               RankDevice device = RankDevice::kProcessor);

// Bytes of /dev/shm through which `ranks` ranks of one host talk, the part of it that grows.
int64_t shared_memory_bytes(int64_t ranks);

}  // namespace lockstep::common
