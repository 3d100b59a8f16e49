#include <algorithm>

#include "runtime/common/env_names.h"
#include "runtime/common/frozen_units.h"
#include "runtime/common/model_check.h"
#include "runtime/common/quantity.h"
#include "runtime/common/suggest.h"
#include "runtime/common/train_config.h"
#include "runtime/common/train_fields.h"
#include "runtime/common/train_relations.h"

namespace lockstep::common {
namespace {

using nlohmann::json;

constexpr int64_t kMaxRanks = 4096;
constexpr int64_t kMinBucketBytes = 64 << 10;
constexpr int64_t kMaxBucketBytes = int64_t{4} << 30;

std::string text_of(int64_t value) {
  return std::to_string(value);
}

std::string rank_counts_hint(int64_t num_micro_batches) {
  constexpr size_t kMostListed = 12;
  std::vector<std::string> words;
  for (const int64_t ranks : rank_counts_for(num_micro_batches)) {
    if (words.size() == kMostListed) {
      words.emplace_back("...");
      break;
    }
    words.push_back(text_of(ranks));
  }
  return "rank counts that work: " + join(words);
}

void check_divisible(Relations& out, int64_t global, int64_t micro, int64_t ranks) {
  if (global % micro != 0) {
    out.report(".batch.globalBatchSize", std::string("must be divisible by microBatchSize ")
                                             .append(text_of(micro))
                                             .append(", found ")
                                             .append(text_of(global)));
    return;
  }
  const int64_t num_micro_batches = global / micro;
  if (num_micro_batches % ranks != 0) {
    out.report(".batch.globalBatchSize",
               std::string("makes ")
                   .append(text_of(num_micro_batches))
                   .append(" micro-batches, which ")
                   .append(text_of(ranks))
                   .append(" ranks cannot share evenly"),
               rank_counts_hint(num_micro_batches));
  }
}

void check_batch(Relations& out, int64_t ranks) {
  const std::optional<int64_t> global = out.integer("batch/globalBatchSize");
  const std::optional<int64_t> micro = out.integer("batch/microBatchSize");
  const std::optional<int64_t> accumulation = out.integer("batch/accumulationSteps");
  const json* batch = out.find("batch");
  if (batch == nullptr || !batch->is_object() || ranks < 1 || ranks > kMaxRanks) return;
  const bool wrong_value = (batch->contains("globalBatchSize") && !global) ||
                           (batch->contains("microBatchSize") && !micro) ||
                           (batch->contains("accumulationSteps") && !accumulation);
  if (wrong_value) return;
  if (!global) {
    if (!micro || !accumulation) {
      out.report(".batch.globalBatchSize", "is required",
                 "give globalBatchSize, or microBatchSize and accumulationSteps");
    }
    return;
  }
  if (!accumulation) return check_divisible(out, *global, micro.value_or(1), ranks);
  if (micro && *global != *micro * *accumulation * ranks) {
    out.report(".batch.accumulationSteps",
               std::string("globalBatchSize ")
                   .append(text_of(*global))
                   .append(" is not microBatchSize ")
                   .append(text_of(*micro))
                   .append(" * accumulationSteps ")
                   .append(text_of(*accumulation))
                   .append(" * ranks ")
                   .append(text_of(ranks)),
               "remove accumulationSteps: it follows from the others");
  } else if (!micro && *global % (*accumulation * ranks) != 0) {
    out.report(".batch.globalBatchSize",
               std::string("must be divisible by accumulationSteps * ranks = ")
                   .append(text_of(*accumulation * ranks))
                   .append(", found ")
                   .append(text_of(*global)));
  }
}

void check_frozen(Relations& out) {
  const std::optional<int64_t> layers = out.integer("model/config/num_hidden_layers");
  const json* list = out.find("model/frozen");
  if (!layers || list == nullptr || !list->is_array()) return;
  std::vector<std::string> entries;
  for (const json& entry : *list) {
    // What does not match is reported as such.
    if (!entry.is_string() || !matches(entry.get<std::string>(), kFrozenPattern)) return;
    entries.push_back(entry.get<std::string>());
  }
  if (const auto frozen = frozen_units(entries, *layers); !frozen) {
    out.report(".model.frozen", frozen.error().message, frozen.error().hint);
  }
}

// `resolved` has what the family takes for keys that are not given.
void check_heads(Relations& out, const Relations& resolved) {
  const std::optional<int64_t> hidden = out.integer("model/config/hidden_size");
  const std::optional<int64_t> heads = out.integer("model/config/num_attention_heads");
  const std::optional<int64_t> kv_heads = resolved.integer("model/config/num_key_value_heads");
  std::optional<int64_t> head_dim = resolved.integer("model/config/head_dim");
  if (heads && kv_heads && *heads % *kv_heads != 0) {
    const bool given = out.find("model/config/num_key_value_heads") != nullptr;
    out.report(".model.config.num_key_value_heads",
               std::string("must divide num_attention_heads ")
                   .append(text_of(*heads))
                   .append(", found ")
                   .append(text_of(*kv_heads)),
               given ? "" : "give it: without it the family has its own number");
  }
  if (!head_dim && hidden && heads && resolved.find("model/config/head_dim") == nullptr) {
    if (*hidden % *heads != 0) {
      out.report(".model.config.hidden_size",
                 std::string("must be divisible by num_attention_heads ")
                     .append(text_of(*heads))
                     .append(", found ")
                     .append(text_of(*hidden)),
                 "or give head_dim");
      return;
    }
    head_dim = *hidden / *heads;
  }
  constexpr int64_t kMaxHeadDim = 256;
  if (head_dim && (*head_dim % 2 != 0 || *head_dim > kMaxHeadDim)) {
    const bool given = out.find("model/config/head_dim") != nullptr;
    out.report(given ? ".model.config.head_dim" : ".model.config.num_attention_heads",
               std::string("the width of a head must be even and at most 256, found ")
                   .append(text_of(*head_dim)));
  }
}

void check_model(Relations& out) {
  if (!out.problems.empty()) return;
  if (const std::optional<ModelProblem> problem = find_model_problem(out.train)) {
    out.report(".model.config." + problem->key, problem->message, problem->hint);
  }
}

// A path or a config, and weights only from a path.
void check_source(Relations& out) {
  const json* model = out.find("model");
  if (model == nullptr || !model->is_object()) return;
  const bool has_path = model->contains("path");
  const bool has_config = model->contains("config");
  if (has_path && has_config) {
    out.report(".model.path", "and config exclude each other", "give one of them");
  } else if (!has_path && !has_config) {
    out.report(".model.config", "is required", "or give path, a Hugging Face directory");
  }
  if (!has_path && model->value("init", json()) == "pretrained") {
    out.report(".model.init", "pretrained needs model.path", "name a Hugging Face directory");
  }
}

void check_lengths(Relations& out, const Relations& resolved) {
  const std::optional<int64_t> length = out.integer("data/sequenceLength");
  const std::optional<int64_t> positions =
      resolved.integer("model/config/max_position_embeddings", 1, 1 << 24);
  if (length && positions && *length > *positions) {
    out.report(".data.sequenceLength",
               std::string("must be at most model.config.max_position_embeddings ")
                   .append(text_of(*positions))
                   .append(", found ")
                   .append(text_of(*length)));
  }
  constexpr int64_t kNumBytes = 256;
  const std::optional<int64_t> vocab = out.integer("model/config/vocab_size");
  const json* tokenizer = out.find("tokenizer/type");
  const json* format = out.find("data/format");
  if (format != nullptr && *format == "tokens") return;
  if (vocab && *vocab < kNumBytes && tokenizer != nullptr && *tokenizer == "bytes") {
    out.report(".model.config.vocab_size",
               "must be at least 256 for the bytes tokenizer, found " + text_of(*vocab));
  }
}

void check_parallelism(Relations& out, int64_t ranks) {
  const auto is = [&out](const char* pointer, const char* value) {
    const json* field = out.find(pointer);
    return field != nullptr && *field == value;
  };
  const int64_t shard_ranks = out.integer("parallelism/shardRanks").value_or(0);
  const json* strategy = out.find("parallelism/strategy");
  if (shard_ranks > 0 && strategy != nullptr && *strategy != "auto" && *strategy != "zero3") {
    out.report(".parallelism.shardRanks", "needs strategy zero3, found " + strategy->dump());
  }
  if (shard_ranks == 1) {
    out.report(".parallelism.shardRanks", "must be 0 or at least 2, found 1",
               "for a whole copy on every rank choose strategy ddp");
  } else if (shard_ranks > 0 && ranks >= 1 && ranks % shard_ranks != 0) {
    out.report(".parallelism.shardRanks", std::string("must divide the ranks, ")
                                              .append(text_of(ranks))
                                              .append(", found ")
                                              .append(text_of(shard_ranks)));
  }
  if (is("parallelism/reduceDtype", "bf16") && is("parallelism/reduction", "reproducible")) {
    out.report(".parallelism.reduceDtype",
               "bf16 needs reduction fast: rounded gradients have other bits on every rank count",
               "set reduction: fast, or leave reduceDtype: fp32");
  }
  const json* bucket = out.find("parallelism/bucketBytes");
  if (bucket == nullptr) return;
  const std::string text = bucket->is_string() ? bucket->get<std::string>() : bucket->dump();
  const int64_t bytes = quantity_bytes(text).value_or(0);
  if (bytes < kMinBucketBytes || bytes > kMaxBucketBytes) {
    out.report(".parallelism.bucketBytes", "must be from 64Ki to 4Gi, found " + bucket->dump());
  }
}

void check_offload(Relations& out) {
  if (out.find("offload/nvmePath") != nullptr) return;
  for (const char* const part : {"optimizer", "activations"}) {
    const json* target = out.find(std::string("offload/").append(part));
    if (target == nullptr || *target != "nvme") continue;
    out.report(".offload.nvmePath",
               std::string("is required: offload.").append(part).append(" is nvme"),
               "name a folder on local storage that every rank has");
    return;
  }
}

void check_loss_scale(Relations& out) {
  const json* precision = out.find("precision");
  if (out.find("lossScale") == nullptr || (precision != nullptr && *precision == "fp16")) return;
  const std::string found = precision != nullptr ? precision->dump() : "none";
  out.report(".lossScale", "needs precision fp16, found " + found,
             "remove it: only fp16 has gradients too small for its type");
}

void check_communication(Relations& out) {
  const json* env = out.find("communication/env");
  if (env == nullptr) return;
  const std::string path = child_path(child_path(out.prefix, "communication"), "env");
  for (Problem& problem : check_env_map(*env, path)) out.problems.push_back(std::move(problem));
}

}  // namespace

Problems check_train_relations(const json& train, int64_t ranks, const std::string& prefix) {
  Relations out{.train = train, .prefix = prefix, .problems = {}};
  const json full = resolve_train(train, 1).train;
  const Relations resolved{.train = full, .prefix = prefix, .problems = {}};
  check_batch(out, ranks);
  check_parallelism(out, ranks);
  check_source(out);
  check_frozen(out);
  check_lora(out);
  check_heads(out, resolved);
  check_model(out);
  check_sources(out);
  check_task(out);
  check_preference(out);
  check_distill(out);
  check_hub_references(out);
  check_lengths(out, resolved);
  check_schedule(out);
  check_offload(out);
  check_loss_scale(out);
  check_communication(out);
  return std::move(out.problems);
}

Problems check_train(const json& train, int64_t ranks, const std::string& prefix) {
  Checked checked = check_and_default(train_fields(), train, prefix);
  Problems problems = std::move(checked.problems);
  if (ranks < 1) {
    problems.push_back(
        {.path = "spec.ranks", .message = "must be at least 1, found " + text_of(ranks)});
  }
  for (Problem& problem : check_train_relations(checked.value, ranks, prefix)) {
    problems.push_back(std::move(problem));
  }
  return problems;
}

std::vector<int64_t> rank_counts_for(int64_t num_micro_batches) {
  std::vector<int64_t> counts;
  for (int64_t ranks = 1; ranks <= std::min(num_micro_batches, kMaxRanks); ++ranks) {
    if (num_micro_batches % ranks == 0) counts.push_back(ranks);
  }
  return counts;
}

}  // namespace lockstep::common
