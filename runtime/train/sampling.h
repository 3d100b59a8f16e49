// Which token comes next, given the logits: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::runtime {

struct Sampling {
  double temperature = 0.8;  // 0 = always the likeliest token
  int64_t top_k = 0;         // choose among the likeliest so many; 0 = among all
  double top_p = 1;          // among the likeliest whose probabilities reach this sum; 1 = all
};

// The probability of every token: softmax(logits / temperature) over those that top_k, then top_p,
// leave, 0 of others. Tokens as likely as the last of top_k stay, too; at least one always does.
//   logits: [vocab], at least 1; the result: [vocab].
// Source: TemperatureLogitsWarper, TopKLogitsWarper and TopPLogitsWarper of Transformers 5, in this
// order.
std::vector<double> token_probabilities(std::span<const float> logits, const Sampling& sampling);

// The index of the token on which `uniform`, in [0, 1), falls; one with a probability above 0.
int32_t draw_token(std::span<const double> probabilities, double uniform);

}  // namespace lockstep::runtime
