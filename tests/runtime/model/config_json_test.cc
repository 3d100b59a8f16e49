#include "runtime/common/config_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runtime/common/model_family.h"
#include "tests/runtime/model/test_models.h"

namespace lockstep::runtime {
namespace {

using common::decode_config_json;
using common::read_config_json;
using common::read_special_ids;
using nlohmann::json;
using testing::HasSubstr;

json written() {
  return json::parse(encode_config_json(wide_head_model().config));
}

TEST(ConfigJsonTest, ReadsBackWhatItWrites) {
  const common::ModelConfig config = wide_head_model().config;
  const auto back = decode_config_json(encode_config_json(config));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->model_type, "llama");
  EXPECT_EQ(back->vocab_size, config.vocab_size);
  EXPECT_EQ(back->hidden_size, config.hidden_size);
  EXPECT_EQ(back->intermediate_size, config.intermediate_size);
  EXPECT_EQ(back->num_hidden_layers, config.num_hidden_layers);
  EXPECT_EQ(back->num_attention_heads, config.num_attention_heads);
  EXPECT_EQ(back->num_key_value_heads, config.num_key_value_heads);
  EXPECT_EQ(back->head_dim, config.head_dim);
  EXPECT_EQ(back->max_position_embeddings, config.max_position_embeddings);
  EXPECT_EQ(back->rms_norm_eps, config.rms_norm_eps);
  EXPECT_EQ(back->rope_theta, config.rope_theta);
  EXPECT_EQ(back->initializer_range, config.initializer_range);
}

TEST(ConfigJsonTest, KeepsWhetherEmbeddingsAreTied) {
  EXPECT_TRUE(decode_config_json(encode_config_json(tied_model().config))->tie_word_embeddings);
  EXPECT_FALSE(decode_config_json(encode_config_json(odd_model().config))->tie_word_embeddings);
}

TEST(ConfigJsonTest, TakesTransformersDefaultsForAbsentAndNullFields) {
  json object = written();
  for (const char* key : {"num_key_value_heads", "rope_parameters", "rope_theta", "rms_norm_eps"}) {
    object.erase(key);
  }
  object["head_dim"] = nullptr;
  const auto config = decode_config_json(object.dump());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->num_key_value_heads, 4);
  EXPECT_EQ(config->head_dim, 16);
  EXPECT_EQ(config->rope_theta, 10000.0);
  EXPECT_EQ(config->rms_norm_eps, 1e-6);
}

TEST(ConfigJsonTest, ReadsThetaFromEitherPlace) {
  json old_style = written();
  old_style.erase("rope_parameters");
  json new_style = written();
  new_style.erase("rope_theta");
  EXPECT_EQ(decode_config_json(old_style.dump())->rope_theta, 50000.0);
  EXPECT_EQ(decode_config_json(new_style.dump())->rope_theta, 50000.0);
}

TEST(ConfigJsonTest, RefusesByNameWhatTheDecoderDoesNotDo) {
  const std::vector<std::pair<std::string, json>> cases = {
      {"model_type", "gpt_neox"},
      {"architectures", {"LlamaForTokenClassification"}},
      {"hidden_act", "gelu"},
      {"tie_word_embeddings", "yes"},
      {"attention_dropout", 0.1},
      {"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}},
      {"rope_parameters", {{"rope_type", "llama3"}, {"rope_theta", 50000.0}}},
      {"rope_parameters", {{"rope_type", "dynamic"}, {"factor", 2.0}}},
      {"rope_parameters", {{"rope_type", "linear"}, {"factor", -2.0}}},
      {"rope_parameters", {{"rope_type", "default"}, {"factor", 2.0}}},
      {"rope_parameters", 3},
      {"rope_theta", 12345.0},
      {"rope_theta", -1},
      {"partial_rotary_factor", 0.5},
      {"quantization_config", {{"quant_method", "gptq"}}},
      {"hidden_size", "64"},
      {"vocab_size", 0},
      {"num_hidden_layers", nullptr},
      {"num_key_value_heads", 3},
      {"head_dim", 31},
      {"hidden_size", 66},
      {"initializer_range", -0.1},
      {"rms_norm_eps", "small"},
  };
  for (const auto& [key, value] : cases) {
    json object = written();
    object[key] = value;
    const auto config = decode_config_json(object.dump());
    ASSERT_FALSE(config) << key << " = " << value;
    EXPECT_EQ(config.error().code, common::ErrorCode::kInvalidArgument);
    EXPECT_THAT(config.error().message, HasSubstr(key));
  }
}

TEST(ConfigJsonTest, EveryFamilyReadsBackWhatItWrites) {
  const std::vector<TestModel> models = family_models();
  EXPECT_EQ(models.size() + 1, common::model_families().size());
  for (const TestModel& model : models) {
    const std::string text = encode_config_json(model.config);
    const auto back = decode_config_json(text);
    ASSERT_TRUE(back) << model.name << " " << back.error().message;
    EXPECT_EQ(encode_config_json(*back), text);
    EXPECT_EQ(back->attention_scale(), model.config.attention_scale()) << model.name;
    for (int64_t layer = 0; layer < 3; ++layer) {
      EXPECT_EQ(back->window_of(layer), model.config.window_of(layer)) << model.name << layer;
    }
  }
}

// As published for Qwen3-30B-A3B and Mixtral-8x7B, but for sizes.
TEST(ConfigJsonTest, ReadsExpertsAsTheirCheckpointsSpellThem) {
  json object = {{"model_type", "qwen3_moe"},
                 {"vocab_size", 61},
                 {"hidden_size", 48},
                 {"intermediate_size", 40},
                 {"num_hidden_layers", 3},
                 {"num_attention_heads", 6},
                 {"num_key_value_heads", 2},
                 {"head_dim", 20},
                 {"num_experts", 5},
                 {"num_experts_per_tok", 3},
                 {"moe_intermediate_size", 24},
                 {"norm_topk_prob", true},
                 {"decoder_sparse_step", 1},
                 {"mlp_only_layers", json::array()},
                 {"output_router_logits", false},
                 {"router_aux_loss_coef", 0.001},
                 {"sliding_window", 9},
                 {"use_sliding_window", false},
                 {"max_window_layers", 1},
                 {"rope_theta", 1000000.0}};
  const auto qwen = decode_config_json(object.dump());
  ASSERT_TRUE(qwen) << qwen.error().message;
  EXPECT_EQ(qwen->num_experts, 5);
  EXPECT_EQ(qwen->experts_per_token, 3);
  EXPECT_EQ(qwen->feed_forward_size(), 24);
  EXPECT_TRUE(qwen->norm_topk_prob);
  EXPECT_EQ(qwen->window_of(0), 0);
  EXPECT_EQ(json::parse(encode_config_json(*qwen)).at("num_experts"), 5);
  object["use_sliding_window"] = true;  // in every layer: max_window_layers is not of this family
  EXPECT_EQ(decode_config_json(object.dump())->window_of(0), 9);
  object.erase("norm_topk_prob");
  EXPECT_FALSE(decode_config_json(object.dump())->norm_topk_prob);

  const common::ModelConfig mixtral = family_model("mixtral", {{"sliding_window", 9}}).config;
  EXPECT_EQ(mixtral.num_experts, 8);
  EXPECT_EQ(mixtral.experts_per_token, 2);
  EXPECT_EQ(mixtral.feed_forward_size(), 40);
  EXPECT_TRUE(mixtral.norm_topk_prob);
  EXPECT_EQ(mixtral.window_of(2), 9);
}

TEST(ConfigJsonTest, ReadsScaledRotaryEmbeddingsOfEitherVersion) {
  json object = written();
  object.erase("rope_parameters");
  object["rope_scaling"] = {{"type", "linear"}, {"factor", 4.0}};
  const auto old_style = decode_config_json(object.dump());
  ASSERT_TRUE(old_style) << old_style.error().message;
  EXPECT_EQ(old_style->rope_scaling.factor, 4.0);
  EXPECT_EQ(old_style->rope_theta, 50000.0);
  const auto new_style = decode_config_json(encode_config_json(*old_style));
  ASSERT_TRUE(new_style) << new_style.error().message;
  EXPECT_EQ(new_style->rope_scaling, old_style->rope_scaling);
}

// A value that Transformers would act on and we would not is never passed over.
TEST(ConfigJsonTest, RefusesByNameKeysThatAFamilyDoesNotHave) {
  const std::vector<std::tuple<std::string, std::string, json>> cases = {
      {"llama", "sliding_window", 9},
      {"llama", "attention_multiplier", 0.5},
      {"llama", "num_experts_per_tok", 2},
      {"mistral", "attention_bias", true},
      {"mistral", "use_sliding_window", false},  // which Transformers passes over
      {"mistral", "layer_types", {"full_attention"}},
      {"qwen2", "mlp_bias", true},
      {"qwen2", "layer_types", {"full_attention", "linear_attention", "full_attention"}},
      {"qwen3", "rope_parameters", {{"rope_type", "default"}, {"partial_rotary_factor", 0.5}}},
      {"mixtral", "num_experts_per_tok", 9},
      {"mixtral", "num_local_experts", 1},
      {"mixtral", "output_router_logits", true},
      {"mixtral", "router_jitter_noise", 0.1},
      {"mixtral", "moe_intermediate_size", 24},
      {"mixtral", "norm_topk_prob", false},
      {"mixtral", "use_sliding_window", false},  // which Transformers passes over
      {"qwen3_moe", "num_local_experts", 64},    // where num_experts is 128
      {"qwen3_moe", "output_router_logits", true},
      {"qwen3_moe", "decoder_sparse_step", 2},
      {"qwen3_moe", "mlp_only_layers", json::array({0})},
      {"qwen3_moe", "norm_topk_prob", 1},
      {"qwen3_moe", "shared_expert_intermediate_size", 24},
      {"granite", "residual_multiplier", 0},
      {"olmo2", "hidden_act", "gelu_new"},
      {"phi3", "resid_pdrop", 0.1},
      {"phi3", "rope_scaling", {{"rope_type", "linear"}, {"rope_theta", 1e4}, {"factor", 2.0}}},
      {"phi3", "rope_parameters", {{"rope_type", "linear"}, {"factor", 2.0}}},
      {"gpt2", "attn_pdrop", 0.1},
      {"gpt2", "scale_attn_by_inverse_layer_idx", true},
      {"gemma2", "hidden_activation", "relu"},
      {"gemma2", "use_bidirectional_attention", true},
      {"gemma3_text", "attn_logit_softcapping", 50.0},  // which Transformers passes over
      {"gemma3_text", "rope_parameters", {{"full_attention", 3}}},
  };
  for (const auto& [family, key, value] : cases) {
    const nlohmann::json heads = {{"num_key_value_heads", 6}};
    const TestModel model = family == "llama" ? odd_model() : family_model(family, heads);
    json object = json::parse(encode_config_json(model.config));
    object[key] = value;
    const auto config = decode_config_json(object.dump());
    ASSERT_FALSE(config) << family << " " << key << " = " << value;
    const std::string shown = key == "hidden_activation"                ? "hidden_act"
                              : value.contains("partial_rotary_factor") ? "partial_rotary_factor"
                                                                        : key;
    EXPECT_THAT(config.error().message, HasSubstr(shown)) << family;
  }
}

TEST(ConfigJsonTest, RefusesTwoLengthsThatAScaledEmbeddingWasFirstTrainedWith) {
  json object = written();
  object["rope_parameters"] = {{"rope_type", "yarn"},
                               {"rope_theta", 50000.0},
                               {"factor", 2.0},
                               {"original_max_position_embeddings", 128}};
  object["original_max_position_embeddings"] = 128;
  EXPECT_TRUE(decode_config_json(object.dump()));
  object["original_max_position_embeddings"] = 64;
  const auto config = decode_config_json(object.dump());
  ASSERT_FALSE(config);
  EXPECT_THAT(config.error().message, HasSubstr("original_max_position_embeddings: found 64"));
}

// As Transformers: gemma2 alternates whatever it says, gemma3 reads one spelling.
TEST(ConfigJsonTest, OnlyGemma3ReadsThePatternOfWindows) {
  const auto window_of_layer_1 = [](const char* family, const char* key) {
    json object = json::parse(encode_config_json(family_model(family).config));
    object.erase("layer_types");
    object[key] = 2;
    return decode_config_json(object.dump())->window_of(1);
  };
  EXPECT_EQ(window_of_layer_1("gemma3_text", "sliding_window_pattern"), 0);
  EXPECT_EQ(window_of_layer_1("gemma3_text", "_sliding_window_pattern"), 4096);
  json object = json::parse(encode_config_json(family_model("gemma2").config));
  object.erase("layer_types");
  object["sliding_window_pattern"] = 3;
  EXPECT_EQ(decode_config_json(object.dump())->window_of(1), 0);
}

TEST(ConfigJsonTest, AnAbsentDropoutOfGpt2IsNotZero) {
  for (const char* const key : {"embd_pdrop", "resid_pdrop", "attn_pdrop"}) {
    json object =
        json::parse(encode_config_json(family_model("gpt2", {{"num_key_value_heads", 6}}).config));
    EXPECT_TRUE(decode_config_json(object.dump()));
    object.erase(key);
    const auto config = decode_config_json(object.dump());
    ASSERT_FALSE(config);
    EXPECT_THAT(config.error().message, HasSubstr(key));
    EXPECT_THAT(config.error().message, HasSubstr("0.1"));
  }
}

TEST(ConfigJsonTest, GeluIsExactOrApproximatedAsItIsSpelled) {
  for (const auto& [family, key] : std::vector<std::pair<std::string, std::string>>{
           {"gpt2", "activation_function"}, {"gemma2", "hidden_activation"}}) {
    json object =
        json::parse(encode_config_json(family_model(family, {{"num_key_value_heads", 6}}).config));
    EXPECT_FALSE(decode_config_json(object.dump())->is_exact_gelu);
    object[key] = "gelu";
    const auto exact = decode_config_json(object.dump());
    ASSERT_TRUE(exact) << exact.error().message;
    EXPECT_TRUE(exact->is_exact_gelu);
    EXPECT_EQ(json::parse(encode_config_json(*exact)).at(key), "gelu");
    object[key] = "quick_gelu";
    EXPECT_THAT(decode_config_json(object.dump()).error().message, HasSubstr("\"gelu\""));
  }
}

TEST(ConfigJsonTest, WeightsMayStartAtZero) {
  json object = written();
  object["initializer_range"] = 0;
  const auto config = decode_config_json(object.dump());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->initializer_range, 0);
  EXPECT_EQ(json::parse(encode_config_json(*config)).at("initializer_range"), 0);
}

TEST(ConfigJsonTest, AnUnknownFamilyIsRefusedWithThoseThatThereAre) {
  const auto config = decode_config_json(R"({"model_type": "mamba"})");
  ASSERT_FALSE(config);
  EXPECT_THAT(config.error().message, HasSubstr("mamba"));
  EXPECT_THAT(config.error().message,
              HasSubstr("llama, mistral, qwen2, qwen3, mixtral, qwen3_moe, granite, olmo2"));
}

TEST(ConfigJsonTest, RefusesWhatIsNotAnObjectAndNamesAnAbsentFile) {
  EXPECT_FALSE(decode_config_json("{"));
  EXPECT_FALSE(decode_config_json("[]"));
  const auto config = read_config_json("no/such/config.json");
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().code, common::ErrorCode::kNotFound);
  EXPECT_THAT(config.error().message, HasSubstr("no/such/config.json"));
  EXPECT_THAT(read_config_json(testing::TempDir()).error().message, HasSubstr("Is a directory"));
  EXPECT_THAT(read_special_ids(testing::TempDir()).error().message, HasSubstr("Is a directory"));
}

}  // namespace
}  // namespace lockstep::runtime
