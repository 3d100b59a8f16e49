// One layer of a decoder: attention, then feed-forward, each added to the stream. What a family has
// there is in common/model_family.h.
#pragma once

#include <array>
#include <span>

#include "runtime/common/layer_layout.h"
#include "runtime/common/model_family.h"
#include "runtime/kernels/elementwise.h"
#include "runtime/model/adapters.h"
#include "runtime/model/block.h"
#include "runtime/model/experts.h"
#include "runtime/model/linear.h"
#include "runtime/model/norm.h"

namespace lockstep::runtime {

class DecoderLayer final : public Block {
 public:
  // rotary_table: [T, rotary_dim] as rotary_values() gives it, T at least the longest sequence;
  // borrowed, must outlive this object. Empty for a family with learned positions.
  //   lora: with adapters unit() is frozen.
  DecoderLayer(const common::ModelConfig& config, int64_t index,
               std::span<const float> rotary_table, DType dtype = DType::kFp32,
               const common::LoraConfig& lora = {});

  const Unit& unit() const override { return unit_; }
  // Without tensors unless there are adapters.
  const Unit& adapter_unit() const { return adapters_.unit(); }
  SavedElems saved_elems(const BatchShape& shape) const override;
  int64_t scratch_elems(const BatchShape& shape) const override;
  void forward(const BatchShape& shape, ConstValues params, MicroBatchIo& io,
               const BlockBuffers& buffers) const override;
  void recompute(const BatchShape& shape, ConstValues params, const MicroBatchIo& io,
                 const BlockBuffers& buffers, Recompute what) const override;
  void backward(const BatchShape& shape, ConstValues params, MicroBatchIo& io,
                const BlockBuffers& buffers, float* gradients) const override;

 private:
  // Attention or feed-forward: where its weights lie in the unit; -1: the family has none.
  struct Half {
    common::TensorRole first_role = common::TensorRole::kQkv;  // of products with adapters
    common::TensorRole last_role = common::TensorRole::kAttentionOut;
    int64_t norm = -1;
    int64_t first = -1;  // the product that begins it
    int64_t first_bias = -1;
    int64_t last = -1;  // the product that ends it
    int64_t last_bias = -1;
    int64_t norm_after = -1;
  };
  // One call on one micro-batch.
  struct Run {
    const BatchShape& shape;
    ConstValues params;
    const BlockBuffers& buffers;
    common::LayerLayout layout;
    const MicroBatchIo& io;
    float* gradients = nullptr;
    int64_t rows = 0;
  };
  // Queries or keys of a fused row.
  struct HeadRows {
    int64_t begin;  // in the row
    int64_t num_heads;
    int64_t weight;  // of the norm
    float* raw;
    float* stats;
  };

  int64_t offset_of(common::TensorRole role) const;
  Half attention_half() const;
  Half mlp_half() const;
  Run run_of(const BatchShape& shape, ConstValues params, const MicroBatchIo& io,
             const BlockBuffers& buffers, float* gradients) const;
  AdapterCall adapter_call(const Run& run) const;
  LinearShape product(const Run& run, int64_t in, int64_t out) const;
  LinearShape attention_end(const Run& run) const;
  LinearShape mlp_end(const Run& run) const;
  ExpertsShape experts_shape(const Run& run) const;
  ExpertBuffers expert_buffers(const Run& run) const;
  ExpertWeights expert_weights(const Run& run) const;
  // The part of a buffer that holds numbers of the block's type.
  Values typed(float* part) const { return {dtype_, part}; }
  // `n` floats as an operand of products: rounded into `part`, or as they are in fp32.
  ConstValues operand(int64_t n, const float* floats, float* part) const;
  Gelu gelu() const { return config_.is_exact_gelu ? Gelu::kErf : Gelu::kTanh; }
  bool is_mixed() const { return dtype_ != DType::kFp32; }
  bool is_by_head() const { return family_.qk_norm == common::QkNorm::kHead; }

  // What the first product of a half takes: x normed, or as it is where norms come after.
  ConstValues input_of(const Run& run, const Half& half, const float* x, float* stats) const;
  // A first product into `wide`, with its bias.
  void begin_half(const Run& run, const Half& half, const LinearShape& shape, ConstValues in,
                  float* wide) const;
  // Where something comes between the last product and the stream: what the half adds, left in the
  // scratch.
  //   saved_part, stats: of the norm after, written if there is one.
  void make_part(const Run& run, const Half& half, const LinearShape& shape, ConstValues in,
                 float* saved_part, float* stats) const;
  // out = x + what the half adds: what make_part() left, else the last product.
  void end_half(const Run& run, const Half& half, const LinearShape& shape, ConstValues in,
                const float* x, float* out) const;
  // The gradient of the last product from dy, the stream's; also that of its bias and the norm.
  const float* part_gradient(const Run& run, const Half& half, const LinearShape& shape,
                             const float* saved_part, const float* stats, const float* dy) const;
  // Gradients of the first product and of the half's input.
  //   d: the product's gradient as an operand; dx: may be dy, the stream's gradient.
  void begin_half_backward(const Run& run, const Half& half, const LinearShape& shape,
                           ConstValues d, const float* x, float* stats, const float* dy,
                           float* dx) const;
  std::array<HeadRows, 2> head_rows(const Run& run) const;
  Norm head_norm(const HeadRows& heads) const;
  void norm_heads(const Run& run, float* wide_qkv) const;
  void norm_heads_backward(const Run& run, float* d_qkv) const;
  void activate(const Run& run) const;
  void attention_half_backward(const Run& run, const MicroBatchIo& io) const;
  void mlp_half_backward(const Run& run) const;
  void experts_half(const Run& run) const;
  void experts_half_backward(const Run& run) const;

  common::ModelConfig config_;
  const common::ModelFamily& family_;
  std::span<const float> rotary_table_;
  int64_t window_;
  DType dtype_;
  common::LoraConfig lora_;
  Adapters adapters_;
  Unit unit_;
  Norm norm_;
};

}  // namespace lockstep::runtime
