// The losses of tasks that learn from pairs of answers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/common/train_config.h"
#include "runtime/data/sample_source.h"
#include "runtime/model/block.h"
#include "runtime/train/pair_figures.h"

namespace lockstep::runtime {

// What the loss of a micro-batch takes beside what the model says.
struct PairTerms {
  common::Task task = common::Task::kDpo;
  common::PreferenceConfig preference;
  // Of dpo, [2 * pairs]: the log-probability that the first weights give to the chosen and to the
  // rejected answer of every pair.
  std::vector<double> reference;
  // Of orpo: what the cross-entropy of a token of a chosen row counts, where a pair counts 1.
  double token_weight = 0;
  // Of reward: the score of an answer is that of its last token but for these; negative: there is
  // no such token.
  int32_t pad_token = -1;
};

// The labels of a micro-batch as the task learns them: orpo also the prompts of chosen rows.
//   batch: pairs, rows of [chosen, rejected] one behind the other.
std::vector<int32_t> labels_of_pairs(common::Task task, const MicroBatch& batch);

// The loss of a micro-batch, a sum over its pairs; `terms`, `batch` and `figures` must outlive it.
//   figures: sums over the pairs; written when the loss is computed.
// Computed in double. dpo: the sigmoid, hinge or IPO loss of beta times the difference of the
// answers' log-ratios to the reference (IPO: of their means per token); orpo: the cross-entropy of
// chosen rows and beta times the log-sigmoid of the log-odds ratio of the answers' mean tokens;
// reward: minus the log-sigmoid of the difference of the answers' scores (Bradley and Terry), and
// centerCoefficient times the square of their sum.
// Sources: InstructGPT (reward), arXiv:2203.02155; centering, arXiv:2312.09244; DPO,
// arXiv:2305.18290; conservative DPO (labelSmoothing), Mitchell 2023; SLiC, arXiv:2305.10425; IPO,
// arXiv:2310.12036; ORPO, arXiv:2403.07691; TRL's trainers.
SpanLoss pair_loss(const PairTerms& terms, const MicroBatch& batch, PairFigures& figures);

// A micro-batch of pairs as the head takes it.
class PairBatch {
 public:
  // `batch` and `figures` must outlive the object.
  //   terms:     all but the reference.
  //   reference: as PairTerms::reference, of all pairs of the data; empty if the task has none.
  //   figures:   as of pair_loss().
  PairBatch(PairTerms terms, const MicroBatch& batch, std::span<const double> reference,
            PairFigures& figures);
  PairBatch(const PairBatch&) = delete;
  PairBatch& operator=(const PairBatch&) = delete;

  // Sets labels and loss of `io`, which borrows them.
  void give_to(MicroBatchIo& io) const;

 private:
  PairTerms terms_;
  std::vector<int32_t> labels_;
  SpanLoss loss_;
};

// What a token of a chosen row counts where a pair counts 1: the loss of the tokens is a mean over
// all of them, that of the pairs one over the pairs, of a global batch or of all data.
double token_weight_of(int64_t num_pairs, int64_t num_tokens);

// For a micro-batch whose log-probabilities are all that is asked: no loss.
//   log_probs: [2 * pairs]; written.
SpanLoss log_probs_of_pairs(const MicroBatch& batch, std::vector<double>& log_probs);

}  // namespace lockstep::runtime
