#include "runtime/model/unit.h"

#include <gtest/gtest.h>

#include "tests/runtime/model/test_models.h"

namespace lockstep::runtime {
namespace {

TEST(UnitTest, TensorsTileEveryUnitWithoutGaps) {
  for (const TestModel& model : {odd_model(), wide_head_model(), single_token_model()}) {
    for (const Unit& unit : model_units(model.config)) {
      int64_t next = 0;
      for (const UnitTensor& tensor : unit.tensors) {
        EXPECT_EQ(tensor.begin_elem, next) << tensor.name;
        int64_t product = 1;
        for (const int64_t size : tensor.shape) product *= size;
        EXPECT_EQ(tensor.num_elems, product) << tensor.name;
        next += tensor.num_elems;
      }
      EXPECT_EQ(unit.num_elems, next) << unit.name;
    }
  }
}

TEST(UnitTest, NamesAndShapesAreThoseOfHuggingFaceLlama) {
  const Unit layer = layer_unit(odd_model().config, 2);
  const std::vector<std::pair<std::string, std::vector<int64_t>>> expected = {
      {"model.layers.2.input_layernorm.weight", {48}},
      {"model.layers.2.self_attn.q_proj.weight", {48, 48}},
      {"model.layers.2.self_attn.k_proj.weight", {16, 48}},
      {"model.layers.2.self_attn.v_proj.weight", {16, 48}},
      {"model.layers.2.self_attn.o_proj.weight", {48, 48}},
      {"model.layers.2.post_attention_layernorm.weight", {48}},
      {"model.layers.2.mlp.gate_proj.weight", {40, 48}},
      {"model.layers.2.mlp.up_proj.weight", {40, 48}},
      {"model.layers.2.mlp.down_proj.weight", {48, 40}}};
  ASSERT_EQ(layer.tensors.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(layer.tensors[i].name, expected[i].first);
    EXPECT_EQ(layer.tensors[i].shape, expected[i].second);
  }
  EXPECT_EQ(embedding_unit(odd_model().config).tensors[0].name, "model.embed_tokens.weight");
  EXPECT_EQ(head_unit(odd_model().config).tensors[0].name, "model.norm.weight");
  EXPECT_EQ(head_unit(odd_model().config).tensors[1].name, "lm_head.weight");
}

TEST(UnitTest, DecoderHasTheUnitsOfTheModelInOrder) {
  const TestModel model = odd_model();
  const Decoder decoder(model.config, model.shape);
  const std::vector<Unit> units = model_units(model.config);
  ASSERT_EQ(decoder.num_blocks(), static_cast<int64_t>(units.size()));
  int64_t sum = 0;
  for (int64_t i = 0; i < decoder.num_blocks(); ++i) {
    EXPECT_EQ(decoder.unit(i).name, units[static_cast<size_t>(i)].name);
    sum += decoder.unit(i).num_elems;
  }
  EXPECT_EQ(decoder.num_parameters(), sum);
}

}  // namespace
}  // namespace lockstep::runtime
