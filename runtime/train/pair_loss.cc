#include "runtime/train/pair_loss.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "runtime/data/token_source.h"

namespace lockstep::runtime {
namespace {

using common::PreferenceConfig;
using common::Task;
using Loss = PreferenceConfig::Loss;

// log(sigmoid(x)), also far from 0.
double log_sigmoid(double x) {
  return x < 0 ? x - std::log1p(std::exp(x)) : -std::log1p(std::exp(-x));
}

double sigmoid(double x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}

// One answer of a pair.
struct Answer {
  std::size_t span = 0;     // of its labels; the one before is its prompt's, if it has one
  bool has_prompt = false;  // rows before its first label
  double num_labels = 0;
};

// Where the answers of a micro-batch lie among its spans.
struct PairSpans {
  std::vector<int64_t> ends;
  std::vector<Answer> answers;  // [2 * pairs]
};

bool is_label(int32_t label) {
  return label != kNoLabel;
}

// Each row is a prompt and an answer, from its first label on; what is behind the pairs is a span
// of its own.
PairSpans find_spans(const MicroBatch& batch) {
  PairSpans found;
  const auto length = static_cast<std::size_t>(batch.row_tokens);
  for (std::size_t row = 0; row < 2 * batch.samples.size(); ++row) {
    const auto labels = std::span(batch.labels).subspan(row * length, length);
    const auto first = std::find_if(labels.begin(), labels.end(), is_label);
    const bool has_prompt = first != labels.begin() && first != labels.end();
    if (has_prompt) {
      found.ends.push_back(static_cast<int64_t>(row * length) + (first - labels.begin()));
    }
    found.answers.push_back(
        {.span = found.ends.size(),
         .has_prompt = has_prompt,
         .num_labels = static_cast<double>(std::count_if(first, labels.end(), is_label))});
    found.ends.push_back(static_cast<int64_t>((row + 1) * length));
  }
  const auto all = static_cast<int64_t>(batch.labels.size());
  if (found.ends.empty() || found.ends.back() != all) found.ends.push_back(all);
  return found;
}

// The place in its row of the token whose score is the row's: the last one of its document that is
// no pad_token, as Transformers finds it; the first if all are.
std::size_t scored_place(const MicroBatch& batch, std::size_t row, int32_t pad_token) {
  const auto length = static_cast<std::size_t>(batch.row_tokens);
  const auto labels = std::span(batch.labels).subspan(row * length, length);
  const auto tokens = std::span(batch.tokens).subspan(row * length, length);
  // The last label is of the document's last token, or of the first that is cut off.
  const auto last = std::find_if(labels.rbegin(), labels.rend(), is_label);
  std::size_t place = std::min(static_cast<std::size_t>(labels.rend() - last), length - 1);
  while (place > 0 && tokens[place] == pad_token) --place;
  return place;
}

// A span up to the scored token of each row, and one of what is behind the last of them.
PairSpans find_scored_spans(const MicroBatch& batch, int32_t pad_token) {
  PairSpans found;
  const auto length = static_cast<std::size_t>(batch.row_tokens);
  for (std::size_t row = 0; row < 2 * batch.samples.size(); ++row) {
    found.answers.push_back({.span = found.ends.size()});
    const std::size_t place = scored_place(batch, row, pad_token);
    found.ends.push_back(static_cast<int64_t>(row * length + place + 1));
  }
  const auto all = static_cast<int64_t>(batch.labels.size());
  if (found.ends.empty() || found.ends.back() != all) found.ends.push_back(all);
  return found;
}

// A loss of one pair and its derivatives by what the answers' values are.
struct PairLoss {
  double loss = 0;
  double by_chosen = 0, by_rejected = 0;
};

// Of the answers' log-ratios; with kIpo their means per token.
PairLoss dpo_loss(const PreferenceConfig& preference, double chosen, double rejected) {
  const double difference = chosen - rejected;
  const double x = preference.beta * difference;
  PairLoss result;
  double slope = 0;  // by the difference
  switch (preference.loss) {
    case Loss::kSigmoid: {
      const double flipped = preference.label_smoothing;
      result.loss = -(1 - flipped) * log_sigmoid(x) - flipped * log_sigmoid(-x);
      slope = preference.beta * (flipped * sigmoid(x) - (1 - flipped) * sigmoid(-x));
      break;
    }
    case Loss::kHinge:
      result.loss = std::max(0.0, 1 - x);
      slope = x < 1 ? -preference.beta : 0;
      break;
    case Loss::kIpo: {
      const double miss = difference - 1 / (2 * preference.beta);
      result.loss = miss * miss;
      slope = 2 * miss;
      break;
    }
  }
  result.by_chosen = slope;
  result.by_rejected = -slope;
  return result;
}

// The largest mean log-probability whose odds are told from certainty. Kernels sum probabilities in
// fp32, whose rounding hides up to 2^-24 of what the other tokens have: with this bound the slope
// times what is hidden stays below beta, where it would be infinite at 0.
constexpr double kMaxLogP = -0x1p-24;

// Of the mean log-probabilities of the answers' tokens, the part that compares them.
PairLoss odds_ratio_loss(double beta, double chosen, double rejected) {
  chosen = std::min(chosen, kMaxLogP);
  rejected = std::min(rejected, kMaxLogP);
  const auto log_odds = [](double log_p) { return log_p - std::log(-std::expm1(log_p)); };
  const double ratio = log_odds(chosen) - log_odds(rejected);
  const double slope = -beta * sigmoid(-ratio);
  return {.loss = -beta * log_sigmoid(ratio),
          .by_chosen = slope / -std::expm1(chosen),
          .by_rejected = -slope / -std::expm1(rejected)};
}

// What one pair adds to the figures.
PairFigures figures_of(double beta, double chosen, double rejected, double chosen_logps,
                       double rejected_logps) {
  return {.reward_chosen = beta * chosen,
          .reward_rejected = beta * rejected,
          .accuracy = chosen > rejected ? 1.0 : 0.0,
          .logps_chosen = chosen_logps,
          .logps_rejected = rejected_logps};
}

// The loss of pair `pair`; its part of the weights is written.
double weigh_dpo(const PairTerms& terms, const PairSpans& spans, std::size_t pair,
                 std::span<const double> sums, std::span<double> weights, PairFigures& figures) {
  const Answer& chosen = spans.answers[2 * pair];
  const Answer& rejected = spans.answers[2 * pair + 1];
  const double chosen_ratio = -sums[chosen.span] - terms.reference[2 * pair];
  const double rejected_ratio = -sums[rejected.span] - terms.reference[2 * pair + 1];
  const bool is_mean = terms.preference.loss == Loss::kIpo;
  const double of_chosen = is_mean ? chosen.num_labels : 1.0;
  const double of_rejected = is_mean ? rejected.num_labels : 1.0;
  const PairLoss result =
      dpo_loss(terms.preference, chosen_ratio / of_chosen, rejected_ratio / of_rejected);
  weights[chosen.span] = -result.by_chosen / of_chosen;
  weights[rejected.span] = -result.by_rejected / of_rejected;
  figures = add(figures, figures_of(terms.preference.beta, chosen_ratio, rejected_ratio,
                                    -sums[chosen.span], -sums[rejected.span]));
  return result.loss;
}

double weigh_orpo(const PairTerms& terms, const PairSpans& spans, std::size_t pair,
                  std::span<const double> sums, std::span<double> weights, PairFigures& figures) {
  const Answer& chosen = spans.answers[2 * pair];
  const Answer& rejected = spans.answers[2 * pair + 1];
  const double chosen_logps = -sums[chosen.span] / chosen.num_labels;
  const double rejected_logps = -sums[rejected.span] / rejected.num_labels;
  const PairLoss ratio = odds_ratio_loss(terms.preference.beta, chosen_logps, rejected_logps);
  weights[chosen.span] = terms.token_weight - ratio.by_chosen / chosen.num_labels;
  weights[rejected.span] = -ratio.by_rejected / rejected.num_labels;
  double tokens = sums[chosen.span];
  if (chosen.has_prompt) {
    weights[chosen.span - 1] = terms.token_weight;
    tokens += sums[chosen.span - 1];
  }
  figures = add(figures, figures_of(terms.preference.beta, chosen_logps, rejected_logps,
                                    chosen_logps, rejected_logps));
  return terms.token_weight * tokens + ratio.loss;
}

// Of the scores of both answers.
double weigh_reward(const PairTerms& terms, const PairSpans& spans, std::size_t pair,
                    std::span<const double> scores, std::span<double> weights,
                    PairFigures& figures) {
  const std::size_t of_chosen = spans.answers[2 * pair].span;
  const std::size_t of_rejected = spans.answers[2 * pair + 1].span;
  const double chosen = scores[of_chosen];
  const double rejected = scores[of_rejected];
  const double center = terms.preference.center_coefficient;
  const double sum = chosen + rejected;
  const double slope = -sigmoid(rejected - chosen);  // of the comparison, by the difference
  weights[of_chosen] = slope + 2 * center * sum;
  weights[of_rejected] = -slope + 2 * center * sum;
  figures = add(figures, figures_of(1, chosen, rejected, 0, 0));
  return -log_sigmoid(chosen - rejected) + center * sum * sum;
}

using WeighPair = double (*)(const PairTerms&, const PairSpans&, std::size_t,
                             std::span<const double>, std::span<double>, PairFigures&);

WeighPair weigh_pair_of(Task task) {
  if (task == Task::kReward) return weigh_reward;
  return task == Task::kOrpo ? weigh_orpo : weigh_dpo;
}

}  // namespace

std::vector<int32_t> labels_of_pairs(Task task, const MicroBatch& batch) {
  std::vector<int32_t> labels = batch.labels;
  if (task != Task::kOrpo) return labels;
  const auto length = static_cast<std::size_t>(batch.row_tokens);
  for (std::size_t pair = 0; pair < batch.samples.size(); ++pair) {
    const std::size_t begin = 2 * pair * length;
    for (std::size_t i = begin; i + 1 < begin + length && !is_label(labels[i]); ++i) {
      labels[i] = batch.tokens[i + 1];
    }
  }
  return labels;
}

SpanLoss pair_loss(const PairTerms& terms, const MicroBatch& batch, PairFigures& figures) {
  PairSpans spans =
      terms.task == Task::kReward ? find_scored_spans(batch, terms.pad_token) : find_spans(batch);
  std::vector<int64_t> ends = spans.ends;
  auto weigh = [&terms, &figures, spans = std::move(spans)](std::span<const double> sums,
                                                            std::span<double> weights) {
    const WeighPair weigh_pair = weigh_pair_of(terms.task);
    figures = {};
    double loss = 0;
    for (std::size_t pair = 0; 2 * pair < spans.answers.size(); ++pair) {
      loss += weigh_pair(terms, spans, pair, sums, weights, figures);
    }
    return loss;
  };
  return {.ends = std::move(ends), .weigh = std::move(weigh)};
}

PairBatch::PairBatch(PairTerms terms, const MicroBatch& batch, std::span<const double> reference,
                     PairFigures& figures)
    : terms_(std::move(terms)), labels_(labels_of_pairs(terms_.task, batch)) {
  for (const int64_t sample : batch.samples) {
    if (reference.empty()) break;
    const auto of_sample = reference.subspan(static_cast<std::size_t>(2 * sample), 2);
    terms_.reference.insert(terms_.reference.end(), of_sample.begin(), of_sample.end());
  }
  loss_ = pair_loss(terms_, batch, figures);
}

void PairBatch::give_to(MicroBatchIo& io) const {
  io.labels = labels_.data();
  io.span_loss = &loss_;
}

double token_weight_of(int64_t num_pairs, int64_t num_tokens) {
  return num_tokens == 0 ? 0 : static_cast<double>(num_pairs) / static_cast<double>(num_tokens);
}

SpanLoss log_probs_of_pairs(const MicroBatch& batch, std::vector<double>& log_probs) {
  PairSpans spans = find_spans(batch);
  std::vector<int64_t> ends = spans.ends;
  auto weigh = [&log_probs, spans = std::move(spans)](std::span<const double> sums,
                                                      std::span<double>) {
    log_probs.clear();
    for (const Answer& answer : spans.answers) log_probs.push_back(-sums[answer.span]);
    return 0.0;
  };
  return {.ends = std::move(ends), .weigh = std::move(weigh)};
}

}  // namespace lockstep::runtime
