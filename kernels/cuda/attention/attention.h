// The attention kernels, as the ops call them. Checked by the caller.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/attention_plan.h"
#include "kernels/core/types.h"
#include "kernels/cuda/host/launch_stream.h"
#include "kernels/cuda/kv_rows.cuh"

namespace tandem::cuda {

struct AttentionParams {
  DType dtype;  // of q, k, v (pages or rows) and out: f32, f16 or bf16
  // Pages in 8 bits (attention_rows only): their scales and their type, f8 or i8; else null.
  const void* scales = nullptr;
  DType page_type = DType::kF32;
  const void* q;
  int64_t q_stride;  // elements from one row to the next; a row is [num_heads, head_dim]
  void* out;
  int64_t out_stride;

  // Keys and values in pages (KvPages; strides in elements as in kernels/kv_pages.h) ...
  const void* pages = nullptr;  // null: ragged
  const int32_t* page_indices = nullptr;
  int64_t page_stride = 0, value_offset = 0, head_stride = 0, token_stride = 0;
  int32_t block_size = 0;
  // ... or in rows, beside q.
  const void* k = nullptr;
  const void* v = nullptr;
  int64_t k_stride = 0, v_stride = 0;

  const AttentionWork* work;  // 16-byte aligned
  int32_t work_count;
  // attention_rows: the number of blocks, for each head, that take works in turn, up to the first
  // work without queries (0: a block for each).
  int32_t blocks = 0;
  int32_t most_queries = kRowsPerBlock;  // attention_rows: no work has more (AttentionPlan's
                                         // row_queries; 1 and up to 4 have kernels of their own)
  float* partials;   // [slots, num_heads, head_dim + 2]: sums, then the maximum and the divisor
  int32_t* tickets;  // [tickets, num_heads], 0 before and after each call
  int num_heads;     // of queries
  int head_dim;      // 1 .. 256
  float scale;
  int group = 1;  // heads of queries that share a head of keys and values

  // [num_heads, bias_columns] (ops::PositionBias), or null.
  const float* bias = nullptr;
  int32_t bias_columns = 0, bias_zero = 0;

  // Keys and values of the queries' own tokens, which attention_rows writes to `pages` before it
  // reads them. Query i of a causal work is the key `position + i`. Each sequence's queries are in
  // one work (or its chunks).
  NewKeys written;

  // The fields below are for the kernels with options (has_options); other kernels ignore them.
  float soft_cap = 0.0f;                        // 0: none
  int32_t window_back = -1, window_ahead = -1;  // ops::Window; -1: all
  float* log_sums = nullptr;                    // [rows of out, num_heads], or null
  int64_t log_sums_stride = 0;

  bool has_options() const {
    return soft_cap != 0.0f || window_back >= 0 || window_ahead >= 0 || log_sums != nullptr;
  }
};

// Work of at most kRowsPerBlock queries: keys and values are read once for all of them, products
// and sums are in f32. Every type, every head size.
void attention_rows(const AttentionParams& params, LaunchStream stream);

// Work of at most kTileRows queries on tensor cores. REQUIRES: f16 or bf16, a head size that is a
// multiple of 16 up to 128 (tiles_supported), rows that begin at multiples of 16 bytes. Products
// are in f32; the weights of the values are rounded to the type.
bool tiles_supported(DType dtype, int head_dim, int compute_capability);
void attention_tiles(const AttentionParams& params, LaunchStream stream);

// The keys (rows, not pages) that all queries of a sequence see besides a window: global rows, or
// side keys (ops::SideKeys). One of the two is null.
struct GlobalKeys {
  const int32_t* indptr;       // [sequences + 1]: rows of q, and of k without kv_ranges
  const int32_t* kv_ranges;    // [sequences, 2]: rows of k; or null
  const int32_t* rows;         // global: of k, ascending
  const int32_t* rows_indptr;  // global: [sequences + 1], into `rows`
  int32_t sequences;
  const int32_t* ranges;  // side: [sequences, 2], rows of side_k and side_v
  const void *side_k, *side_v;
  int64_t side_k_stride, side_v_stride;
  const float* bias;  // side: [num_heads, bias_columns], or null
  int32_t bias_columns, bias_zero, unit;
};

// Work of at most `most_queries` queries over the window and the global keys. Needs no partials and
// no tickets; every type, every head size.
void attention_global(const AttentionParams& params, const GlobalKeys& globals, int most_queries,
                      LaunchStream stream);

}  // namespace tandem::cuda
