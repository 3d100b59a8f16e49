#include "runtime/kernels/cuda/kernel_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

namespace lockstep::runtime {
namespace {

// The arrays of one case; freed together.
class Arrays {
 public:
  explicit Arrays(const SharedMemory& memory) : memory_(memory) {}
  ~Arrays() {
    for (void* const array : all_) memory_.release(array);
  }
  Arrays(const Arrays&) = delete;
  Arrays& operator=(const Arrays&) = delete;

  template <class T>
  T* copy_of(const std::vector<T>& values) {
    const size_t num_bytes = values.size() * sizeof(T);
    all_.push_back(memory_.allocate(num_bytes));
    std::memcpy(all_.back(), values.data(), num_bytes);
    return static_cast<T*>(all_.back());
  }
  // Not a number: a kernel must write every element.
  float* unwritten(int64_t n) {
    return copy_of(
        std::vector<float>(static_cast<size_t>(n), std::numeric_limits<float>::quiet_NaN()));
  }
  // `n` numbers in [-size, size).
  float* random(int64_t n, uint64_t seed, float size = 1) {
    std::vector<float> values(static_cast<size_t>(n));
    uint64_t state = seed * 0x9E3779B97F4A7C15U + 1;
    for (float& value : values) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      const double unit = static_cast<double>(state >> 11U) / 9007199254740992.0;
      value = size * static_cast<float>(2 * unit - 1);
    }
    return copy_of(values);
  }
  // Appends n elements to what is compared.
  void keep(const float* values, int64_t n) {
    memory_.wait_for_kernels();
    kept_.insert(kept_.end(), values, values + n);
  }
  const std::vector<float>& kept() const { return kept_; }

 private:
  const SharedMemory& memory_;
  std::vector<void*> all_;
  std::vector<float> kept_;
};

constexpr int64_t kRows = 37;
constexpr int64_t kChannels = 203;

void run_norms(const KernelTable& table, Arrays& arrays) {
  const int64_t n = kRows * kChannels;
  const float* const x = arrays.random(n, 1, 4);
  const float* const weight = arrays.random(kChannels, 2);
  const float* const dy = arrays.random(n, 3);
  float* const y = arrays.unwritten(n);
  float* const dx = arrays.unwritten(n);
  float* const stats = arrays.unwritten(2 * kRows);
  float* const d_weight = arrays.unwritten(kChannels);
  float* const d_bias = arrays.unwritten(kChannels);
  table.rms_norm_forward(kRows, kChannels, 1e-6F, x, weight, y, stats);
  table.rms_norm_backward(kRows, kChannels, x, weight, stats, dy, x, dx, d_weight);
  for (const float* values : {y, dx}) arrays.keep(values, n);
  arrays.keep(stats, kRows);
  arrays.keep(d_weight, kChannels);
  table.layer_norm_forward(kRows, kChannels, 1e-6F, x, weight, weight, y, stats);
  table.layer_norm_backward(kRows, kChannels, x, weight, stats, dy, x, dx, d_weight, d_bias);
  for (const float* values : {y, dx}) arrays.keep(values, n);
  for (const float* values : {d_weight, d_bias}) arrays.keep(values, kChannels);
}

void run_activations(const KernelTable& table, Arrays& arrays) {
  const int64_t n = kRows * kChannels;
  const float* const gate_up = arrays.random(2 * n, 1, 100);
  const float* const d_out = arrays.random(n, 2);
  float* const out = arrays.unwritten(n);
  float* const act = arrays.unwritten(n);
  float* const d_gate_up = arrays.unwritten(2 * n);
  table.swiglu_forward(kRows, kChannels, gate_up, out);
  table.swiglu_backward(kRows, kChannels, gate_up, d_out, d_gate_up, act);
  for (const float* values : {out, act, d_gate_up}) arrays.keep(values, n);
  table.geglu_forward(Gelu::kErf, kRows, kChannels, gate_up, out);
  table.geglu_backward(Gelu::kTanh, kRows, kChannels, gate_up, d_out, d_gate_up, act);
  table.softcap_forward(n, 2.5F, act);
  for (const float* values : {out, act, d_gate_up}) arrays.keep(values, n);
}

void run_loss(const KernelTable& table, Arrays& arrays) {
  std::vector<int32_t> labels(kRows);
  std::iota(labels.begin(), labels.end(), 0);
  for (size_t row = 0; row < labels.size(); row += 5) labels[row] = -1;
  float* const logits = arrays.random(kRows * kChannels, 1, 30);
  const int32_t* const rows = arrays.copy_of(labels);
  const auto loss = static_cast<float>(table.cross_entropy(kRows, kChannels, rows, 0.3F, logits));
  arrays.keep(logits, kRows * kChannels);
  arrays.keep(&loss, 1);
  float* const taught = arrays.random(kRows * kChannels, 2, 10);
  float* const teacher = arrays.random(kRows * kChannels, 3, 10);
  const DistillFactors factors{.alpha = 0.7F, .temperature = 2.5F};
  const auto divergence =
      static_cast<float>(table.distill(kRows, kChannels, rows, factors, 0.3F, teacher, taught));
  arrays.keep(taught, kRows * kChannels);
  arrays.keep(&divergence, 1);
}

void run_embedding(const KernelTable& table, Arrays& arrays) {
  std::vector<int32_t> tokens(kRows);
  std::iota(tokens.begin(), tokens.end(), 0);
  for (int32_t& token : tokens) token = token * token % 11;
  const int32_t* const rows = arrays.copy_of(tokens);
  float* const gradient = arrays.random(11 * kChannels, 2);
  float* const y = arrays.unwritten(kRows * kChannels);
  table.embedding_backward(kRows, kChannels, rows, 1.3F, arrays.random(kRows * kChannels, 1),
                           gradient);
  table.embedding_forward(kRows, kChannels, rows, gradient, y);
  arrays.keep(gradient, 11 * kChannels);
  arrays.keep(y, kRows * kChannels);
}

void run_rotary(const KernelTable& table, Arrays& arrays) {
  const RotaryShape shape{
      .batch = 1, .seq = kRows, .num_heads = 3, .head_dim = 38, .row_elems = 120};
  std::vector<float> angles(static_cast<size_t>(kRows * shape.head_dim));
  rotary_table(kRows, shape.head_dim, 10000, angles.data());
  float* const rows = arrays.random(kRows * shape.row_elems, 1);
  table.rotary_forward(shape, arrays.copy_of(angles), rows);
  arrays.keep(rows, kRows * shape.row_elems);
}

void run_rounding(const KernelTable& table, Arrays& arrays) {
  const int64_t n = 4099;
  for (const DType dtype : {DType::kBf16, DType::kFp16}) {
    float* const values = arrays.random(n, 1, 70000);
    float* const wide = arrays.unwritten(n);
    table.narrow(n, values, {dtype, values});
    table.widen(n, {dtype, values}, wide);
    arrays.keep(wide, n);
  }
}

void run_dropout(const KernelTable& table, Arrays& arrays) {
  const int64_t n = 4099;
  float* const x = arrays.random(n, 1);
  table.dropout({.key = 5, .counter = {1, 2, 3}, .dropped_below = 20000, .kept = 1.44F}, n, x);
  arrays.keep(x, n);
}

void run_rows_and_columns(const KernelTable& table, Arrays& arrays) {
  const int64_t n = kRows * kChannels;
  float* const x = arrays.random(n, 1);
  float* const sums = arrays.unwritten(kChannels);
  float* const part = arrays.unwritten(kRows * 50);
  table.shift(kChannels, 1.0F, x, x);
  table.add_to_rows(kRows, kChannels, arrays.random(kChannels, 2), x);
  table.sum_columns(kRows, kChannels, x, sums);
  table.copy_columns(kRows, 50, x + 3, kChannels, part, 50);
  arrays.keep(x, n);
  arrays.keep(sums, kChannels);
  arrays.keep(part, kRows * 50);
}

// More rows than a group adds up: a device then adds in another order.
void run_sums_over_rows(const KernelTable& table, Arrays& arrays) {
  const int64_t rows = 150;
  const float* const x = arrays.random(rows * kChannels, 1);
  const float* const dy = arrays.random(rows * kChannels, 2);
  const float* const weight = arrays.random(kChannels, 3);
  float* const y = arrays.unwritten(rows * kChannels);
  float* const stats = arrays.unwritten(2 * rows);
  float* const d_weight = arrays.unwritten(kChannels);
  float* const d_bias = arrays.unwritten(kChannels);
  float* const sums = arrays.unwritten(kChannels);
  table.rms_norm_forward(rows, kChannels, 1e-6F, x, weight, y, stats);
  table.rms_norm_backward(rows, kChannels, x, weight, stats, dy, nullptr, y, d_weight);
  arrays.keep(d_weight, kChannels);
  table.layer_norm_forward(rows, kChannels, 1e-6F, x, weight, weight, y, stats);
  table.layer_norm_backward(rows, kChannels, x, weight, stats, dy, nullptr, y, d_weight, d_bias);
  table.sum_columns(rows, kChannels, x, sums);
  for (const float* values : {d_weight, d_bias, sums}) arrays.keep(values, kChannels);
}

void run_optimizer(const KernelTable& table, Arrays& arrays) {
  const int64_t n = 4099;
  const AdamStep step{.lr = 3e-4,
                      .beta1 = 0.9,
                      .beta2 = 0.95,
                      .eps = 1e-8,
                      .weight_decay = 0.1,
                      .gradient_scale = 0.37};
  const float* const gradient = arrays.random(n, 1);
  float* const weight = arrays.random(n, 2);
  float* const m = arrays.random(n, 3);
  float* const v = arrays.copy_of(std::vector<float>(static_cast<size_t>(n), 0.2F));
  table.adamw(step, n, gradient, weight, m, v);
  for (const float* values : {weight, m, v}) arrays.keep(values, n);
  std::vector<double> zeros(static_cast<size_t>((n + kNormChunkElems - 1) / kNormChunkElems));
  const double* const sums = arrays.copy_of(zeros);
  table.sum_squares_chunks(n, gradient, const_cast<double*>(sums));
  arrays.keep(reinterpret_cast<const float*>(sums), 2 * static_cast<int64_t>(zeros.size()));
}

void run_attention(const KernelTable& table, Arrays& arrays) {
  const AttentionShape shape{
      .batch = 2, .seq = 150, .num_heads = 4, .num_kv_heads = 2, .head_dim = 72, .window = 100};
  const int64_t qkv_elems = shape.batch * shape.seq * shape.qkv_row_elems();
  const int64_t out_elems = shape.batch * shape.seq * shape.num_heads * shape.head_dim;
  const int64_t num_sums = shape.batch * shape.seq * shape.num_heads;
  const float* const qkv = arrays.random(qkv_elems, 1, 1.5F);
  float* const out = arrays.unwritten(out_elems);
  float* const sums = arrays.unwritten(num_sums);
  float* const d_qkv = arrays.unwritten(qkv_elems);
  float* const scratch = arrays.unwritten(table.attention_scratch_elems(shape, DType::kFp32));
  table.attention_forward(shape, qkv, out, sums, scratch);
  table.attention_backward(shape, qkv, out, sums, arrays.random(out_elems, 2), d_qkv, scratch);
  arrays.keep(out, out_elems);
  arrays.keep(sums, num_sums);
  arrays.keep(d_qkv, qkv_elems);
}

struct Case {
  const char* kernel;
  void (*run)(const KernelTable&, Arrays&);
  double tolerance;  // of the largest element; 0: the same bits
};
constexpr Case kCases[] = {
    {"norms", &run_norms, 0},
    {"activations", &run_activations, 0},
    {"loss", &run_loss, 0},
    {"embedding", &run_embedding, 0},
    {"rotary", &run_rotary, 0},
    {"rounding", &run_rounding, 0},
    {"dropout", &run_dropout, 0},
    {"rows and columns", &run_rows_and_columns, 0},
    {"sums over rows", &run_sums_over_rows, 1e-6},
    {"optimizer", &run_optimizer, 0},
    {"attention", &run_attention, 1e-5},
};

// The largest difference, as a share of the largest element; not a number if one is not.
double relative_error(const std::vector<float>& got, const std::vector<float>& want) {
  double error = 0;
  double size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double difference = std::abs(static_cast<double>(got[i]) - static_cast<double>(want[i]));
    if (std::isnan(difference)) return difference;
    error = std::max(error, difference);
    size = std::max(size, std::abs(static_cast<double>(want[i])));
  }
  return size > 0 ? error / size : error;
}

KernelVerdict judge(const Case& kernel, const std::vector<float>& got,
                    const std::vector<float>& want) {
  const bool is_same = got.size() == want.size() &&
                       std::memcmp(got.data(), want.data(), got.size() * sizeof(float)) == 0;
  if (is_same) return {kernel.kernel, true, "same bits"};
  const double error = relative_error(got, want);
  return {kernel.kernel, error <= kernel.tolerance, "off by " + std::to_string(error)};
}

}  // namespace

std::vector<KernelVerdict> check_kernels(const KernelTable& device, const KernelTable& processor,
                                         const SharedMemory& memory) {
  std::vector<KernelVerdict> verdicts;
  for (const Case& kernel : kCases) {
    Arrays of_device(memory);
    Arrays of_processor(memory);
    kernel.run(device, of_device);
    kernel.run(processor, of_processor);
    verdicts.push_back(judge(kernel, of_device.kept(), of_processor.kept()));
  }
  return verdicts;
}

}  // namespace lockstep::runtime
