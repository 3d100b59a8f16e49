// Every kernel against a plain double-precision reference. Tolerances are of the largest element;
// fp32 rounds at 6e-8, sums of a few hundred terms at some 1e-7.
#include "runtime/kernels/elementwise.h"

#include <ostream>
#include <tuple>
#include <utility>

#include "tests/runtime/kernels/kernel_test_data.h"

namespace lockstep::runtime {

void PrintTo(Gelu form, std::ostream* out) {
  *out << (form == Gelu::kTanh ? "tanh" : "erf");
}

namespace {

size_t at(int64_t i) {
  return static_cast<size_t>(i);
}
double d(float x) {
  return static_cast<double>(x);
}

TEST(RmsNormTest, AgreesWithDoubles) {
  const int64_t rows = 9, channels = 197;
  const std::vector<float> x = random_floats(rows * channels, 1, 3);
  const std::vector<float> weight = random_floats(channels, 2);
  const std::vector<float> dy = random_floats(rows * channels, 3);
  const std::vector<float> residual = random_floats(rows * channels, 4);
  std::vector<float> y = unwritten(rows * channels), rstd = unwritten(rows);
  std::vector<float> dx = unwritten(rows * channels), d_weight = unwritten(channels);
  rms_norm_forward(rows, channels, 1e-5F, x.data(), weight.data(), y.data(), rstd.data());
  rms_norm_backward(rows, channels, x.data(), weight.data(), rstd.data(), dy.data(),
                    residual.data(), dx.data(), d_weight.data());
  std::vector<double> want_y(y.size()), want_dx(y.size()), want_dw(at(channels));
  for (int64_t r = 0; r < rows; ++r) {
    double squares = 0, dot = 0;
    for (int64_t c = 0; c < channels; ++c)
      squares += d(x[at(r * channels + c)]) * d(x[at(r * channels + c)]);
    const double scale = 1 / std::sqrt(squares / channels + d(1e-5F));
    for (int64_t c = 0; c < channels; ++c) {
      const size_t i = at(r * channels + c);
      want_y[i] = d(x[i]) * scale * d(weight[at(c)]);
      want_dw[at(c)] += d(dy[i]) * d(x[i]) * scale;
      dot += d(dy[i]) * d(weight[at(c)]) * d(x[i]);
    }
    for (int64_t c = 0; c < channels; ++c) {
      const size_t i = at(r * channels + c);
      want_dx[i] = d(residual[i]) +
                   scale * (d(dy[i]) * d(weight[at(c)]) - d(x[i]) * dot / channels * scale * scale);
    }
  }
  EXPECT_LT(relative_max_error(y, want_y), 1e-6);
  EXPECT_LT(relative_max_error(dx, want_dx), 1e-6);
  EXPECT_LT(relative_max_error(d_weight, want_dw), 1e-6);
}

TEST(RmsNormTest, TakesNoResidualAndAnAliasedOne) {
  const int64_t rows = 3, channels = 35;
  const std::vector<float> x = random_floats(rows * channels, 1);
  const std::vector<float> weight = random_floats(channels, 2);
  const std::vector<float> dy = random_floats(rows * channels, 3);
  const std::vector<float> residual = random_floats(rows * channels, 4);
  const std::vector<float> rstd = random_floats(rows, 5);
  std::vector<float> d_weight(at(channels));
  const auto backward = [&](const float* before, std::vector<float>& dx) {
    rms_norm_backward(rows, channels, x.data(), weight.data(), rstd.data(), dy.data(), before,
                      dx.data(), d_weight.data());
  };
  std::vector<float> none = unwritten(rows * channels), zeros = none, apart = none,
                     alias = residual;
  const std::vector<float> zero(none.size(), 0.0F);
  backward(nullptr, none);
  backward(zero.data(), zeros);
  backward(residual.data(), apart);
  backward(alias.data(), alias);
  EXPECT_TRUE(same_bits(none, zeros));
  EXPECT_TRUE(same_bits(apart, alias));
}

// 1e-7 for the turn itself; the table is held to the double angle of its fp32 frequency.
TEST(RotaryTest, TurnsPairsAndBackwardUndoesIt) {
  const RotaryShape shape{.batch = 2, .seq = 5, .num_heads = 3, .head_dim = 22, .row_elems = 80};
  std::vector<float> table = unwritten(shape.seq * shape.head_dim);
  rotary_table(shape.seq, shape.head_dim, 10000, table.data());
  const std::vector<float> before = random_floats(shape.batch * shape.seq * shape.row_elems, 1);
  std::vector<float> rows = before;
  rotary_forward(shape, table.data(), rows.data());
  std::vector<double> want(before.begin(), before.end());
  const int64_t half = shape.head_dim / 2;
  for (int64_t r = 0; r < shape.batch * shape.seq; ++r) {
    for (int64_t h = 0; h < shape.num_heads; ++h) {
      for (int64_t i = 0; i < half; ++i) {
        const double angle = static_cast<double>(r % shape.seq) *
                             std::pow(10000.0, -2.0 * static_cast<double>(i) / 22.0);
        const size_t a = at(r * shape.row_elems + h * shape.head_dim + i);
        const size_t b = a + at(half);
        want[a] = d(before[a]) * std::cos(angle) - d(before[b]) * std::sin(angle);
        want[b] = d(before[b]) * std::cos(angle) + d(before[a]) * std::sin(angle);
      }
    }
  }
  EXPECT_LT(relative_max_error(rows, want), 1e-6);
  rotary_backward(shape, table.data(), rows.data());
  EXPECT_LT(relative_max_error(rows, {before.begin(), before.end()}), 5e-7);
}

TEST(SwigluTest, AgreesWithDoublesAndKeepsExtremesFinite) {
  const int64_t rows = 3, ff = 77;
  std::vector<float> gate_up = random_floats(rows * 2 * ff, 1, 6);
  gate_up[0] = -200;
  gate_up[1] = 200;
  const std::vector<float> d_out = random_floats(rows * ff, 2);
  std::vector<float> out = unwritten(rows * ff), act = out, grads = unwritten(rows * 2 * ff);
  swiglu_forward(rows, ff, gate_up.data(), out.data());
  swiglu_backward(rows, ff, gate_up.data(), d_out.data(), grads.data(), act.data());
  std::vector<double> want_out(out.size()), want_grads(grads.size());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < ff; ++i) {
      const double g = d(gate_up[at(r * 2 * ff + i)]), up = d(gate_up[at(r * 2 * ff + ff + i)]);
      const double s = 1 / (1 + std::exp(-g)), dy = d(d_out[at(r * ff + i)]);
      want_out[at(r * ff + i)] = g * s * up;
      want_grads[at(r * 2 * ff + i)] = dy * up * s * (1 + g * (1 - s));
      want_grads[at(r * 2 * ff + ff + i)] = dy * g * s;
    }
  }
  EXPECT_LT(relative_max_error(out, want_out), 1e-6);
  EXPECT_LT(relative_max_error(grads, want_grads), 1e-6);
  EXPECT_TRUE(same_bits(out, act));
  std::vector<float> in_place = gate_up;
  swiglu_backward(rows, ff, in_place.data(), d_out.data(), in_place.data(), act.data());
  EXPECT_TRUE(same_bits(in_place, grads));
}

TEST(SoftmaxTest, AddsUpToOneHoweverLargeTheElements) {
  const int64_t rows = 5, n = 37;
  std::vector<float> x = random_floats(rows * n, 1, 4);
  for (int64_t i = 0; i < n; ++i) x[at(i)] += 1e4F;
  const std::vector<float> before = x;
  softmax(rows, n, x.data());
  for (int64_t row = 0; row < rows; ++row) {
    const auto value = [&](int64_t i) { return d(before[at(row * n + i)]); };
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += std::exp(value(i) - value(0));
    for (int64_t i = 0; i < n; ++i) {
      const double want = std::exp(value(i) - value(0)) / sum;
      EXPECT_NEAR(d(x[at(row * n + i)]), want, 1e-6 * want);
    }
  }
}

// GELU and its slope, in doubles.
std::pair<double, double> gelu_of(Gelu form, double x) {
  if (form == Gelu::kErf) {
    const double share = std::erfc(-x / std::sqrt(2.0)) / 2;
    return {x * share, share + x * std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1.0))};
  }
  const double root = std::sqrt(2 / std::acos(-1.0));
  const double t = std::tanh(root * (x + 0.044715 * x * x * x));
  return {x / 2 * (1 + t), (1 + t) / 2 + x / 2 * (1 - t * t) * root * (1 + 3 * 0.044715 * x * x)};
}

class GeluTest : public testing::TestWithParam<Gelu> {};
INSTANTIATE_TEST_SUITE_P(Forms, GeluTest, testing::Values(Gelu::kTanh, Gelu::kErf));

TEST_P(GeluTest, AgreesWithDoublesGatedAndPlain) {
  const Gelu form = GetParam();
  const int64_t rows = 3, ff = 77;
  std::vector<float> gate_up = random_floats(rows * 2 * ff, 1, 3);
  gate_up[0] = -90;
  gate_up[1] = 90;
  const std::vector<float> d_out = random_floats(rows * ff, 2);
  std::vector<float> out = unwritten(rows * ff), act = out, plain = out, d_plain = out;
  std::vector<float> grads = unwritten(rows * 2 * ff);
  geglu_forward(form, rows, ff, gate_up.data(), out.data());
  geglu_backward(form, rows, ff, gate_up.data(), d_out.data(), grads.data(), act.data());
  EXPECT_TRUE(same_bits(out, act));
  gelu_forward(form, rows * ff, gate_up.data(), plain.data());
  gelu_backward(form, rows * ff, gate_up.data(), d_out.data(), d_plain.data(), act.data());
  EXPECT_TRUE(same_bits(plain, act));
  std::vector<double> want_out(out.size()), want_plain = want_out, want_d_plain = want_out;
  std::vector<double> want_grads(grads.size());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < ff; ++i) {
      const auto [value, slope] = gelu_of(form, d(gate_up[at(r * 2 * ff + i)]));
      const double up = d(gate_up[at(r * 2 * ff + ff + i)]), dy = d(d_out[at(r * ff + i)]);
      want_out[at(r * ff + i)] = value * up;
      want_grads[at(r * 2 * ff + i)] = dy * up * slope;
      want_grads[at(r * 2 * ff + ff + i)] = dy * value;
    }
  }
  for (size_t i = 0; i < plain.size(); ++i) {
    std::tie(want_plain[i], want_d_plain[i]) = gelu_of(form, d(gate_up[i]));
    want_d_plain[i] *= d(d_out[i]);
  }
  EXPECT_LT(relative_max_error(out, want_out), 1e-6);
  EXPECT_LT(relative_max_error(grads, want_grads), 1e-6);
  EXPECT_LT(relative_max_error(plain, want_plain), 1e-6);
  EXPECT_LT(relative_max_error(d_plain, want_d_plain), 1e-6);
}

// Also element by element: a hyperbolic tangent from 1 - 2 / (e^2x + 1) has no digits near 0.
TEST(SoftcapTest, KeepsTheDigitsOfSmallValuesAndBoundsLargeOnes) {
  std::vector<float> x = random_floats(200, 1, 4);
  for (size_t i = 0; i < 50; ++i) x[i] *= 1e-4F;
  x[50] = 1e9F;
  x[51] = -1e9F;
  const std::vector<float> before = x;
  std::vector<float> gradient(x.size(), 1.0F);
  softcap_forward(200, 3.0F, x.data());
  softcap_backward(200, 3.0F, x.data(), gradient.data());
  for (size_t i = 0; i < x.size(); ++i) {
    const double want = 3 * std::tanh(d(before[i]) / 3);
    EXPECT_NEAR(d(x[i]), want, 1e-6 * std::abs(want)) << before[i];
    EXPECT_NEAR(d(gradient[i]), 1 - want * want / 9, 1e-6) << before[i];
  }
}

TEST(LayerNormTest, AgreesWithDoubles) {
  const int64_t rows = 4, channels = 53;
  const std::vector<float> x = random_floats(rows * channels, 1, 3);
  const std::vector<float> weight = random_floats(channels, 2), bias = random_floats(channels, 3);
  const std::vector<float> dy = random_floats(rows * channels, 4);
  const std::vector<float> residual = random_floats(rows * channels, 5);
  std::vector<float> y = unwritten(rows * channels), dx = y, stats = unwritten(2 * rows);
  std::vector<float> d_weight = unwritten(channels), d_bias = d_weight;
  layer_norm_forward(rows, channels, 1e-5F, x.data(), weight.data(), bias.data(), y.data(),
                     stats.data());
  layer_norm_backward(rows, channels, x.data(), weight.data(), stats.data(), dy.data(),
                      residual.data(), dx.data(), d_weight.data(), d_bias.data());
  std::vector<double> want_y(y.size()), want_dx(y.size());
  std::vector<double> want_d_weight(weight.size()), want_d_bias(weight.size());
  for (int64_t r = 0; r < rows; ++r) {
    double mean = 0, variance = 0, sum = 0, dots = 0;
    for (int64_t c = 0; c < channels; ++c) mean += d(x[at(r * channels + c)]) / channels;
    for (int64_t c = 0; c < channels; ++c) {
      variance += std::pow(d(x[at(r * channels + c)]) - mean, 2) / channels;
    }
    const double rstd = 1 / std::sqrt(variance + 1e-5);
    const auto normed = [&](int64_t c) { return (d(x[at(r * channels + c)]) - mean) * rstd; };
    for (int64_t c = 0; c < channels; ++c) {
      const double grad = d(dy[at(r * channels + c)]) * d(weight[at(c)]);
      sum += grad / channels;
      dots += grad * normed(c) / channels;
      want_d_weight[at(c)] += d(dy[at(r * channels + c)]) * normed(c);
      want_d_bias[at(c)] += d(dy[at(r * channels + c)]);
    }
    for (int64_t c = 0; c < channels; ++c) {
      const size_t i = at(r * channels + c);
      want_y[i] = normed(c) * d(weight[at(c)]) + d(bias[at(c)]);
      want_dx[i] = rstd * (d(dy[i]) * d(weight[at(c)]) - sum - normed(c) * dots) + d(residual[i]);
    }
  }
  EXPECT_LT(relative_max_error(y, want_y), 1e-6);
  EXPECT_LT(relative_max_error(dx, want_dx), 1e-6);
  EXPECT_LT(relative_max_error(d_weight, want_d_weight), 1e-6);
  EXPECT_LT(relative_max_error(d_bias, want_d_bias), 1e-6);
}

TEST(EmbeddingTest, CopiesRowsAndSumsTheirGradients) {
  const std::vector<int32_t> tokens = {4, 0, 4, 2};
  const int64_t channels = 19, vocab = 5;
  const std::vector<float> table = random_floats(vocab * channels, 1);
  std::vector<float> y = unwritten(4 * channels), d_table(at(vocab * channels));
  embedding_forward(4, channels, tokens.data(), table.data(), y.data());
  embedding_backward(4, channels, tokens.data(), 1.0F, y.data(), d_table.data());
  for (int64_t c = 0; c < channels; ++c) {
    EXPECT_EQ(y[at(channels + c)], table[at(c)]);
    EXPECT_EQ(d_table[at(c)], table[at(c)]);
    EXPECT_EQ(d_table[at(channels + c)], 0);
    EXPECT_EQ(d_table[at(4 * channels + c)], 2 * table[at(4 * channels + c)]);
  }
}

TEST(CrossEntropyTest, AgreesWithDoublesAndSkipsNegativeLabels) {
  const int64_t rows = 6, vocab = 261;
  std::vector<float> logits = random_floats(rows * vocab, 1, 20);
  logits[7] = 1000;  // a naive exponential overflows
  const std::vector<int32_t> labels = {7, 260, -1, 0, -100, 100};
  std::vector<float> grads = logits;
  const double loss = cross_entropy(rows, vocab, labels.data(), 0.25F, grads.data());
  double want_loss = 0;
  std::vector<double> want(grads.size());
  for (int64_t r = 0; r < rows; ++r) {
    if (labels[at(r)] < 0) continue;
    double top = -1e30, sum = 0;
    for (int64_t i = 0; i < vocab; ++i) top = std::max(top, d(logits[at(r * vocab + i)]));
    for (int64_t i = 0; i < vocab; ++i) sum += std::exp(d(logits[at(r * vocab + i)]) - top);
    for (int64_t i = 0; i < vocab; ++i) {
      const double p = std::exp(d(logits[at(r * vocab + i)]) - top) / sum;
      want[at(r * vocab + i)] = 0.25 * (p - (i == labels[at(r)] ? 1 : 0));
    }
    want_loss += std::log(sum) + top - d(logits[at(r * vocab + labels[at(r)])]);
  }
  EXPECT_NEAR(loss / want_loss, 1, 1e-6);
  EXPECT_LT(relative_max_error(grads, want), 1e-6);
}

TEST(CrossEntropyTest, LetsNotANumberThrough) {
  std::vector<float> logits(40, 0.0F);
  logits[33] = std::nanf("");
  const int32_t label = 2;
  EXPECT_TRUE(std::isnan(cross_entropy(1, 40, &label, 1, logits.data())));
}

TEST(AdamWTest, FollowsTorchOverSeveralSteps) {
  const int64_t n = 101;
  std::vector<float> weight = random_floats(n, 1), m(at(n)), v(at(n));
  std::vector<double> w2(weight.begin(), weight.end()), m2(at(n)), v2(at(n));
  AdamStep step{.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1};
  step.gradient_scale = 0.5;
  for (int t = 1; t <= 5; ++t) {
    const std::vector<float> gradient = random_floats(n, 10 + static_cast<uint64_t>(t));
    step.bias_correction1 = 1 - std::pow(step.beta1, t);
    step.bias_correction2 = 1 - std::pow(step.beta2, t);
    adamw(step, n, gradient.data(), weight.data(), m.data(), v.data());
    for (size_t i = 0; i < w2.size(); ++i) {
      const double g = 0.5 * d(gradient[i]);
      w2[i] -= step.lr * step.weight_decay * w2[i];
      m2[i] = step.beta1 * m2[i] + (1 - step.beta1) * g;
      v2[i] = step.beta2 * v2[i] + (1 - step.beta2) * g * g;
      w2[i] -= step.lr / step.bias_correction1 * m2[i] /
               (std::sqrt(v2[i]) / std::sqrt(step.bias_correction2) + step.eps);
    }
  }
  EXPECT_LT(relative_max_error(weight, w2), 1e-6);
  EXPECT_LT(relative_max_error(m, m2), 1e-6);
  EXPECT_LT(relative_max_error(v, v2), 1e-6);
}

// A slice is updated as the whole is, wherever it begins, so ranks may cut a unit anywhere.
TEST(AdamWTest, GivesASliceTheBitsOfTheWhole) {
  const int64_t n = 237;
  const AdamStep step{.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};
  const std::vector<float> gradient = random_floats(n, 1), w0 = random_floats(n, 2);
  const std::vector<float> m0 = random_floats(n, 3), v0(at(n), 0.3F);
  for (const KernelTable& table : supported_kernels()) {
    std::vector<float> w = w0, m = m0, v = v0;
    table.adamw(step, n, gradient.data(), w.data(), m.data(), v.data());
    for (const int64_t cut : {1, 16, 77, 230}) {
      std::vector<float> w2 = w0, m2 = m0, v2 = v0;
      table.adamw(step, cut, gradient.data(), w2.data(), m2.data(), v2.data());
      table.adamw(step, n - cut, gradient.data() + cut, w2.data() + cut, m2.data() + cut,
                  v2.data() + cut);
      EXPECT_TRUE(same_bits(w, w2) && same_bits(m, m2) && same_bits(v, v2)) << table.isa << cut;
    }
  }
}

TEST(SumSquaresTest, GivesEachChunkAloneTheBitsOfTheWhole) {
  const int64_t n = 3 * kNormChunkElems + 77;
  const std::vector<float> x = random_floats(n, 1);
  std::vector<double> whole(4);
  sum_squares_chunks(n, x.data(), whole.data());
  for (int64_t chunk = 0; chunk < 4; ++chunk) {
    const int64_t begin = chunk * kNormChunkElems;
    double want = 0, alone = 0;
    for (int64_t i = begin; i < std::min(n, begin + kNormChunkElems); ++i)
      want += d(x[at(i)]) * d(x[at(i)]);
    sum_squares_chunks(std::min(kNormChunkElems, n - begin), x.data() + begin, &alone);
    EXPECT_EQ(alone, whole[at(chunk)]);
    EXPECT_NEAR(alone / want, 1, 1e-14);
  }
}

}  // namespace
}  // namespace lockstep::runtime
