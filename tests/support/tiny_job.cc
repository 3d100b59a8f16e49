#include "tests/support/tiny_job.h"

#include <algorithm>
#include <sstream>

namespace lockstep::support {

nlohmann::json to_json(const TinyJob& job) {
  nlohmann::json optimizer = {{"name", job.optimizer}, {"lr", job.lr}};
  if (job.optimizer == "sgd") optimizer["momentum"] = 0.9;
  const nlohmann::json config = {{"model_type", "llama"},
                                 {"vocab_size", 256},
                                 {"hidden_size", 48},
                                 {"intermediate_size", 80},
                                 {"num_hidden_layers", job.layers},
                                 {"num_attention_heads", 4},
                                 {"num_key_value_heads", 2},
                                 {"head_dim", 12},
                                 {"max_position_embeddings", 48},
                                 {"tie_word_embeddings", job.tie_word_embeddings}};
  nlohmann::json out = {
      {"name", "tiny"},
      {"ranks", job.ranks},
      {"train",
       {{"task", "pretrain"},
        {"model", {{"init", "random"}, {"config", config}}},
        {"tokenizer", {{"type", "bytes"}}},
        {"data", {{"train", job.data}, {"sequenceLength", 48}}},
        {"batch", {{"globalBatchSize", job.micro_batches}, {"microBatchSize", 1}}},
        {"steps", job.steps},
        {"precision", job.precision},
        {"optimizer", optimizer},
        {"parallelism",
         {{"strategy", job.strategy},
          {"shardRanks", job.shard_ranks},
          {"bucketBytes", job.bucket_bytes},
          {"prefetchUnits", job.prefetch_units}}},
        {"activationCheckpointing", job.activation_checkpointing},
        {"offload",
         {{"optimizer", job.offload_optimizer},
          {"activations", job.offload_activations},
          {"nvmePath", job.nvme_path}}},
        {"checkpoint", {{"everySteps", job.checkpoint_every}, {"keep", 2}}},
        {"logging", {{"everySteps", 1}}},
        {"communication", {{"backend", job.backend}, {"timeoutSeconds", 120}}}}}};
  if (!job.more.is_null()) out["train"].merge_patch(job.more);
  return out;
}

std::string tiny_corpus(std::size_t num_bytes) {
  const std::vector<std::string> words = {"step",   "rank",   "shard", "of ",  "the ",
                                          "unit, ", "loss\n", "is ",   "and ", "gang. "};
  std::string text;
  uint64_t state = 1;
  while (text.size() < num_bytes) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    text += words[(state >> 33) % words.size()];
  }
  return text;
}

std::vector<std::string> read_curve(const std::string& output) {
  std::vector<std::string> curve;
  std::istringstream lines(support::read_text(output + "/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    // The digits as written: step, loss and grad_norm come first in a line, or validation_loss.
    const std::size_t end = line.find(", \"learning_rate\"");
    curve.push_back(line.substr(0, std::min(end, line.find(", \"validation_seconds\""))));
  }
  return curve;
}

}  // namespace lockstep::support
