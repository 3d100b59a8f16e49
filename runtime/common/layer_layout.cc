#include "runtime/common/layer_layout.h"

#include <algorithm>

#include "runtime/common/buffer_layout.h"
#include "runtime/common/model_family.h"

namespace lockstep::common {
namespace {

struct Sizes {
  const ModelConfig& config;
  const ModelFamily& family;
  int64_t rows;
  DType dtype;
  const LoraConfig& lora;

  int64_t stream() const { return rows * config.hidden_size; }
  int64_t queries() const { return rows * config.num_attention_heads * config.head_dim; }
  int64_t keys() const { return rows * config.num_key_value_heads * config.head_dim; }
  int64_t qkv() const { return queries() + 2 * keys(); }
  int64_t pairs() const { return rows * config.parts_per_token(); }
  int64_t scores() const { return rows * config.num_experts; }
  int64_t gate_up() const { return pairs() * feed_forward_rows(family, config); }
  int64_t stats() const { return family.norm == NormKind::kLayer ? 2 * rows : rows; }
  int64_t after() const { return has_norm_after(family) ? 1 : 0; }
  int64_t heads_normed(int64_t heads) const {
    if (family.qk_norm == QkNorm::kNone) return 0;
    return family.qk_norm == QkNorm::kHead ? rows * heads : rows;
  }
  bool is_mixed() const { return dtype != DType::kFp32; }
};

void take_routing(const Sizes& s, Layout& layout, LayerLayout::Cheap& cheap) {
  cheap.probabilities = layout.take(s.scores());
  cheap.expert_begins = layout.take(s.config.num_experts + 1);
  cheap.pair_rows = layout.take(s.pairs());
  cheap.pair_weights = layout.take(s.pairs());
  cheap.choices = layout.take(s.pairs());
  cheap.choice_pairs = layout.take(s.pairs());
}

LayerLayout::Cheap cheap_parts(const Sizes& s) {
  const int64_t norms_qk = s.family.qk_norm != QkNorm::kNone ? 1 : 0;
  Layout layout;
  LayerLayout::Cheap cheap;
  cheap.stats1 = layout.take(s.stats());
  cheap.qkv = layout.take(s.qkv(), s.dtype);
  cheap.raw_queries = layout.take(norms_qk * s.queries());
  cheap.raw_keys = layout.take(norms_qk * s.keys());
  cheap.query_stats = layout.take(s.heads_normed(s.config.num_attention_heads));
  cheap.key_stats = layout.take(s.heads_normed(s.config.num_key_value_heads));
  cheap.attention_part = layout.take(s.after() * s.stream());
  cheap.attention_stats = layout.take(s.after() * s.stats());
  cheap.x_mid = layout.take(s.stream());
  cheap.stats2 = layout.take(s.stats());
  if (s.config.has_experts()) take_routing(s, layout, cheap);
  cheap.gate_up = layout.take(s.gate_up(), s.dtype);
  cheap.mlp_part = layout.take(s.after() * s.stream());
  cheap.mlp_stats = layout.take(s.after() * s.stats());
  cheap.num_elems = layout.num_elems();
  return cheap;
}

// Floats for what is widened: a norm's weight and bias, a bias or a row of a product.
int64_t wide_elems(const Sizes& s) {
  const bool has_bias = has_qkv_bias(s.family, s.config) || has_mlp_bias(s.family, s.config);
  const bool is_plain = s.family.norm == NormKind::kRms && !has_norm_after(s.family) && !has_bias &&
                        s.family.qk_norm == QkNorm::kNone;
  if (is_plain) return 0;
  return std::max({2 * s.config.hidden_size, s.qkv() / s.rows, s.gate_up() / s.rows});
}

void take_experts(const Sizes& s, Layout& layout, LayerLayout::Scratch& scratch) {
  const int64_t stream = s.pairs() * s.config.hidden_size;
  scratch.pairs_in = layout.take(stream, s.dtype);
  scratch.wide_pairs = layout.take(stream);
  scratch.d_pairs = s.is_mixed() ? layout.take(stream, s.dtype) : scratch.wide_pairs;
  scratch.wide_logits = layout.take(s.scores());
  scratch.d_logits = s.is_mixed() ? layout.take(s.scores(), s.dtype) : scratch.wide_logits;
  scratch.d_weights = layout.take(s.pairs());
}

void take_adapters(const Sizes& s, Layout& layout, LayerLayout::Scratch& scratch) {
  int64_t widest = 0;
  for (const LinearModule& module : adapted_modules(s.config, s.lora, 0)) {
    widest = std::max(widest, module.in);
  }
  const int64_t low = s.rows * s.lora.rank;
  scratch.low = layout.take(low);
  scratch.low_operand = s.is_mixed() ? layout.take(low, s.dtype) : scratch.low;
  if (s.lora.dropout == 0) return;
  scratch.dropped = layout.take(s.rows * widest, s.dtype);
  scratch.d_dropped = layout.take(s.rows * widest);
}

LayerLayout::Scratch scratch_parts(const Sizes& s, int64_t attention_work) {
  LayerLayout::Scratch scratch;
  Layout both;
  scratch.normed = both.take(s.stream(), s.dtype);
  scratch.d_normed = both.take(s.stream());
  if (s.is_mixed()) scratch.d_residual = both.take(s.stream(), s.dtype);
  if (has_separate_parts(s.config)) scratch.part = both.take(s.stream());
  scratch.wide = both.take(wide_elems(s));
  if (s.lora.is_on()) take_adapters(s, both, scratch);

  Layout attention_half = both;
  scratch.d_attention = attention_half.take(s.queries());
  scratch.wide_qkv = attention_half.take(s.qkv());
  if (s.family.qk_norm != QkNorm::kNone) scratch.heads = attention_half.take(s.queries());
  scratch.attention_work = attention_half.take(attention_work);

  Layout mlp_half = both;
  if (s.is_mixed()) scratch.wide_gate_up = mlp_half.take(s.gate_up());
  scratch.act = mlp_half.take(s.pairs() * s.config.feed_forward_size(), s.dtype);
  scratch.d_act = mlp_half.take(s.pairs() * s.config.feed_forward_size());
  if (s.config.has_experts()) take_experts(s, mlp_half, scratch);
  scratch.num_elems = std::max(attention_half.num_elems(), mlp_half.num_elems());
  return scratch;
}

}  // namespace

bool has_separate_parts(const ModelConfig& config) {
  return has_norm_after(family_of(config)) || config.residual_multiplier != 1 ||
         config.has_experts();
}

LayerLayout lay_out_layer(const ModelConfig& config, int64_t batch, int64_t seq, DType dtype,
                          int64_t attention_work, const LoraConfig& lora) {
  const Sizes sizes = {.config = config,
                       .family = family_of(config),
                       .rows = batch * seq,
                       .dtype = dtype,
                       .lora = lora};
  LayerLayout out;
  Layout dear;
  out.dear.attention = dear.take(sizes.queries(), dtype);
  out.dear.log_sum_exp = dear.take(sizes.rows * config.num_attention_heads);
  out.dear.num_elems = dear.num_elems();
  out.cheap = cheap_parts(sizes);
  out.scratch = scratch_parts(sizes, attention_work);
  return out;
}

}  // namespace lockstep::common
