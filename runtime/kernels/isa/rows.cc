// Kernels that copy and add up whole rows: embeddings, biases, columns.
#include "runtime/kernels/isa/column_sums.h"
#include "runtime/kernels/isa/half.h"
#include "runtime/kernels/isa/kernels.h"

namespace lockstep::runtime::LOCKSTEP_ISA {
namespace {

template <class T>
void sum_columns_typed(int64_t rows, int64_t n, const T* x, float* sums) {
  if (kRowsInOrder) {
    fill_with_zero(n, sums);
    for_each_row(
        rows, LOCKSTEP_KERNEL(int64_t row) {
          const T* const from = x + row * n;
          for_each_vec(n, [&](int64_t i, auto lanes) {
            store(sums + i, load(sums + i, lanes) + load(from + i, lanes), lanes);
          });
        });
    return;
  }
  add_up_columns(
      rows, n, sums, LOCKSTEP_KERNEL(int64_t row, int64_t i, auto lanes, Vec sum) {
        return sum + load(x + row * n + i, lanes);
      });
}

template <class T>
void embedding_forward_typed(int64_t rows, int64_t channels, const int32_t* tokens, const T* table,
                             float* y) {
  for_each_row(
      rows, LOCKSTEP_KERNEL(int64_t row) {
        const T* const from = table + tokens[row] * channels;
        for_each_vec(channels, [&](int64_t i, auto lanes) {
          store(y + row * channels + i, load(from + i, lanes), lanes);
        });
      });
}

// The first row of a token adds up all rows of it, in their order: the sums of adding row by row.
void add_rows_of_tokens(int64_t rows, int64_t channels, const int32_t* tokens, float factor,
                        const float* dy, float* d_table) {
  for_each_row(
      rows, LOCKSTEP_KERNEL(int64_t row) {
        const int32_t token = tokens[row];
        for (int64_t before = 0; before < row; ++before) {
          if (tokens[before] == token) return;
        }
        float* const sums = d_table + token * channels;
        for (int64_t r = row; r < rows; ++r) {
          if (tokens[r] != token) continue;
          for_each_vec(channels, [&](int64_t i, auto lanes) {
            const Vec row_part = load(dy + r * channels + i, lanes);
            store(sums + i, fma(row_part, broadcast(factor), load(sums + i, lanes)), lanes);
          });
        }
      });
}

}  // namespace

void add_to_rows(int64_t rows, int64_t n, const float* x, float* y) {
  for_each_row(
      rows, LOCKSTEP_KERNEL(int64_t row) {
        float* const to = y + row * n;
        for_each_vec(n, [&](int64_t i, auto lanes) {
          store(to + i, load(to + i, lanes) + load(x + i, lanes), lanes);
        });
      });
}

void sum_columns(int64_t rows, int64_t n, ConstValues x, float* sums) {
  with_stored_type(x.dtype, [=]<class T>(Stored<T>) {
    sum_columns_typed(rows, n, static_cast<const T*>(x.data), sums);
  });
}

void copy_columns(int64_t rows, int64_t width, const float* from, int64_t from_stride, float* to,
                  int64_t to_stride) {
  for_each_row(
      rows, LOCKSTEP_KERNEL(int64_t row) {
        const float* const from_row = from + row * from_stride;
        float* const to_row = to + row * to_stride;
        for_each_vec(width, [&](int64_t i, auto lanes) {
          store(to_row + i, load(from_row + i, lanes), lanes);
        });
      });
}

void embedding_forward(int64_t rows, int64_t channels, const int32_t* tokens, ConstValues table,
                       float* y) {
  with_stored_type(table.dtype, [=]<class T>(Stored<T>) {
    embedding_forward_typed(rows, channels, tokens, static_cast<const T*>(table.data), y);
  });
}

void embedding_backward(int64_t rows, int64_t channels, const int32_t* tokens, float factor,
                        const float* dy, float* d_table) {
  if (!kRowsInOrder) return add_rows_of_tokens(rows, channels, tokens, factor, dy, d_table);
  for (int64_t row = 0; row < rows; ++row) {
    add_scaled(channels, factor, dy + row * channels, d_table + tokens[row] * channels);
  }
}

}  // namespace lockstep::runtime::LOCKSTEP_ISA
