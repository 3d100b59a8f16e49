#include "runtime/kernels/attention.h"

#include <algorithm>
#include <array>

#include "runtime/kernels/float_buffer.h"
#include "tests/runtime/kernels/attention_reference.h"
#include "tests/runtime/kernels/emulated_block.h"
#include "tests/runtime/kernels/kernel_test_data.h"
#include "tests/runtime/kernels/tested_kernels.h"
#include "tests/support/instrumented.h"

namespace lockstep::runtime {
namespace {

struct AttentionResult {
  std::vector<float> out, log_sum_exp, d_qkv;
};

// The scratch buffer starts as not-a-number: nothing may be read before it is written.
AttentionResult run_attention(const KernelTable& table, const AttentionShape& shape,
                              const std::vector<float>& qkv, const std::vector<float>& d_out) {
  AttentionResult result{unwritten(static_cast<int64_t>(d_out.size())),
                         unwritten(shape.batch * shape.num_heads * shape.seq),
                         unwritten(static_cast<int64_t>(qkv.size()))};
  std::vector<float> scratch(
      static_cast<size_t>(table.attention_scratch_elems(shape, DType::kFp32)), std::nanf(""));
  table.attention_forward(shape, qkv.data(), result.out.data(), result.log_sum_exp.data(),
                          scratch.data());
  std::fill(scratch.begin(), scratch.end(), std::nanf(""));
  table.attention_backward(shape, qkv.data(), result.out.data(), result.log_sum_exp.data(),
                           d_out.data(), result.d_qkv.data(), scratch.data());
  return result;
}

std::vector<AttentionShape> shapes() {
  return {{.batch = 1, .seq = 1, .num_heads = 1, .num_kv_heads = 1, .head_dim = 2},
          {.batch = 2, .seq = 7, .num_heads = 2, .num_kv_heads = 1, .head_dim = 6},
          {.batch = 1, .seq = 33, .num_heads = 3, .num_kv_heads = 3, .head_dim = 16},
          {.batch = 2, .seq = 64, .num_heads = 6, .num_kv_heads = 2, .head_dim = 32},
          {.batch = 1, .seq = 77, .num_heads = 4, .num_kv_heads = 2, .head_dim = 50},
          {.batch = 1, .seq = 131, .num_heads = 2, .num_kv_heads = 1, .head_dim = 64},
          {.batch = 1, .seq = 70, .num_heads = 1, .num_kv_heads = 1, .head_dim = 256}};
}

// All; under the sanitizers a GPU's threads are played for short sequences only.
std::vector<KernelTable> tables_for(const AttentionShape& shape) {
  return kIsInstrumented && shape.seq > 40 ? supported_kernels() : tested_kernels();
}

// Positions of sequences cut into documents of 1, 2, 3, ... rows and what is left, starting anew in
// every sequence: no border lies on a multiple of a block size for long.
std::vector<int32_t> cut_into_documents(const AttentionShape& shape) {
  std::vector<int32_t> positions;
  for (int64_t batch = 0; batch < shape.batch; ++batch) {
    int32_t rows = static_cast<int32_t>(batch) + 1;
    int32_t position = 0;
    for (int64_t row = 0; row < shape.seq; ++row) {
      positions.push_back(position);
      if (++position < rows) continue;
      position = 0;
      ++rows;
    }
  }
  return positions;
}

int64_t out_elems(const AttentionShape& shape) {
  return shape.batch * shape.seq * shape.num_heads * shape.head_dim;
}

std::vector<float> inputs(const AttentionShape& shape) {
  return random_floats(shape.batch * shape.seq * shape.qkv_row_elems(), 1, 1.5);
}

// Tolerance 2e-6 of the largest element, for outputs and gradients.
TEST(AttentionTest, AgreesWithDoublesForOddLengthsAndHeadSizes) {
  for (const AttentionShape& shape : shapes()) {
    const std::vector<float> qkv = inputs(shape);
    const std::vector<float> d_out = random_floats(out_elems(shape), 2);
    const AttentionReference want = attention_reference(shape, qkv, d_out);
    for (const KernelTable& table : tables_for(shape)) {
      const AttentionResult got = run_attention(table, shape, qkv, d_out);
      EXPECT_LT(relative_max_error(got.out, want.out), 2e-6) << table.isa << " T " << shape.seq;
      EXPECT_LT(relative_max_error(got.log_sum_exp, want.log_sum_exp), 2e-6) << table.isa;
      EXPECT_LT(relative_max_error(got.d_qkv, want.d_qkv), 2e-6) << table.isa << " T " << shape.seq;
    }
  }
}

TEST(AttentionTest, AgreesWithABlockMaskInDoublesWhereDocumentsArePacked) {
  for (AttentionShape shape : shapes()) {
    const std::vector<int32_t> positions = cut_into_documents(shape);
    shape.positions = positions.data();
    const std::vector<float> qkv = inputs(shape);
    const std::vector<float> d_out = random_floats(out_elems(shape), 2);
    const AttentionReference want = attention_reference(shape, qkv, d_out);
    for (const KernelTable& table : tables_for(shape)) {
      const AttentionResult got = run_attention(table, shape, qkv, d_out);
      EXPECT_LT(relative_max_error(got.out, want.out), 2e-6) << table.isa << " T " << shape.seq;
      EXPECT_LT(relative_max_error(got.log_sum_exp, want.log_sum_exp), 2e-6) << table.isa;
      EXPECT_LT(relative_max_error(got.d_qkv, want.d_qkv), 2e-6) << table.isa << " T " << shape.seq;
    }
  }
}

// The window begins in a panel of keys, at its end and in the one before; the cap bends scores.
// Tolerance of gradients 4e-6: with the cap's slope they have one more rounded factor.
TEST(AttentionTest, AgreesWithDoublesWithAWindowASoftCapAndAScale) {
  constexpr std::array<int64_t, 5> kWindows = {1, 5, 32, 33, 100};
  size_t turn = 0;
  for (AttentionShape shape : shapes()) {
    const std::vector<int32_t> positions = cut_into_documents(shape);
    for (const int64_t window : {kWindows[turn % 5], kWindows[(turn + 2) % 5]}) {
      ++turn;
      shape.window = window;
      shape.softcap = window == 32 ? 0.0F : 2.5F;
      shape.scale = window == 33 ? 0.0F : 0.3F;
      shape.positions = window == 5 ? positions.data() : nullptr;
      const std::vector<float> qkv = inputs(shape);
      const std::vector<float> d_out = random_floats(out_elems(shape), 2);
      const AttentionReference want = attention_reference(shape, qkv, d_out);
      const AttentionResult plain = run_attention(supported_kernels().back(), shape, qkv, d_out);
      for (const KernelTable& table : tables_for(shape)) {
        const AttentionResult got = run_attention(table, shape, qkv, d_out);
        EXPECT_LT(relative_max_error(got.out, want.out), 2e-6) << table.isa << " T " << shape.seq;
        EXPECT_LT(relative_max_error(got.log_sum_exp, want.log_sum_exp), 2e-6) << table.isa;
        EXPECT_LT(relative_max_error(got.d_qkv, want.d_qkv), 4e-6) << table.isa << " " << window;
        if (is_emulated(table)) continue;  // adds up in another order
        EXPECT_TRUE(same_bits(got.out, plain.out)) << table.isa << " " << window;
        EXPECT_TRUE(same_bits(got.d_qkv, plain.d_qkv)) << table.isa << " " << window;
      }
    }
  }
}

TEST(AttentionTest, AWindowAsLongAsTheDocumentChangesNoBit) {
  AttentionShape shape{.batch = 1, .seq = 77, .num_heads = 2, .num_kv_heads = 1, .head_dim = 24};
  const std::vector<float> qkv = inputs(shape);
  const std::vector<float> d_out = random_floats(out_elems(shape), 2);
  const AttentionResult whole = run_attention(chosen_kernels(), shape, qkv, d_out);
  shape.window = 77;
  const AttentionResult windowed = run_attention(chosen_kernels(), shape, qkv, d_out);
  EXPECT_TRUE(same_bits(windowed.out, whole.out));
  EXPECT_TRUE(same_bits(windowed.d_qkv, whole.d_qkv));
}

// Rows [begin, begin + rows) of a [batch 1, seq, elems] buffer.
std::vector<float> rows_of(const std::vector<float>& all, int64_t begin, int64_t rows,
                           int64_t elems) {
  return {all.begin() + begin * elems, all.begin() + (begin + rows) * elems};
}

TEST(AttentionTest, GivesAPackedDocumentTheBitsOfTheDocumentAlone) {
  const AttentionShape packed{
      .batch = 1, .seq = 150, .num_heads = 4, .num_kv_heads = 2, .head_dim = 24};
  std::vector<int32_t> positions;
  for (const int32_t rows : {9, 1, 100, 33, 7}) {
    for (int32_t row = 0; row < rows; ++row) positions.push_back(row);
  }
  AttentionShape with_borders = packed;
  with_borders.positions = positions.data();
  const std::vector<float> qkv = inputs(packed);
  const std::vector<float> d_out = random_floats(out_elems(packed), 2);
  const int64_t out_row = packed.num_heads * packed.head_dim;
  for (const KernelTable& table : tested_kernels()) {
    const AttentionResult all = run_attention(table, with_borders, qkv, d_out);
    for (int64_t begin = 0; const int64_t rows : {9, 1, 100, 33, 7}) {
      AttentionShape alone = packed;
      alone.seq = rows;
      const AttentionResult one =
          run_attention(table, alone, rows_of(qkv, begin, rows, packed.qkv_row_elems()),
                        rows_of(d_out, begin, rows, out_row));
      EXPECT_TRUE(same_bits(rows_of(all.out, begin, rows, out_row), one.out)) << begin;
      EXPECT_TRUE(same_bits(rows_of(all.d_qkv, begin, rows, packed.qkv_row_elems()), one.d_qkv))
          << begin;
      for (int64_t head = 0; head < packed.num_heads; ++head) {
        EXPECT_TRUE(same_bits(all.log_sum_exp.data() + head * packed.seq + begin,
                              one.log_sum_exp.data() + head * rows, rows))
            << begin;
      }
      begin += rows;
    }
  }
}

TEST(AttentionTest, PositionsOfWholeSequencesChangeNoBit) {
  const AttentionShape shape{
      .batch = 2, .seq = 45, .num_heads = 4, .num_kv_heads = 2, .head_dim = 24};
  std::vector<int32_t> positions;
  for (int32_t row = 0; row < 90; ++row) positions.push_back(row % 45);
  AttentionShape named = shape;
  named.positions = positions.data();
  const std::vector<float> qkv = inputs(shape);
  const std::vector<float> d_out = random_floats(out_elems(shape), 2);
  const AttentionResult without = run_attention(chosen_kernels(), shape, qkv, d_out);
  const AttentionResult with = run_attention(chosen_kernels(), named, qkv, d_out);
  EXPECT_TRUE(same_bits(with.out, without.out));
  EXPECT_TRUE(same_bits(with.log_sum_exp, without.log_sum_exp));
  EXPECT_TRUE(same_bits(with.d_qkv, without.d_qkv));
}

TEST(AttentionTest, GivesTheSameBitsOnAllInstructionSets) {
  for (const AttentionShape& shape : shapes()) {
    const std::vector<float> qkv = inputs(shape);
    const std::vector<float> d_out = random_floats(out_elems(shape), 2);
    const AttentionResult plain = run_attention(supported_kernels().back(), shape, qkv, d_out);
    for (const KernelTable& table : supported_kernels()) {
      const AttentionResult got = run_attention(table, shape, qkv, d_out);
      EXPECT_TRUE(same_bits(got.out, plain.out)) << table.isa << " T " << shape.seq;
      EXPECT_TRUE(same_bits(got.log_sum_exp, plain.log_sum_exp)) << table.isa;
      EXPECT_TRUE(same_bits(got.d_qkv, plain.d_qkv)) << table.isa << " T " << shape.seq;
    }
  }
}

// The rows of one sequence in calls of these many, the last ones again and again.
std::vector<float> extend_in_pieces(const KernelTable& table, AttentionShape shape,
                                    const std::vector<float>& qkv,
                                    const std::vector<int64_t>& pieces) {
  const int64_t all = shape.seq;
  FloatBuffer cache(attention_cache_elems(shape, all));
  std::vector<float> scratch(static_cast<size_t>(attention_extend_scratch_elems(all)),
                             std::nanf(""));
  std::vector<float> out = unwritten(out_elems(shape));
  size_t turn = 0;
  for (int64_t begin = 0; begin < all; begin += shape.seq) {
    shape.seq = std::min(pieces[turn++ % pieces.size()], all - begin);
    table.attention_extend(shape, qkv.data() + begin * shape.qkv_row_elems(),
                           {.rows = cache.data(), .capacity = all, .num_rows = begin},
                           out.data() + begin * shape.num_heads * shape.head_dim, scratch.data());
  }
  return out;
}

TEST(AttentionTest, RowsThatGoOnFromACacheHaveTheBitsOfTheWholeSequence) {
  constexpr std::array<int64_t, 4> kWindows = {0, 1, 33, 40};
  size_t turn = 0;
  for (AttentionShape shape : shapes()) {
    shape.batch = 1;
    shape.window = kWindows[turn++ % 4];
    shape.softcap = shape.window == 33 ? 2.5F : 0.0F;
    const std::vector<float> qkv = inputs(shape);
    const std::vector<float> d_out = random_floats(out_elems(shape), 2);
    for (const KernelTable& table : supported_kernels()) {
      const std::vector<float> whole = run_attention(table, shape, qkv, d_out).out;
      for (const std::vector<int64_t>& pieces :
           {std::vector<int64_t>{1}, {shape.seq}, {5, 1, 32, 11}}) {
        EXPECT_TRUE(same_bits(extend_in_pieces(table, shape, qkv, pieces), whole))
            << table.isa << " T " << shape.seq << " pieces of " << pieces.front();
      }
    }
  }
}

// What one thread reads in the stretch between two barriers, another may write in it only by a
// fault that this finds.
TEST(AttentionTest, OfAGpuHasTheSameBitsWhicheverThreadsComeFirst) {
  AttentionShape shape = shapes()[4];
  const std::vector<int32_t> positions = cut_into_documents(shape);
  shape.positions = positions.data();
  const std::vector<float> qkv = inputs(shape);
  const std::vector<float> d_out = random_floats(out_elems(shape), 2);
  const ThreadOrder before = thread_order();
  set_thread_order(ThreadOrder::kRising);
  const AttentionResult rising = run_attention(emulated_kernels(), shape, qkv, d_out);
  set_thread_order(ThreadOrder::kFalling);
  const AttentionResult falling = run_attention(emulated_kernels(), shape, qkv, d_out);
  set_thread_order(before);
  EXPECT_TRUE(same_bits(rising.out, falling.out));
  EXPECT_TRUE(same_bits(rising.log_sum_exp, falling.log_sum_exp));
  EXPECT_TRUE(same_bits(rising.d_qkv, falling.d_qkv));
}

// A sequence in a batch has the bits of that sequence alone, in buffers that are not aligned.
TEST(AttentionTest, GivesASequenceTheSameBitsInAnyPlaceOfTheBatch) {
  const AttentionShape two{
      .batch = 2, .seq = 45, .num_heads = 4, .num_kv_heads = 2, .head_dim = 24};
  AttentionShape one = two;
  one.batch = 1;
  const std::vector<float> qkv = inputs(two);
  const std::vector<float> d_out = random_floats(out_elems(two), 2);
  const KernelTable& table = chosen_kernels();
  const AttentionResult both = run_attention(table, two, qkv, d_out);
  const auto half = [](const std::vector<float>& v) {
    return std::vector<float>(v.begin() + static_cast<int64_t>(v.size() / 2), v.end());
  };
  const AttentionResult second = run_attention(table, one, half(qkv), half(d_out));
  EXPECT_TRUE(same_bits(half(both.out), second.out));
  EXPECT_TRUE(same_bits(half(both.log_sum_exp), second.log_sum_exp));
  EXPECT_TRUE(same_bits(half(both.d_qkv), second.d_qkv));
}

TEST(AttentionTest, StaysFiniteWithLargeScores) {
  const AttentionShape shape{
      .batch = 1, .seq = 20, .num_heads = 1, .num_kv_heads = 1, .head_dim = 8};
  const std::vector<float> qkv = random_floats(20 * shape.qkv_row_elems(), 1, 60);
  const AttentionResult got =
      run_attention(chosen_kernels(), shape, qkv, random_floats(out_elems(shape), 2));
  for (const float x : got.out) EXPECT_TRUE(std::isfinite(x));
  for (const float x : got.d_qkv) EXPECT_TRUE(std::isfinite(x));
}

}  // namespace
}  // namespace lockstep::runtime
