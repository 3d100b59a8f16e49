#include "operator/convert/complete.h"

#include <algorithm>
#include <utility>

#include "operator/api/overrides.h"
#include "operator/convert/draft.h"
#include "runtime/common/document.h"
#include "runtime/common/train_config.h"

namespace lockstep::convert {
namespace {

using nlohmann::json;

constexpr int64_t kUsualSteps = 1000;
constexpr int64_t kStepsPerWarmupStep = 10;

int64_t integer(const Draft& draft, const std::string& field, int64_t otherwise) {
  const json* found = draft.find(field);
  return found != nullptr && found->is_number_integer() ? found->get<int64_t>() : otherwise;
}

// A model that trains anywhere: what is asked for is another.
json small_model(int64_t sequence_length) {
  constexpr int64_t kUsualLength = 2048;  // of a family that is not told
  json model = {{"vocab_size", 256},
                {"hidden_size", 192},
                {"intermediate_size", 512},
                {"num_hidden_layers", 4},
                {"num_attention_heads", 6}};
  if (sequence_length > kUsualLength) model["max_position_embeddings"] = sequence_length;
  return model;
}

void fill_in_batch(Draft& draft) {
  const bool global = draft.find("train.batch.globalBatchSize") != nullptr;
  const bool micro = draft.find("train.batch.microBatchSize") != nullptr;
  const bool accumulation = draft.find("train.batch.accumulationSteps") != nullptr;
  if (global || (micro && accumulation)) return;
  constexpr int64_t kSamplesPerRank = 8;
  const int64_t unit = integer(draft, "ranks", 1) *
                       integer(draft, "train.batch.microBatchSize", 1) *
                       integer(draft, "train.batch.accumulationSteps", 1);
  draft.fill_in("train.batch.globalBatchSize", kSamplesPerRank * unit,
                "sequences per step, over all ranks");
}

// A conversation needs a tokenizer with a chat template, which lies beside a model.
void fill_in_conversations(Draft& draft) {
  const json* task = draft.find("train.task");
  if (task == nullptr ||
      (!common::learns_from_conversations(*task) && !common::learns_from_pairs(*task))) {
    return;
  }
  if (draft.find("train.model.config") == nullptr) {
    draft.fill_in("train.model.path", "/models/base",
                  "a Hugging Face directory with the model and its chat template");
  }
  draft.fill_in("train.tokenizer.type", "hf", "the model's own");
  draft.fill_in("train.data.train", "/data/*.jsonl", "your files: a path, a folder or a glob");
  if (*task != "distill") return;
  draft.fill_in("train.distill.teacher", "/models/teacher",
                "a Hugging Face directory with the model to learn from");
}

void fill_in_train(Draft& draft) {
  fill_in_conversations(draft);
  if (draft.find("train.model.path") == nullptr && draft.find("train.model.config") == nullptr) {
    draft.fill_in("train.model.config", small_model(integer(draft, "train.data.sequenceLength", 1)),
                  "the fields of your model's config.json");
  }
  draft.fill_in("train.data.train", "/data/*.txt", "your files: a path, a folder or a glob");
  draft.fill_in("train.data.sequenceLength", 2048, "tokens per sample");
  fill_in_batch(draft);
  if (draft.find("train.steps") == nullptr && draft.find("train.epochs") == nullptr) {
    const int64_t warmup = integer(draft, "train.schedule.warmupSteps", 0);
    draft.fill_in("train.steps", std::max(kUsualSteps, kStepsPerWarmupStep * warmup),
                  "optimizer steps; or give epochs");
  }
}

}  // namespace

void complete(const std::vector<std::string>& sets, Conversion& conversion) {
  std::vector<std::string> paths;
  for (common::Problem& problem : api::apply_overrides(sets, conversion.spec, paths)) {
    conversion.problems.push_back(std::move(problem));
  }
  std::erase_if(conversion.remarks, [&paths](const Remark& remark) {
    return std::any_of(paths.begin(), paths.end(), [&remark](const std::string& path) {
      return common::is_within("spec." + remark.field, path);
    });
  });
  Draft draft{.spec = std::move(conversion.spec), .remarks = std::move(conversion.remarks)};
  draft.fill_in("ranks", std::max<int64_t>(integer(draft, "train.parallelism.shardRanks", 1), 1),
                "processes that train together");
  if (draft.find("command") == nullptr) fill_in_train(draft);
  conversion.spec = std::move(draft.spec);
  conversion.remarks = std::move(draft.remarks);
}

}  // namespace lockstep::convert
