// The job that tests train: small enough for seconds, with every part of a real
// one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/rank_processes.h"

namespace lockstep::support {

// 12 micro-batches per step: shared by 1, 2, 3, 4, 6 and 12 ranks.
struct TinyJob {
  int ranks = 1;
  std::string strategy = "ddp";
  int shard_ranks = 0;
  int64_t bucket_bytes = 26214400;
  int prefetch_units = 1;
  int micro_batches = 12;
  std::string backend = "auto";
  std::string data;  // path of the corpus
  int64_t steps = 12;
  int layers = 2;
  int64_t checkpoint_every = 4;
  double lr = 3e-3;
  std::string activation_checkpointing = "none";
  bool tie_word_embeddings = false;
  std::string optimizer = "adamw";  // sgd has momentum
  std::string precision = "fp32";
  std::string offload_optimizer = "none";
  std::string offload_activations = "none";
  std::string nvme_path = "/tmp";  // for what is "nvme"
  nlohmann::json more = {};        // merged into `train`
};
nlohmann::json to_json(const TinyJob& job);

// Text of about `num_bytes` bytes, the same on every call.
std::string tiny_corpus(std::size_t num_bytes);

// Every line of OUTPUT/metrics.jsonl as "step loss grad_norm" or "step validation_loss", with all
// digits.
std::vector<std::string> read_curve(const std::string& output);

}  // namespace lockstep::support
