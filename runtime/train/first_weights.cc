#include "runtime/train/first_weights.h"

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/train/exchange.h"

namespace lockstep::runtime {
namespace {

using common::Error;
using common::ErrorCode;
using common::ExitCode;
using common::Result;

ExitCode exit_code_of_weights(const Error& error) {
  switch (error.code) {
    case ErrorCode::kDataLoss:
    case ErrorCode::kInvalidArgument:
      return ExitCode::kInvalidData;
    case ErrorCode::kNotFound:
    case ErrorCode::kPermissionDenied:
      return ExitCode::kInputNotFound;
    default:
      return ExitCode::kInternal;
  }
}

Error in_model_path(const Error& error) {
  return {error.code, "train.model.path: " + error.message, error.hint};
}

template <typename T>
T agree_on_weights(RankState& s, Result<T> mine, std::string_view what) {
  if (mine) return agree_on(*s.collective, std::move(mine), ExitCode::kSucceeded, what);
  return agree_on(*s.collective, Result<T>(in_model_path(mine.error())),
                  exit_code_of_weights(mine.error()), what);
}

Result<void> fill(const RankState& s, const ParamShard& shard) {
  if (s.pretrained) return s.pretrained->read(shard.unit, shard.begin_elem, shard.weights);
  initial_weights(s.units.at(static_cast<std::size_t>(shard.unit)),
                  static_cast<uint64_t>(s.config().seed), s.config().model.initializer_range,
                  shard.begin_elem, shard.weights);
  return {};
}

}  // namespace

void open_pretrained(RankState& s) {
  const common::ModelSource& source = s.config().model_source;
  if (!source.is_pretrained) return;
  s.pretrained.emplace(
      agree_on_weights(s, PretrainedWeights::open(source.path, s.config().model, s.units),
                       "opening the weights of model.path"));
  s.pretrained_fingerprint =
      agree_on_weights(s, s.pretrained->fingerprint(), "looking at the weights of model.path");
  require_as_rank0(*s.collective, s.pretrained_fingerprint,
                   {ExitCode::kInvalidData,
                    "train.model.path: rank " + std::to_string(s.env.rank) +
                        " sees other weights in " + source.path + " than rank 0",
                    "mount the same files on all ranks"},
                   "comparing the weights of model.path");
}

void fill_first_weights(RankState& s) {
  Result<void> filled;
  s.parallelism->visit_shards(StateAccess::kFill, [&](const ParamShard& shard) {
    if (filled) filled = fill(s, shard);
    std::fill(shard.moment1.begin(), shard.moment1.end(), 0.0F);
    std::fill(shard.moment2.begin(), shard.moment2.end(), 0.0F);
  });
  agree_on_weights(s, std::move(filled), "reading the weights of model.path");
  if (s.pretrained && s.is_rank0()) {
    s.log.info("pretrained", {{"folder", s.config().model_source.path},
                              {"fingerprint", s.pretrained_fingerprint}});
  }
}

}  // namespace lockstep::runtime
