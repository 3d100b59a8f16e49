#include "runtime/train/reference_log_probs.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/checkpoint/crc32c.h"
#include "runtime/checkpoint/output_folder.h"
#include "runtime/common/text_file.h"
#include "runtime/train/exchange.h"
#include "runtime/train/forward_pass.h"
#include "runtime/train/long_phase.h"
#include "runtime/train/pair_loss.h"
#include "runtime/train/pair_place.h"
#include "runtime/train/side_work.h"

namespace lockstep::runtime {
namespace {

using common::ExitCode;
using common::Result;
using nlohmann::json;

// Of the weights that training begins with, as rank 0 sees them: copies of one file on several
// nodes have times of their own. Empty if they are random.
std::string first_weights_stamp(const RankState& s) {
  Result<std::string> stamp = std::string();
  for (const auto* const weights : {&s.pretrained, &s.adapter}) {
    if (!*weights || !stamp) continue;
    Result<std::string> own = (*weights)->stamp();
    stamp = own ? Result<std::string>(*stamp + *own) : std::move(own);
  }
  return gather_texts(*s.collective,
                      agree_on(*s.collective, std::move(stamp), ExitCode::kInputNotFound,
                               "looking at the first weights"),
                      "comparing the first weights")
      .front();
}

// All that decides the log-probabilities of `samples`.
json key_of(const RankState& s, const Samples& samples, const std::string& stamp) {
  const json train = json::parse(s.job.train_json);
  return {{"data", samples.fingerprint()},
          {"pairs", samples.num_samples()},
          {"weights", s.pretrained_fingerprint},
          {"weightFiles", stamp},
          {"model", train.at("model")},
          {"lora", train.value("lora", json())},
          {"seed", s.config().seed},
          {"precision", to_string(s.config().precision)},
          {"sequenceLength", s.config().data.sequence_length},
          {"microBatchSize", s.config().batch.micro_batch_size}};
}

std::string crc_of(std::string_view bytes) {
  return crc32c_hex(std::as_bytes(std::span(bytes)));
}

struct PairData {
  std::string name;
  json key;
  const Samples& samples;
  Share share;
  std::vector<double>& log_probs;
};

// Ends the work with the row whose log-probability is `at` of those of `data`: rank 0 looks for it.
[[noreturn]] void refuse_answer(RankState& s, Disk& disk, StatusBoard& board, const PairData& data,
                                int64_t at) {
  const std::string answer = at % 2 == 0 ? "chosen" : "rejected";
  RunFailure failure{ExitCode::kNonFinite, "",
                     "look at that row and at the weights of train.model.path, or use precision "
                     "bf16 or fp32"};
  std::atomic<int64_t> num_rows = 0;
  const auto look = [&](const std::stop_token& stop) {
    const Result<std::string> place = place_of_pair(s, disk, data.share, at / 2, [&] {
      ++num_rows;
      return !stop.stop_requested();
    });
    failure.message = "the log-probability of the " + answer + " answer of " +
                      (place ? *place : "pair " + std::to_string(at / 2 + 1)) +
                      " by the reference, the first weights, is not finite";
    return std::optional(failure);
  };
  SideWork work{.run = nullptr,
                .progress = [&num_rows] { return num_rows.load(); },
                .got_on = [&board] { board.set_phase("reference"); },
                .what = "looking for a pair"};
  if (s.is_rank0()) work.run = look;
  work_aside(*s.collective, work);
  throw RunError(failure);  // not reached: rank 0 fails
}

// The log-probabilities of all pairs of `data`, by the weights at hand. Ranks take micro-batches in
// turn and tell each other what they found: the same bits on any number of them.
std::vector<double> compute(RankState& s, Disk& disk, StatusBoard& board, const PairData& data) {
  const Samples& samples = data.samples;
  const int64_t num_micro_batches = num_micro_batches_of(s, samples);
  const int64_t world_size = s.env.world_size;
  const int64_t micro_batch_size = s.config().batch.micro_batch_size;
  const auto most = static_cast<std::size_t>(2 * micro_batch_size);
  LongPhase phase(board, "reference");
  std::vector<double> all;
  MicroBatch batch;
  for (int64_t first = 0; first < num_micro_batches; first += world_size) {
    value_or_raise(fill_rows(samples, samples_in_order(s, samples, first + s.env.rank),
                             micro_batch_size, batch),
                   ExitCode::kInvalidData);
    std::vector<double> mine;
    const SpanLoss loss = log_probs_of_pairs(batch, mine);
    MicroBatchIo io{.tokens = batch.tokens.data(),
                    .labels = batch.labels.data(),
                    .positions = batch.positions_or_null(),
                    .span_loss = &loss};
    forward_pass(s, io, first + world_size < num_micro_batches);
    mine.resize(most, 0.0);
    std::vector<double> gathered(most * static_cast<std::size_t>(world_size));
    s.collective
        ->all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(gathered)),
                     "reference log-probabilities")
        ->wait();
    const auto bad = std::find_if_not(gathered.begin(), gathered.end(),
                                      [](double value) { return std::isfinite(value); });
    if (bad != gathered.end()) {
      const auto before = static_cast<int64_t>(all.size());
      refuse_answer(s, disk, board, data, before + (bad - gathered.begin()));
    }
    all.insert(all.end(), gathered.begin(), gathered.end());
    const int64_t done = std::min((first + world_size) * micro_batch_size, samples.num_samples());
    if (phase.got_on({.done = done, .total = samples.num_samples()}) && s.is_rank0()) {
      s.log.info("computing the reference",
                 {{"data", data.name}, {"pairs", done}, {"of", samples.num_samples()}});
    }
  }
  phase.end();
  // Only the last micro-batch, and those beyond it, may have had too few.
  all.resize(static_cast<std::size_t>(2 * samples.num_samples()));
  return all;
}

// What rank 0 finds in the output, on all ranks.
bool read_on_all_ranks(RankState& s, const PairData& data) {
  std::vector<double> found;
  const Result<std::string> text =
      common::read_text_file(tokens_folder(s.env.output) + "/" + reference_file(data.name));
  if (text) found = decode_reference(*text, data.key);
  // All or none: who sees another file computes with the others.
  const bool is_mine = found.size() == static_cast<std::size_t>(2 * data.samples.num_samples());
  const std::vector<std::string> verdicts =
      gather_texts(*s.collective, is_mine ? "found" : "", "looking for the reference");
  if (!std::all_of(verdicts.begin(), verdicts.end(),
                   [](const std::string& v) { return !v.empty(); })) {
    return false;
  }
  data.log_probs = std::move(found);
  return true;
}

Result<void> write(const RankState& s, Disk& disk, const PairData& data) {
  const std::string folder = tokens_folder(s.env.output);
  RETURN_IF_ERROR(disk.make_folder(folder));
  return replace_file(disk, folder, reference_file(data.name),
                      encode_reference(data.key, data.log_probs));
}

}  // namespace

std::string encode_reference(json key, const std::vector<double>& log_probs) {
  std::string bytes(log_probs.size() * sizeof(double), '\0');
  std::memcpy(bytes.data(), log_probs.data(), bytes.size());
  key["crc32c"] = crc_of(bytes);
  return key.dump() + "\n" + bytes;
}

std::vector<double> decode_reference(std::string_view text, const json& key) {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) return {};
  const std::string_view bytes = text.substr(end + 1);
  json expected = key;
  expected["crc32c"] = crc_of(bytes);
  const json head = json::parse(text.substr(0, end), nullptr, false);
  if (!head.is_object() || head != expected) return {};
  std::vector<double> log_probs(bytes.size() / sizeof(double));
  std::memcpy(log_probs.data(), bytes.data(), log_probs.size() * sizeof(double));
  return log_probs;
}

bool prepare_reference(RankState& s, Disk& disk, StatusBoard& board, const FillFirstWeights& fill) {
  if (s.config().task != common::Task::kDpo) return false;
  const std::string stamp = first_weights_stamp(s);
  const auto pairs = [&](const char* name, const Samples& samples, Share share,
                         std::vector<double>& log_probs) {
    return PairData{name, key_of(s, samples, stamp), samples, share, log_probs};
  };
  std::vector<PairData> all = {pairs("train", s.samples->samples(), Share::kTraining, s.reference)};
  if (s.validation) {
    all.push_back(pairs("validation", *s.validation, Share::kHeldOut, s.validation_reference));
  }
  bool is_filled = false;
  for (const PairData& data : all) {
    if (read_on_all_ranks(s, data)) continue;
    if (!is_filled) {
      fill();
      s.parallelism->weights_updated();
      is_filled = true;
    }
    if (s.is_rank0()) {
      s.log.info("computing the reference",
                 {{"data", data.name}, {"pairs", 0}, {"of", data.samples.num_samples()}});
    }
    data.log_probs = compute(s, disk, board, data);
    Result<void> written;
    if (s.is_rank0()) written = write(s, disk, data);
    agree_on(*s.collective, std::move(written), ExitCode::kOutputUnwritable,
             "writing the reference");
    if (s.is_rank0()) {
      s.log.info("reference", {{"data", data.name}, {"pairs", data.samples.num_samples()}});
    }
  }
  return is_filled;
}

}  // namespace lockstep::runtime
