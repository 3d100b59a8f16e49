#include "runtime/model/decoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include <gtest/gtest.h>

#include "runtime/common/estimate_memory.h"
#include "runtime/model/head.h"
#include "tests/runtime/model/test_models.h"

namespace lockstep::runtime {
namespace {

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(DecoderTest, ForwardAndBackwardTwiceGiveTheSameBits) {
  for (const TestModel& model : {odd_model(), wide_head_model(), single_token_model()}) {
    Decoder decoder(model.config, model.shape);
    const UnitBuffers params = random_params(model.config, 7);
    const std::vector<int32_t> tokens =
        random_tokens(model.shape.rows(), model.config.vocab_size, 1);
    const std::vector<int32_t> labels =
        random_tokens(model.shape.rows(), model.config.vocab_size, 2);
    const MicroBatchIo io = {.tokens = tokens.data(), .labels = labels.data(), .loss_scale = 0.01f};

    const PassResult first = run_pass(decoder, params, io);
    const PassResult second = run_pass(decoder, params, io);
    Decoder other(model.config, model.shape);
    const PassResult third = run_pass(other, params, io);

    EXPECT_EQ(first.loss_sum, second.loss_sum);
    EXPECT_EQ(first.loss_sum, third.loss_sum);
    for (size_t i = 0; i < params.size(); ++i) {
      EXPECT_TRUE(same_bits(first.gradients[i], second.gradients[i])) << model.name << " " << i;
      EXPECT_TRUE(same_bits(first.gradients[i], third.gradients[i])) << model.name << " " << i;
    }
  }
}

// Spans that all count 1 are the sum over all labels; a span that counts 0 has no gradient, and
// spans that cross the chunks of logits change nothing.
TEST(DecoderTest, ALossOfSpansWeighsTheirGradients) {
  TestModel model = odd_model();
  model.config.logit_softcap = 2;
  const UnitBuffers params = random_params(model.config, 7);
  const std::vector<int32_t> tokens = random_tokens(model.shape.rows(), model.config.vocab_size, 1);
  const std::vector<int32_t> labels = random_tokens(model.shape.rows(), model.config.vocab_size, 2);
  std::vector<int32_t> first_labels = labels;
  std::fill(first_labels.begin() + 30, first_labels.end(), -1);
  MicroBatchIo io = {.tokens = tokens.data(), .labels = labels.data(), .loss_scale = 0.01f};
  Decoder decoder(model.config, model.shape);
  const PassResult plain = run_pass(decoder, params, io);
  io.labels = first_labels.data();
  const PassResult first = run_pass(decoder, params, io);

  io.labels = labels.data();
  std::vector<double> weights = {1, 1, 1};
  const SpanLoss spans = {.ends = {30, 41, model.shape.rows()},
                          .weigh = [&](std::span<const double> sums, std::span<double> out) {
                            std::copy(weights.begin(), weights.end(), out.begin());
                            return weights[0] * sums[0] + weights[1] * sums[1] +
                                   weights[2] * sums[2];
                          }};
  io.span_loss = &spans;
  const PassResult all = run_pass(decoder, params, io);
  EXPECT_NEAR(all.loss_sum, plain.loss_sum, 1e-9 * plain.loss_sum);
  weights = {1, 0, 0};
  const PassResult some = run_pass(decoder, params, io);
  EXPECT_NEAR(some.loss_sum, first.loss_sum, 1e-9 * first.loss_sum);
  for (size_t i = 0; i < params.size(); ++i) {
    EXPECT_TRUE(same_bits(all.gradients[i], plain.gradients[i])) << i;
    // Zeros may have another sign.
    EXPECT_EQ(some.gradients[i], first.gradients[i]) << i;
  }
}

TEST(DecoderTest, FrozenUnitsChangeNoOtherGradient) {
  for (const bool is_tied : {false, true}) {
    TestModel model = odd_model();
    model.config.tie_word_embeddings = is_tied;
    const UnitBuffers params = random_params(model.config, 7);
    const std::vector<int32_t> tokens =
        random_tokens(model.shape.rows(), model.config.vocab_size, 1);
    const std::vector<int32_t> labels =
        random_tokens(model.shape.rows(), model.config.vocab_size, 2);
    const MicroBatchIo io = {.tokens = tokens.data(), .labels = labels.data(), .loss_scale = 0.01f};
    for (const DType dtype : {DType::kFp32, DType::kBf16}) {
      Decoder decoder(model.config, model.shape, common::ActivationCheckpointing::kNone, dtype);
      const PassResult all = run_pass(decoder, params, io, dtype);
      for (const std::vector<bool>& frozen : {std::vector<bool>{true, false, true, false, false},
                                              std::vector<bool>{false, true, false, false, true}}) {
        const PassResult some = run_pass(decoder, params, io, dtype, frozen);
        EXPECT_EQ(some.loss_sum, all.loss_sum);
        for (size_t unit = 0; unit < frozen.size(); ++unit) {
          if (frozen[unit]) {
            EXPECT_TRUE(std::all_of(some.gradients[unit].begin(), some.gradients[unit].end(),
                                    [](float value) { return std::isnan(value); }))
                << unit;
          } else {
            EXPECT_TRUE(same_bits(some.gradients[unit], all.gradients[unit])) << unit;
          }
        }
      }
    }
  }
}

// Bound: 2e-5 of a unit's largest gradient, as each of the two is within 1e-5 of the truth.
TEST(DecoderTest, APackedSequenceHasTheLossAndGradientOfItsDocumentsAlone) {
  const TestModel model = packed_model();
  const BatchShape packed{.batch = 1, .seq = model.shape.seq};
  const UnitBuffers params = random_params(model.config, 7);
  const std::vector<int32_t> tokens = random_tokens(packed.rows(), model.config.vocab_size, 1);
  const std::vector<int32_t> labels = random_tokens(packed.rows(), model.config.vocab_size, 2);
  const std::vector<int32_t> positions = positions_of(model);
  Decoder decoder(model.config, packed);
  const PassResult all =
      run_pass(decoder, params,
               {.tokens = tokens.data(), .labels = labels.data(), .positions = positions.data()});

  double loss_sum = 0;
  std::vector<std::vector<double>> gradients;
  for (const std::vector<float>& unit : params) gradients.emplace_back(unit.size());
  for (int64_t begin = 0; begin < packed.seq; begin += model.document_rows) {
    const int64_t rows = std::min(model.document_rows, packed.seq - begin);
    Decoder alone(model.config, {.batch = 1, .seq = rows});
    const PassResult one =
        run_pass(alone, params, {.tokens = tokens.data() + begin, .labels = labels.data() + begin});
    loss_sum += one.loss_sum;
    for (size_t unit = 0; unit < gradients.size(); ++unit) {
      for (size_t i = 0; i < gradients[unit].size(); ++i) {
        gradients[unit][i] += static_cast<double>(one.gradients[unit][i]);
      }
    }
  }
  EXPECT_NEAR(all.loss_sum, loss_sum, 1e-6 * loss_sum);
  for (size_t unit = 0; unit < gradients.size(); ++unit) {
    double error = 0;
    double largest = 0;
    for (size_t i = 0; i < gradients[unit].size(); ++i) {
      error = std::max(error,
                       std::abs(static_cast<double>(all.gradients[unit][i]) - gradients[unit][i]));
      largest = std::max(largest, std::abs(gradients[unit][i]));
    }
    EXPECT_LT(error, 2e-5 * largest) << "unit " << unit;
  }
}

TEST(DecoderTest, ActivationCheckpointingKeepsLessAndGivesTheSameBits) {
  using common::ActivationCheckpointing;
  std::vector<TestModel> models = {odd_model(), packed_model(), tied_model(), wide_head_model(),
                                   single_token_model()};
  for (TestModel& model : family_models()) models.push_back(std::move(model));
  for (const TestModel& model : models) {
    const UnitBuffers params = random_params(model.config, 7);
    const std::vector<int32_t> tokens =
        random_tokens(model.shape.rows(), model.config.vocab_size, 1);
    const std::vector<int32_t> positions = positions_of(model);
    const MicroBatchIo io = {.tokens = tokens.data(),
                             .labels = tokens.data(),
                             .positions = positions.data(),
                             .loss_scale = 0.01f};
    Decoder keeping_all(model.config, model.shape);
    const PassResult reference = run_pass(keeping_all, params, io);
    int64_t more_bytes = keeping_all.buffer_bytes();
    for (const auto mode : {ActivationCheckpointing::kSelective, ActivationCheckpointing::kBlock}) {
      Decoder decoder(model.config, model.shape, mode);
      // With one layer there is nobody to share with.
      if (model.config.num_hidden_layers > 1) {
        EXPECT_LT(decoder.buffer_bytes(), more_bytes);
      }
      more_bytes = decoder.buffer_bytes();
      for (int repeat = 0; repeat < 2; ++repeat) {
        const PassResult pass = run_pass(decoder, params, io);
        EXPECT_EQ(pass.loss_sum, reference.loss_sum) << model.name;
        for (size_t i = 0; i < params.size(); ++i) {
          EXPECT_TRUE(same_bits(pass.gradients[i], reference.gradients[i])) << model.name << i;
        }
      }
    }
  }
}

TEST(DecoderTest, HoldsWhatTheEstimateSays) {
  using common::ActivationCheckpointing;
  std::vector<TestModel> models = {odd_model(), tied_model(), wide_head_model(),
                                   single_token_model(), large_vocabulary_model()};
  for (TestModel& model : family_models()) models.push_back(std::move(model));
  for (const TestModel& model : models) {
    std::vector<int64_t> unit_elems;
    for (const Unit& unit : model_units(model.config)) unit_elems.push_back(unit.num_elems);
    EXPECT_EQ(common::unit_parameters(model.config), unit_elems);
    for (const auto mode : {ActivationCheckpointing::kNone, ActivationCheckpointing::kSelective,
                            ActivationCheckpointing::kBlock}) {
      for (const DType dtype : {DType::kFp32, DType::kBf16}) {
        const common::TrainConfig train = {.model = model.config,
                                           .data = {.sequence_length = model.shape.seq},
                                           .batch = {.global_batch_size = model.shape.batch,
                                                     .micro_batch_size = model.shape.batch},
                                           .precision = dtype,
                                           .activation_checkpointing = mode};
        common::TrainConfig offloaded = train;
        offloaded.offload.activations = common::OffloadTarget::kNvme;
        for (const bool offloads : {false, true}) {
          const common::MemoryEstimate estimate =
              common::estimate_memory(offloads ? offloaded : train, common::Strategy::kDdp, 1);
          const Decoder decoder(model.config, model.shape, mode, dtype, offloads);
          EXPECT_EQ(estimate.activations + estimate.logits, decoder.buffer_bytes())
              << model.name << " " << to_string(dtype) << " " << offloads;
          EXPECT_EQ(estimate.nvme, decoder.num_saved_records() * decoder.saved_record_bytes());
        }
      }
    }
  }
}

TEST(DecoderTest, SixteenBitActivationsTakeLessMemory) {
  TestModel model = wide_head_model();
  const auto saved_bytes = [&model](DType dtype) {
    const auto bytes_of = [&](int64_t layers) {
      model.config.num_hidden_layers = layers;
      return Decoder(model.config, model.shape, common::ActivationCheckpointing::kNone, dtype)
          .buffer_bytes();
    };
    return bytes_of(5) - bytes_of(4);
  };
  EXPECT_LT(static_cast<double>(saved_bytes(DType::kBf16)),
            0.7 * static_cast<double>(saved_bytes(DType::kFp32)));
  EXPECT_EQ(saved_bytes(DType::kBf16), saved_bytes(DType::kFp16));
}

TEST(DecoderTest, ATiedHeadRefusesToRunWithoutTheEmbedding) {
  const TestModel model = tied_model();
  Decoder decoder(model.config, model.shape);
  const UnitBuffers params = random_params(model.config, 7);
  const std::vector<int32_t> tokens = random_tokens(model.shape.rows(), model.config.vocab_size, 1);
  MicroBatchIo io = {.tokens = tokens.data(), .labels = tokens.data()};
  std::vector<float> gradients(params.back().size());
  const int64_t last = decoder.num_blocks() - 1;
  EXPECT_THROW(decoder.forward_block(last, params.back().data(), io), std::logic_error);
  EXPECT_THROW(decoder.backward_block(last, params.back().data(), io, gradients.data()),
               std::logic_error);
}

TEST(DecoderTest, BlockCheckpointingKeepsOnlyInputsPerLayer) {
  TestModel model = odd_model();
  const auto bytes_of = [&model](int64_t layers) {
    model.config.num_hidden_layers = layers;
    return Decoder(model.config, model.shape, common::ActivationCheckpointing::kBlock)
        .buffer_bytes();
  };
  const int64_t input_bytes = 4 * model.shape.rows() * model.config.hidden_size;
  EXPECT_EQ(bytes_of(9) - bytes_of(3), 6 * input_bytes);
}

TEST(DecoderTest, TheHeadHoldsOneChunkOfLogitsHoweverManyRows) {
  const TestModel model = large_vocabulary_model();
  const Head head(model.config);
  const int64_t rows = model.shape.rows();
  const int64_t chunk_elems = kMinLossChunkRows * model.config.vocab_size;
  EXPECT_EQ(loss_chunk_rows(model.config.vocab_size), kMinLossChunkRows);
  EXPECT_LT(head.scratch_elems(model.shape), rows * model.config.vocab_size);
  EXPECT_LT(head.scratch_elems({.batch = 100, .seq = model.shape.seq}) - chunk_elems,
            100 * model.shape.seq * 3 * model.config.hidden_size);
}

TEST(DecoderTest, TheLastBlocksBackwardComputesTheLossWithoutAForward) {
  for (const TestModel& model : {odd_model(), large_vocabulary_model()}) {
    const UnitBuffers params = random_params(model.config, 7);
    const std::vector<int32_t> tokens =
        random_tokens(model.shape.rows(), model.config.vocab_size, 1);
    const MicroBatchIo io = {.tokens = tokens.data(), .labels = tokens.data(), .loss_scale = 0.01f};
    Decoder decoder(model.config, model.shape);
    const PassResult with_forward = run_pass(decoder, params, io);

    Decoder other(model.config, model.shape);
    MicroBatchIo without_forward = io;
    const int64_t last = other.num_blocks() - 1;
    for (int64_t block = 0; block < last; ++block) {
      other.forward_block(block, params[static_cast<size_t>(block)].data(), without_forward);
    }
    std::vector<float> gradients(params.back().size());
    other.backward_block(last, params.back().data(), without_forward, gradients.data());
    EXPECT_EQ(without_forward.loss_sum, with_forward.loss_sum);
    EXPECT_TRUE(same_bits(gradients, with_forward.gradients.back()));
  }
}

TEST(DecoderTest, BackwardWritesEveryGradientElement) {
  const TestModel model = odd_model();
  Decoder decoder(model.config, model.shape);
  const std::vector<int32_t> tokens = random_tokens(model.shape.rows(), model.config.vocab_size, 1);
  // run_pass() fills the gradient buffers with not-a-number first.
  const PassResult pass = run_pass(decoder, random_params(model.config, 3),
                                   {.tokens = tokens.data(), .labels = tokens.data()});
  for (const std::vector<float>& gradient : pass.gradients) {
    for (const float value : gradient) ASSERT_TRUE(std::isfinite(value));
  }
}

TEST(DecoderTest, LossOfAUniformModelIsTheLogarithmOfTheVocabulary) {
  const TestModel model = odd_model();
  Decoder decoder(model.config, model.shape);
  UnitBuffers params = random_params(model.config, 3);
  std::fill(params.back().begin() + model.config.hidden_size, params.back().end(),
            0.0f);  // lm_head
  const std::vector<int32_t> tokens = random_tokens(model.shape.rows(), model.config.vocab_size, 1);
  std::vector<int32_t> labels = tokens;
  labels[0] = labels[40] = -100;
  const PassResult pass =
      run_pass(decoder, params, {.tokens = tokens.data(), .labels = labels.data()});
  const double num_loss_tokens = static_cast<double>(model.shape.rows() - 2);
  // fp32 logarithm and exponentials: 1e-6 relative.
  EXPECT_NEAR(pass.loss_sum / num_loss_tokens, std::log(61.0), 1e-6 * std::log(61.0));
}

TEST(DecoderTest, MicroBatchWithoutLossTokensHasZeroLossAndGradient) {
  const TestModel model = odd_model();
  Decoder decoder(model.config, model.shape);
  const std::vector<int32_t> tokens = random_tokens(model.shape.rows(), model.config.vocab_size, 1);
  const std::vector<int32_t> labels(tokens.size(), -100);
  const PassResult pass = run_pass(decoder, random_params(model.config, 3),
                                   {.tokens = tokens.data(), .labels = labels.data()});
  EXPECT_EQ(pass.loss_sum, 0.0);
  for (const std::vector<float>& gradient : pass.gradients) {
    for (const float value : gradient) ASSERT_EQ(value, 0.0f);
  }
}

TEST(DecoderTest, TokensAndLabelsBeyondTheVocabularyAreRefused) {
  const TestModel model = odd_model();
  Decoder decoder(model.config, model.shape);
  const UnitBuffers params = random_params(model.config, 3);
  const std::vector<int32_t> good(static_cast<size_t>(model.shape.rows()), 0);
  for (const int32_t wrong : {61, -1}) {
    std::vector<int32_t> tokens = good;
    tokens.back() = wrong;
    EXPECT_THROW(run_pass(decoder, params, {.tokens = tokens.data(), .labels = good.data()}),
                 std::out_of_range);
  }
  std::vector<int32_t> labels = good;
  labels.back() = 61;
  EXPECT_THROW(run_pass(decoder, params, {.tokens = good.data(), .labels = labels.data()}),
               std::out_of_range);
}

TEST(DecoderTest, ImpossibleSizesAreRefusedByName) {
  const TestModel model = odd_model();
  common::ModelConfig odd_head = model.config;
  odd_head.head_dim = 7;
  EXPECT_THROW(Decoder(odd_head, model.shape), std::invalid_argument);
  common::ModelConfig heads = model.config;
  heads.num_key_value_heads = 4;
  EXPECT_THROW(Decoder(heads, model.shape), std::invalid_argument);
  EXPECT_THROW(Decoder(model.config, {.batch = 0, .seq = 4}), std::invalid_argument);
}

TEST(DecoderTest, BufferBytesGrowWithTheBatch) {
  const TestModel model = odd_model();
  const int64_t two = Decoder(model.config, model.shape).buffer_bytes();
  const int64_t four = Decoder(model.config, {.batch = 4, .seq = 37}).buffer_bytes();
  const int64_t activation_bytes = 4 * model.shape.rows() * model.config.hidden_size;
  EXPECT_GT(two, (model.config.num_hidden_layers + 1) * activation_bytes);
  EXPECT_GT(four, two);
}

}  // namespace
}  // namespace lockstep::runtime
