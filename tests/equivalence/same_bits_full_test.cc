// The whole product of what same_bits_test covers by pairs. Takes minutes; run by `make test-full`.
#include "tests/equivalence/same_bits.h"

namespace lockstep::equivalence {
namespace {

using SameBitsFullTest = SameBitsTest;

TEST_F(SameBitsFullTest, OnAnyRankCountStrategyBackendBucketAndPrefetch) {
  train_references();
  for (const Sharing& sharing : all_sharings()) {
    TinyJob job = shared_by(sharing);
    for (const std::string backend : {"shared-memory", "gloo"}) {
      for (const int64_t bucket_bytes : {65536, 26214400}) {
        for (const int prefetch_units : {0, 1, 3}) {
          job.backend = backend;
          job.bucket_bytes = bucket_bytes;
          job.prefetch_units = prefetch_units;
          forget(expect_same_bits_of(job));
        }
      }
    }
  }
}

TEST_F(SameBitsFullTest, OnAnyRankCountStrategyPrecisionActivationCheckpointingAndOffload) {
  train_references();
  for (const Sharing& sharing : all_sharings()) {
    TinyJob job = shared_by(sharing);
    for (const std::string& precision : all_precisions()) {
      for (const std::string& mode : all_checkpointings()) {
        job.precision = precision;
        job.activation_checkpointing = mode;
        for (const std::string& target : all_offloads()) {
          job.offload_optimizer = target;
          job.offload_activations = target;
          forget(expect_same_bits_of(job));
        }
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::equivalence
