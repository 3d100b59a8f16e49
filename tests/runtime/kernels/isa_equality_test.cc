// Each kernel gives the same bits on every instruction set, a GPU's among them (attention excepted,
// which is another kernel there), and an element the same bits wherever it lies.
#include <cstdlib>
#include <functional>
#include <stdexcept>

#include <gmock/gmock.h>

#include "tests/runtime/kernels/kernel_test_data.h"
#include "tests/runtime/kernels/tested_kernels.h"

namespace lockstep::runtime {
namespace {

// All that a kernel wrote, as floats. The inputs are copies at `offset` elements past an aligned
// start.
using Kernel = std::function<std::vector<float>(const KernelTable&, int64_t offset)>;

class Shifted {
 public:
  Shifted(const std::vector<float>& values, int64_t offset)
      : offset_(offset), storage_(static_cast<size_t>(offset)) {
    storage_.insert(storage_.end(), values.begin(), values.end());
  }
  float* data() { return storage_.data() + offset_; }
  std::vector<float> values() const { return {storage_.begin() + offset_, storage_.end()}; }

 private:
  int64_t offset_;
  std::vector<float> storage_;
};

std::vector<float> join(const std::vector<std::vector<float>>& parts) {
  std::vector<float> all;
  for (const std::vector<float>& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

// The bits of doubles, as twice as many floats.
std::vector<float> halves_of(const std::vector<double>& values) {
  std::vector<float> halves(2 * values.size());
  std::memcpy(halves.data(), values.data(), values.size() * sizeof(double));
  return halves;
}

void expect_same_bits_everywhere(const std::string& name, const Kernel& kernel) {
  const std::vector<float> want = kernel(supported_kernels().back(), 0);
  for (const KernelTable& table : tested_kernels()) {
    for (const int64_t offset : {0, 1, 7, 16, 19}) {
      EXPECT_TRUE(same_bits(kernel(table, offset), want))
          << name << " " << table.isa << " " << offset;
    }
  }
}

constexpr int64_t kRows = 5;

TEST(IsaEqualityTest, RmsNorm) {
  for (const int64_t channels : {1, 15, 16, 17, 64, 203}) {
    const std::vector<float> x0 = random_floats(kRows * channels, 1, 4);
    expect_same_bits_everywhere("rms_norm", [&](const KernelTable& table, int64_t offset) {
      Shifted x(x0, offset), weight(random_floats(channels, 2), offset);
      Shifted dy(random_floats(kRows * channels, 3), offset), residual(x0, offset);
      Shifted y(unwritten(kRows * channels), offset), dx = y;
      Shifted rstd(unwritten(kRows), offset), d_weight(unwritten(channels), offset);
      table.rms_norm_forward(kRows, channels, 1e-6F, x.data(), weight.data(), y.data(),
                             rstd.data());
      table.rms_norm_backward(kRows, channels, x.data(), weight.data(), rstd.data(), dy.data(),
                              residual.data(), dx.data(), d_weight.data());
      return join({y.values(), rstd.values(), dx.values(), d_weight.values()});
    });
  }
}

TEST(IsaEqualityTest, LayerNorm) {
  for (const int64_t channels : {1, 15, 16, 17, 203}) {
    const std::vector<float> x0 = random_floats(kRows * channels, 1, 4);
    expect_same_bits_everywhere("layer_norm", [&](const KernelTable& table, int64_t offset) {
      Shifted x(x0, offset), weight(random_floats(channels, 2), offset);
      Shifted bias(random_floats(channels, 4), offset);
      Shifted dy(random_floats(kRows * channels, 3), offset), residual(x0, offset);
      Shifted y(unwritten(kRows * channels), offset), dx = y;
      Shifted stats(unwritten(2 * kRows), offset);
      Shifted d_weight(unwritten(channels), offset), d_bias = d_weight;
      table.layer_norm_forward(kRows, channels, 1e-5F, x.data(), weight.data(), bias.data(),
                               y.data(), stats.data());
      table.layer_norm_backward(kRows, channels, x.data(), weight.data(), stats.data(), dy.data(),
                                residual.data(), dx.data(), d_weight.data(), d_bias.data());
      return join({y.values(), stats.values(), dx.values(), d_weight.values(), d_bias.values()});
    });
  }
}

TEST(IsaEqualityTest, GeluAndSoftCap) {
  for (const auto& [form, ff] : std::vector<std::pair<Gelu, int64_t>>{
           {Gelu::kTanh, 1}, {Gelu::kTanh, 16}, {Gelu::kTanh, 37}, {Gelu::kErf, 37}}) {
    expect_same_bits_everywhere(
        "gelu", [&, form = form, ff = ff](const KernelTable& table, int64_t offset) {
          Shifted gate_up(random_floats(kRows * 2 * ff, 1, 4), offset);
          Shifted d_out(random_floats(kRows * ff, 2), offset);
          Shifted out(unwritten(kRows * ff), offset), act = out, plain = out, d_plain = out;
          Shifted d_gate_up(unwritten(kRows * 2 * ff), offset);
          table.geglu_forward(form, kRows, ff, gate_up.data(), out.data());
          table.geglu_backward(form, kRows, ff, gate_up.data(), d_out.data(), d_gate_up.data(),
                               act.data());
          table.gelu_forward(form, kRows * ff, gate_up.data(), plain.data());
          table.gelu_backward(form, kRows * ff, gate_up.data(), d_out.data(), d_plain.data(),
                              act.data());
          table.softcap_forward(kRows * ff, 2.5F, gate_up.data());
          table.softcap_backward(kRows * ff, 2.5F, gate_up.data(), d_out.data());
          table.add_scaled(kRows * ff, 0.3F, d_out.data(), out.data());
          table.scale(kRows * ff, 0.7F, out.data(), out.data());
          return join({out.values(), d_gate_up.values(), plain.values(), d_plain.values(),
                       gate_up.values(), d_out.values()});
        });
  }
}

TEST(IsaEqualityTest, Rotary) {
  for (const int64_t head_dim : {2, 30, 32, 38}) {
    const RotaryShape shape{
        .batch = 2, .seq = 3, .num_heads = 2, .head_dim = head_dim, .row_elems = 3 * head_dim};
    std::vector<float> angles(static_cast<size_t>(shape.seq * head_dim));
    rotary_table(shape.seq, head_dim, 10000, angles.data());
    expect_same_bits_everywhere("rotary", [&](const KernelTable& table, int64_t offset) {
      Shifted turns(angles, offset), rows(random_floats(6 * shape.row_elems, 1), offset);
      table.rotary_forward(shape, turns.data(), rows.data());
      const std::vector<float> forward = rows.values();
      table.rotary_backward(shape, turns.data(), rows.data());
      return join({forward, rows.values()});
    });
  }
}

// Arguments over the exponential's whole range, in steps that reach every rounding of its
// reduction.
TEST(IsaEqualityTest, Swiglu) {
  for (const int64_t ff : {1, 16, 77, 4099}) {
    std::vector<float> gate_up = random_floats(kRows * 2 * ff, 1, 100);
    expect_same_bits_everywhere("swiglu", [&](const KernelTable& table, int64_t offset) {
      Shifted in(gate_up, offset), d_out(random_floats(kRows * ff, 2), offset);
      Shifted out(unwritten(kRows * ff), offset), act = out;
      Shifted grads(unwritten(kRows * 2 * ff), offset);
      table.swiglu_forward(kRows, ff, in.data(), out.data());
      table.swiglu_backward(kRows, ff, in.data(), d_out.data(), grads.data(), act.data());
      return join({out.values(), grads.values(), act.values()});
    });
  }
}

TEST(IsaEqualityTest, EmbeddingAndAdd) {
  const std::vector<int32_t> tokens = {2, 0, 2, 3, 2};
  for (const int64_t channels : {1, 16, 45}) {
    expect_same_bits_everywhere("embedding", [&](const KernelTable& table, int64_t offset) {
      Shifted dy(random_floats(kRows * channels, 1), offset);
      Shifted d_table(random_floats(4 * channels, 2), offset);
      Shifted rows(unwritten(kRows * channels), offset);
      table.embedding_backward(kRows, channels, tokens.data(), 1.3F, dy.data(), d_table.data());
      table.add_in_place(4 * channels, dy.data(), d_table.data());
      table.embedding_forward(kRows, channels, tokens.data(), d_table.data(), rows.data());
      return join({d_table.values(), rows.values()});
    });
  }
}

TEST(IsaEqualityTest, CrossEntropy) {
  for (const int64_t vocab : {2, 16, 263}) {
    const std::vector<int32_t> labels = {0, 1, -1, static_cast<int32_t>(vocab - 1), 1};
    expect_same_bits_everywhere("cross_entropy", [&](const KernelTable& table, int64_t offset) {
      Shifted logits(random_floats(kRows * vocab, 1, 30), offset);
      Shifted softmax = logits;
      table.softmax(kRows, vocab, softmax.data());
      const double loss = table.cross_entropy(kRows, vocab, labels.data(), 0.3F, logits.data());
      return join({logits.values(), softmax.values(), halves_of({loss})});
    });
  }
}

TEST(IsaEqualityTest, Distill) {
  const DistillFactors factors{.alpha = 0.7F, .temperature = 2.5F};
  for (const int64_t vocab : {2, 16, 263}) {
    const std::vector<int32_t> labels = {0, 1, -1, static_cast<int32_t>(vocab - 1), 1};
    expect_same_bits_everywhere("distill", [&](const KernelTable& table, int64_t offset) {
      Shifted logits(random_floats(kRows * vocab, 1, 30), offset);
      Shifted teacher(random_floats(kRows * vocab, 2, 30), offset);
      const double loss =
          table.distill(kRows, vocab, labels.data(), factors, 0.3F, teacher.data(), logits.data());
      return join({logits.values(), halves_of({loss})});
    });
  }
}

TEST(IsaEqualityTest, AdamAndAdamW) {
  AdamStep step{.lr = 3e-4, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};
  step.gradient_scale = 0.37;
  for (const auto update : {&KernelTable::adamw, &KernelTable::adam}) {
    for (const int64_t n : {1, 16, 333}) {
      expect_same_bits_everywhere("adam", [&](const KernelTable& table, int64_t offset) {
        Shifted gradient(random_floats(n, 1), offset), weight(random_floats(n, 2), offset);
        Shifted m(random_floats(n, 3), offset);
        Shifted v(std::vector<float>(static_cast<size_t>(n), 0.2F), offset);
        (table.*update)(step, n, gradient.data(), weight.data(), m.data(), v.data());
        return join({weight.values(), m.values(), v.values()});
      });
    }
  }
}

TEST(IsaEqualityTest, Sgd) {
  for (const bool nesterov : {false, true}) {
    const SgdStep step{.lr = 3e-2,
                       .momentum = 0.9,
                       .weight_decay = 0.1,
                       .nesterov = nesterov,
                       .gradient_scale = 0.37};
    for (const int64_t n : {1, 16, 333}) {
      expect_same_bits_everywhere("sgd", [&](const KernelTable& table, int64_t offset) {
        Shifted gradient(random_floats(n, 1), offset), weight(random_floats(n, 2), offset);
        Shifted buffer(random_floats(n, 3), offset), plain = weight;
        table.sgd(step, n, gradient.data(), weight.data(), buffer.data());
        table.sgd(step, n, gradient.data(), plain.data(), nullptr);
        return join({weight.values(), buffer.values(), plain.values()});
      });
    }
  }
}

TEST(IsaEqualityTest, SumSquares) {
  for (const int64_t n : {1, 1024, 1041, 5000}) {
    expect_same_bits_everywhere("sum_squares", [&](const KernelTable& table, int64_t offset) {
      Shifted x(random_floats(n, 1), offset);
      std::vector<double> sums(static_cast<size_t>((n + kNormChunkElems - 1) / kNormChunkElems));
      table.sum_squares_chunks(n, x.data(), sums.data());
      return halves_of(sums);
    });
  }
}

TEST(IsaChoiceTest, EndsWithPlainAndIsTheBestUnlessTheEnvironmentSaysOtherwise) {
  const std::vector<KernelTable> tables = supported_kernels();
  EXPECT_STREQ(tables.back().isa, "plain");
  const char* const wanted = std::getenv("LOCKSTEP_ISA");
  EXPECT_STREQ(kernel_isa(), wanted == nullptr || *wanted == '\0' ? tables.front().isa : wanted);
}

TEST(IsaChoiceDeathTest, RefusesAnInstructionSetThatIsNotThere) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        setenv("LOCKSTEP_ISA", "avx1024", 1);
        try {
          static_cast<void>(kernel_isa());
        } catch (const std::runtime_error& error) {
          std::fputs(error.what(), stderr);
          std::_Exit(3);
        }
        std::_Exit(0);
      },
      testing::ExitedWithCode(3),
      "LOCKSTEP_ISA is 'avx1024', but this processor runs only: .*plain");
}

}  // namespace
}  // namespace lockstep::runtime
