// Storage in bf16 and fp16: rounding by tables and by arithmetic in doubles, the same bits on every
// instruction set, and 16-bit kernels that are the fp32 kernels between widen() and narrow().
#include <bit>
#include <cmath>
#include <limits>
#include <thread>

#include <gtest/gtest.h>

#include "runtime/kernels/denormals.h"
#include "tests/runtime/kernels/kernel_test_data.h"
#include "tests/runtime/kernels/tested_kernels.h"
#include "tests/support/instrumented.h"

namespace lockstep::runtime {
namespace {

constexpr DType kHalves[] = {DType::kBf16, DType::kFp16};

std::vector<uint16_t> narrowed(const KernelTable& table, DType dtype,
                               const std::vector<float>& values, size_t offset = 0) {
  std::vector<uint16_t> out(values.size() + offset, 0x5A5A);
  table.narrow(static_cast<int64_t>(values.size()), values.data(), {dtype, out.data() + offset});
  return {out.begin() + static_cast<int64_t>(offset), out.end()};
}

std::vector<float> widened(const KernelTable& table, DType dtype,
                           const std::vector<uint16_t>& halves) {
  std::vector<float> out = unwritten(static_cast<int64_t>(halves.size()));
  table.widen(static_cast<int64_t>(halves.size()), {dtype, halves.data()}, out.data());
  return out;
}

uint16_t narrow_one(DType dtype, float value) {
  return narrowed(chosen_kernels(), dtype, {value}).front();
}

// The nearest number of the type, ties to even, by arithmetic in doubles.
double rounded(DType dtype, double value) {
  const int mantissa_bits = dtype == DType::kBf16 ? 7 : 10;
  const int least_exponent = dtype == DType::kBf16 ? -126 : -14;
  const double largest = dtype == DType::kBf16 ? 0x1.FEp127 : 65504;
  if (value == 0 || !std::isfinite(value)) return value;
  const double quantum =
      std::ldexp(1.0, std::max(std::ilogb(value), least_exponent) - mantissa_bits);
  const double nearest = std::nearbyint(value / quantum) * quantum;
  return std::abs(nearest) > largest ? std::copysign(std::numeric_limits<double>::infinity(), value)
                                     : nearest;
}

std::vector<uint16_t> all_halves() {
  std::vector<uint16_t> halves(1U << 16U);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
  return halves;
}

// Bit patterns of every kind: all exponents, denormals, infinities, not-a-numbers.
std::vector<float> many_floats() {
  std::vector<float> values;
  uint32_t state = 1;
  for (int64_t i = 0; i < 300001 / kWalkStride; ++i) {
    state = state * 1664525U + 1013904223U;
    values.push_back(std::bit_cast<float>(state));
  }
  // What lies around fp16: its whole range of exponents, and ties between two of its numbers.
  for (uint32_t half = 0; half < 0x8000; half += static_cast<uint32_t>(3 * kWalkStride)) {
    const float value = widened(chosen_kernels(), DType::kFp16, {static_cast<uint16_t>(half)})[0];
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    for (const uint32_t rest : {0xFFFU, 0x1000U, 0x1001U}) {
      values.push_back(std::bit_cast<float>(bits + rest));
      values.push_back(-std::bit_cast<float>(bits + rest));
    }
  }
  return values;
}

TEST(HalfTest, RoundsToTheNearestAndTiesToEven) {
  struct Row {
    DType dtype;
    float value;
    uint16_t bits;
  };
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<Row> rows = {
      {DType::kBf16, 1.0F, 0x3F80},
      {DType::kBf16, 0x1.01p0F, 0x3F80},      // a tie between 1 and 1 + 2^-7: to even
      {DType::kBf16, 0x1.03p0F, 0x3F82},      // a tie between 1 + 2^-7 and 1 + 2^-6: to even
      {DType::kBf16, 0x1.0102p0F, 0x3F81},    // just above a tie
      {DType::kBf16, -0x1.FFp127F, 0xFF80},   // a tie between the largest number and infinity
      {DType::kBf16, 0x1.FEFEp127F, 0x7F7F},  // the largest number
      {DType::kBf16, 1e-40F, 0x0001},         // denormal: kept
      {DType::kFp16, 1.0F, 0x3C00},
      {DType::kFp16, 65504.0F, 0x7BFF},
      {DType::kFp16, 65519.996F, 0x7BFF},
      {DType::kFp16, 65520.0F, 0x7C00},  // a tie with what would be 65536
      {DType::kFp16, -infinity, 0xFC00},
      {DType::kFp16, 0x1p-24F, 0x0001},      // the smallest number
      {DType::kFp16, 0x1p-25F, 0x0000},      // a tie with zero
      {DType::kFp16, 0x1.8p-24F, 0x0002},    // a tie between 1 and 2 units
      {DType::kFp16, 0x1.FFFp-15F, 0x0400},  // rounds up into the normal numbers
      {DType::kFp16, -0.0F, 0x8000},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(narrow_one(row.dtype, row.value), row.bits) << to_string(row.dtype) << row.value;
  }
  for (const DType dtype : kHalves) {
    const uint16_t quiet = narrow_one(dtype, std::nanf("1"));
    EXPECT_TRUE(std::isnan(widened(chosen_kernels(), dtype, {quiet})[0]));
    EXPECT_TRUE(std::isnan(widened(chosen_kernels(), dtype,
                                   {narrow_one(dtype, std::bit_cast<float>(0x7F800001U))})[0]))
        << "a payload in the lower half must not become infinite";
  }
}

TEST(HalfTest, AgreesWithRoundingInDoubles) {
  const std::vector<float> values = many_floats();
  for (const DType dtype : kHalves) {
    const std::vector<float> got =
        widened(chosen_kernels(), dtype, narrowed(chosen_kernels(), dtype, values));
    for (size_t i = 0; i < values.size(); ++i) {
      const double want = rounded(dtype, static_cast<double>(values[i]));
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(got[i]));
      } else {
        ASSERT_EQ(static_cast<double>(got[i]), want) << to_string(dtype) << " " << values[i];
      }
    }
  }
}

TEST(HalfTest, WideningIsExactAndNarrowingReturnsEveryNumber) {
  for (const DType dtype : kHalves) {
    const std::vector<float> wide = widened(chosen_kernels(), dtype, all_halves());
    const std::vector<uint16_t> back = narrowed(chosen_kernels(), dtype, wide);
    for (size_t i = 0; i < back.size(); ++i) {
      if (std::isnan(wide[i])) continue;
      ASSERT_EQ(back[i], i) << to_string(dtype);
    }
  }
}

void expect_the_same_bits_on_every_instruction_set() {
  const std::vector<float> values = many_floats();
  const KernelTable plain = supported_kernels().back();
  for (const DType dtype : kHalves) {
    const std::vector<uint16_t> want = narrowed(plain, dtype, values);
    const std::vector<float> wide = widened(plain, dtype, all_halves());
    for (const KernelTable& table : tested_kernels()) {
      EXPECT_TRUE(same_bits(widened(table, dtype, all_halves()), wide)) << table.isa;
      for (const size_t offset : {0, 1, 9}) {
        EXPECT_EQ(narrowed(table, dtype, values, offset), want) << table.isa << " " << offset;
      }
    }
  }
}

TEST(HalfTest, EveryInstructionSetGivesTheSameBits) {
  expect_the_same_bits_on_every_instruction_set();
}

TEST(HalfTest, FlushedDenormalsChangeNothing) {
  const std::vector<float> values = many_floats();
  std::vector<std::vector<uint16_t>> before, after;
  for (const DType dtype : kHalves) before.push_back(narrowed(chosen_kernels(), dtype, values));
  std::thread([&] {
    flush_denormals();
    for (const DType dtype : kHalves) after.push_back(narrowed(chosen_kernels(), dtype, values));
    expect_the_same_bits_on_every_instruction_set();
  }).join();
  EXPECT_EQ(before, after);
}

TEST(HalfTest, NarrowsInPlace) {
  for (const KernelTable& table : tested_kernels()) {
    for (const DType dtype : kHalves) {
      std::vector<float> values = random_floats(1003, 1);
      const std::vector<uint16_t> want = narrowed(table, dtype, values);
      table.narrow(1003, values.data(), {dtype, values.data()});
      EXPECT_EQ(std::memcmp(values.data(), want.data(), want.size() * sizeof(uint16_t)), 0)
          << table.isa;
    }
  }
}

// Inputs and outputs of a kernel, in the type under test or widened.
class Operand {
 public:
  Operand(const KernelTable& table, DType dtype, const std::vector<float>& values)
      : table_(table), dtype_(dtype), halves(narrowed(table, dtype, values)) {
    wide = widened(table, dtype, halves);
  }
  Values typed() { return {dtype_, halves.data()}; }
  // What the fp32 kernel left in `wide`, in the type under test.
  std::vector<uint16_t> rounded() const { return narrowed(table_, dtype_, wide); }

 private:
  const KernelTable& table_;
  DType dtype_;

 public:
  std::vector<uint16_t> halves;
  std::vector<float> wide;
};

template <class Check>
void for_each_table_and_type(Check check) {
  for (const KernelTable& table : tested_kernels()) {
    for (const DType dtype : kHalves) {
      SCOPED_TRACE(std::string(table.isa) + " " + std::string(to_string(dtype)));
      check(table, dtype);
    }
  }
}

TEST(HalfKernelTest, RmsNormIsTheWideOneRounded) {
  constexpr int64_t kRows = 3, kChannels = 45;
  const std::vector<float> x = random_floats(kRows * kChannels, 1, 4);
  const std::vector<float> dy = random_floats(kRows * kChannels, 3);
  for_each_table_and_type([&](const KernelTable& table, DType dtype) {
    Operand weight(table, dtype, random_floats(kChannels, 2)), y(table, dtype, x);
    std::vector<float> rstd = unwritten(kRows), rstd_wide = rstd;
    table.rms_norm_forward(kRows, kChannels, 1e-6F, x.data(), weight.typed(), y.typed(),
                           rstd.data());
    table.rms_norm_forward(kRows, kChannels, 1e-6F, x.data(), weight.wide.data(), y.wide.data(),
                           rstd_wide.data());
    EXPECT_EQ(y.halves, y.rounded());
    EXPECT_TRUE(same_bits(rstd, rstd_wide));
    std::vector<float> dx = unwritten(kRows * kChannels), dx_wide = dx;
    std::vector<float> d_weight = unwritten(kChannels), d_weight_wide = d_weight;
    table.rms_norm_backward(kRows, kChannels, x.data(), weight.typed(), rstd.data(), dy.data(),
                            nullptr, dx.data(), d_weight.data());
    table.rms_norm_backward(kRows, kChannels, x.data(), weight.wide.data(), rstd.data(), dy.data(),
                            nullptr, dx_wide.data(), d_weight_wide.data());
    EXPECT_TRUE(same_bits(dx, dx_wide));
    EXPECT_TRUE(same_bits(d_weight, d_weight_wide));
  });
}

TEST(HalfKernelTest, SwigluIsTheWideOneRounded) {
  constexpr int64_t kRows = 3, kFf = 37;
  const std::vector<float> d_out = random_floats(kRows * kFf, 2);
  for_each_table_and_type([&](const KernelTable& table, DType dtype) {
    Operand gate_up(table, dtype, random_floats(kRows * 2 * kFf, 1, 20));
    Operand act(table, dtype, d_out), act_again = act, gradient = gate_up;
    table.swiglu_forward(kRows, kFf, gate_up.typed(), act.typed());
    table.swiglu_forward(kRows, kFf, gate_up.wide.data(), act.wide.data());
    EXPECT_EQ(act.halves, act.rounded());
    // In place, as the decoder does it.
    table.swiglu_backward(kRows, kFf, gradient.typed(), d_out.data(), gradient.typed(),
                          act_again.typed());
    table.swiglu_backward(kRows, kFf, gradient.wide.data(), d_out.data(), gradient.wide.data(),
                          act_again.wide.data());
    EXPECT_EQ(gradient.halves, gradient.rounded());
    EXPECT_EQ(act_again.halves, act.halves);
  });
}

TEST(HalfKernelTest, AttentionIsTheWideOneRounded) {
  for (const AttentionShape& shape :
       {AttentionShape{.batch = 2, .seq = 7, .num_heads = 2, .num_kv_heads = 1, .head_dim = 6},
        AttentionShape{.batch = 1, .seq = 77, .num_heads = 4, .num_kv_heads = 2, .head_dim = 50}}) {
    const int64_t rows = shape.batch * shape.seq;
    const int64_t out_elems = rows * shape.num_heads * shape.head_dim;
    const std::vector<float> d_out = random_floats(out_elems, 2);
    for_each_table_and_type([&](const KernelTable& table, DType dtype) {
      std::vector<float> scratch(static_cast<size_t>(table.attention_scratch_elems(shape, dtype)),
                                 std::nanf(""));
      Operand qkv(table, dtype, random_floats(rows * shape.qkv_row_elems(), 1, 1.5));
      Operand out(table, dtype, d_out);
      std::vector<float> sums = unwritten(rows * shape.num_heads), sums_wide = sums;
      table.attention_forward(shape, qkv.typed(), out.typed(), sums.data(), scratch.data());
      table.attention_forward(shape, qkv.wide.data(), out.wide.data(), sums_wide.data(),
                              scratch.data());
      EXPECT_EQ(out.halves, out.rounded());
      EXPECT_TRUE(same_bits(sums, sums_wide));

      out.wide = widened(table, dtype, out.halves);
      std::vector<float> d_qkv = unwritten(rows * shape.qkv_row_elems()), d_qkv_wide = d_qkv;
      std::fill(scratch.begin(), scratch.end(), std::nanf(""));
      table.attention_backward(shape, qkv.typed(), out.typed(), sums.data(), d_out.data(),
                               d_qkv.data(), scratch.data());
      table.attention_backward(shape, qkv.wide.data(), out.wide.data(), sums.data(), d_out.data(),
                               d_qkv_wide.data(), scratch.data());
      EXPECT_TRUE(same_bits(d_qkv, d_qkv_wide));
    });
  }
}

TEST(HalfKernelTest, EmbeddingRowsAreWidened) {
  const std::vector<int32_t> tokens = {2, 0, 2};
  for (const DType dtype : kHalves) {
    Operand table(chosen_kernels(), dtype, random_floats(3 * 21, 1));
    std::vector<float> y = unwritten(3 * 21), want = y;
    embedding_forward(3, 21, tokens.data(), table.typed(), y.data());
    embedding_forward(3, 21, tokens.data(), table.wide.data(), want.data());
    EXPECT_TRUE(same_bits(y, want));
  }
}

}  // namespace
}  // namespace lockstep::runtime
