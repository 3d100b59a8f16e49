#include "runtime/train/first_weights.h"

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/common/peft_config.h"
#include "runtime/train/exchange.h"

namespace lockstep::runtime {

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

namespace {

constexpr const char* kModelPath = "train.model.path";
constexpr const char* kAdapterPath = "train.lora.path";

Error at_field(const char* field, const Error& error) {
  return {error.code, std::string(field) + ": " + error.message, error.hint};
}

template <typename T>
T agree_on_weights(RankState& s, Result<T> mine, std::string_view what,
                   const char* field = kModelPath) {
  if (mine) return agree_on(*s.collective, std::move(mine), ExitCode::kSucceeded, what);
  return agree_on(*s.collective, Result<T>(at_field(field, mine.error())),
                  exit_code_of_weights(mine.error()), what);
}

Result<PretrainedWeights> open_checked_adapter(const RankState& s) {
  const common::LoraConfig& lora = s.config().lora;
  RETURN_IF_ERROR(common::check_same_adapter(s.config().model, lora, lora.path));
  const auto first = static_cast<std::size_t>(s.num_model_units());
  return PretrainedWeights::open_adapter(lora.path, std::span(s.units).subspan(first));
}

// The adapter to go on from; what the fingerprint says covers it too.
void open_adapter(RankState& s) {
  if (s.config().lora.path.empty()) return;
  s.adapter.emplace(agree_on_weights(s, open_checked_adapter(s), "opening the adapter of lora.path",
                                     kAdapterPath));
  s.pretrained_fingerprint.append("+").append(
      agree_on_weights(s, s.adapter->fingerprint(), "looking at the adapter", kAdapterPath));
}

void fill_randomly(const RankState& s, const ParamShard& shard) {
  initial_weights(s.units.at(static_cast<std::size_t>(shard.unit)),
                  static_cast<uint64_t>(s.config().seed), s.config().model.initializer_range,
                  shard.begin_elem, shard.weights);
}

Result<void> fill(const RankState& s, const ParamShard& shard) {
  if (shard.weights.empty()) return {};
  const int64_t num_model_units = s.num_model_units();
  if (s.pretrained && shard.unit < num_model_units) {
    if (s.pretrained->lacks_some(shard.unit)) fill_randomly(s, shard);
    return s.pretrained->read(shard.unit, shard.begin_elem, shard.weights);
  }
  if (s.adapter) {
    return s.adapter->read(shard.unit - num_model_units, shard.begin_elem, shard.weights);
  }
  fill_randomly(s, shard);
  return {};
}

}  // namespace

void open_pretrained(RankState& s) {
  const common::ModelSource& source = s.config().model_source;
  if (!source.is_pretrained) return;
  const auto model = std::span(s.units).first(static_cast<std::size_t>(s.num_model_units()));
  s.pretrained.emplace(
      agree_on_weights(s, PretrainedWeights::open(source.path, s.config().model, model),
                       "opening the weights of model.path"));
  s.pretrained_fingerprint =
      agree_on_weights(s, s.pretrained->fingerprint(), "looking at the weights of model.path");
  open_adapter(s);
  require_as_rank0(*s.collective, s.pretrained_fingerprint,
                   {ExitCode::kInvalidData,
                    "train.model.path: rank " + std::to_string(s.env.rank) +
                        " sees other weights in " + source.path + " than rank 0",
                    "mount the same files on all ranks"},
                   "comparing the weights of model.path");
}

void fill_base_weights(RankState& s) {
  if (!s.config().lora.is_on()) return;
  Result<void> filled;
  s.parallelism->fill_base([&](int64_t unit, int64_t begin_elem, std::span<float> out) {
    if (filled) filled = s.pretrained->read(unit, begin_elem, out);
  });
  agree_on_weights(s, std::move(filled), "reading the weights of model.path");
}

void fill_first_weights(RankState& s) {
  Result<void> filled;
  s.parallelism->visit_shards(StateAccess::kFill, [&](const ParamShard& shard) {
    if (filled) filled = fill(s, shard);
    std::fill(shard.moment1.begin(), shard.moment1.end(), 0.0F);
    std::fill(shard.moment2.begin(), shard.moment2.end(), 0.0F);
  });
  agree_on_weights(s, std::move(filled), "reading the weights of model.path");
  if (s.adapter && s.is_rank0()) s.log.info("adapter", {{"folder", s.config().lora.path}});
  if (s.pretrained && s.is_rank0()) {
    s.log.info("pretrained", {{"folder", s.config().model_source.path},
                              {"fingerprint", s.pretrained_fingerprint}});
    if (s.pretrained->lacks_some(s.num_model_units() - 1)) {
      s.log.info("first values are random", {{"tensor", "score.weight"}});
    }
  }
}

}  // namespace lockstep::runtime
