// The whole product of what same_bits_test covers by pairs. Takes minutes; run by `make test-full`.
#include "tests/equivalence/same_bits.h"

namespace lockstep::equivalence {
namespace {

using SameBitsFullTest = SameBitsTest;

TEST_F(SameBitsFullTest, OnAnyRankCountStrategyBackendBucketAndPrefetch) {
  train({.ranks = 1, .micro_batches = 24}, "reference");
  for (const Sharing& sharing : all_sharings()) {
    for (const std::string backend : {"shared-memory", "gloo"}) {
      for (const int64_t bucket_bytes : {65536, 26214400}) {
        for (const int prefetch_units : {0, 1, 3}) {
          expect_same_bits_of({.ranks = sharing.ranks,
                               .strategy = sharing.strategy,
                               .shard_ranks = sharing.shard_ranks,
                               .bucket_bytes = bucket_bytes,
                               .prefetch_units = prefetch_units,
                               .micro_batches = 24,
                               .backend = backend});
        }
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::equivalence
