// The inner loops of the CPU backend: one table of functions for each CpuIsa. The source
// (kernels/cpu/isa/*.inl) is compiled once per level with that level's flags. A level with a few
// more instructions compiles the kernels that have a use for them.
//
// This header and the .inl files define no inline functions and use nothing of the standard
// library. Of a function with external linkage the linker might keep the AVX-512 copy for all
// levels.
//
// All levels give the same bits in f32 and in int8. Sums of floats have one fixed order: one chain
// per output element in matrix products, 16 lanes and a fixed tree in reductions. Only products are
// fused. (The order of bf16 products is a level's own: gemm.inl, gemm_amx.inl.)
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/core/activation.h"

namespace tandem::cpu {

constexpr int kPanelColumns = 64;  // output features in a panel of a packed weight
constexpr int kMaxTileRows = 6;    // rows that a micro-kernel takes (gemm.inl)
constexpr int kLanes16 = 16;       // lanes of a reduction

// Groups of inputs in an int4 weight (kernels/cpu/packed_weight.h); each has a scale for each
// feature.
constexpr int kI4GroupInputs = 32;
constexpr int kI4GroupSteps = kI4GroupInputs / 4;                                  // of int8
constexpr int kI4GroupWords = kI4GroupSteps + 1;                                   // of a row of x
constexpr int kI4GroupBytes = kI4GroupInputs * kPanelColumns / 2 + kPanelColumns;  // of a panel

// c (+)= x w for one block of one panel. A step is one k in f32, two in bf16, four in int8. Of w it
// takes 64 words of 4 bytes. Of a row of x it takes GemmKernel::step_words words, by w's type:
// - f32: a float.
// - bf16: a pair, or two rounded floats.
// - int8: four uint8; or two pairs of int16; or four magnitudes, then four signs.
struct GemmBlock {
  const void* x;  // [rows][steps]
  int64_t ldx;    // 4-byte words from row to row
  int64_t rows;
  const void* w;  // [steps][64], 4 bytes each
  int64_t steps;
  const void* next;    // to prefetch meanwhile; nullptr: nothing
  int64_t next_lines;  // of 64 bytes; as a rule a block of as many steps
  bool next_to_first;  // to the first cache, else the second (where the level heeds it)
  bool w_once;         // no other block reads w: it comes from memory
  bool ends_task;      // the last block of a task
  int columns;         // of the panel that matter, 1..64
  float* c;            // [rows][64]: all 64 are written (in int8 the bits of int32 until `finish`)
  int64_t ldc;
  bool accumulate;  // start from c, else from 0
  bool finish;      // the sums are complete then: add the bias, apply the activation, to `columns`
  float* out;       // where `finish` puts `columns` of each row; nullptr: they stay in c
  int64_t ldo;
  // For the whole task: panels of 64 columns are written past the caches if the level can. Rows of
  // `out` begin at multiples of 64 bytes.
  bool stream;
  const float* bias;  // [columns] or nullptr
  Activation activation;
  // For `finish` in int8: the product is a sum times both scales. The columns' offsets, int32 bits,
  // are 128 times the sums of the columns of w; those of rows are to_i8_steps()'s.
  const float* row_scales;      // [rows]
  const int32_t* row_offsets;   // [rows]
  const float* column_scales;   // [64]
  const float* column_offsets;  // [64]
  const GemmBlock* beside;      // an earlier block that was left to be finished, or nullptr
};

// How K is cut: the most words of a row of x, and the cache to which the next slice of the panel is
// prefetched.
struct GemmSlices {
  int64_t words;
  bool to_first;
};

// How a product is cut. It changes no bit of the result.
struct GemmBlocking {
  int64_t tile_rows;       // that a pass over a block takes; up to them K is not cut
  int64_t rows_per_block;  // of a task, at most
  int64_t rows_per_run;    // of a call, at most
  int64_t bytes_together;  // of panels, about, that the rows of a task pass by at a time
  GemmSlices slices;
  GemmSlices small_slices;  // with a first cache below kLargeFirstCache
};
constexpr int64_t kLargeFirstCache = 48 << 10;

struct GemmKernel {
  // Returns true if the block's `finish` is done or was not wanted. If false, a later block
  // (`beside`) or finish() does it.
  bool (*run)(const GemmBlock&);
  void (*finish)(const GemmBlock&);  // nullptr: run() leaves nothing, and takes no block beside
  int step_words;                    // of x
  GemmBlocking blocking;
};

// Attention adds this to the scores of a head: values[clamp(key - query + zero, 0, last)].
struct HeadBias {
  const float* values;  // nullptr: nothing
  int64_t last;
  int64_t zero;
};

struct KeyRange {
  int64_t begin, end;
};

// One head of one sequence in the encoder, with keys and values from the projection. From
// `position` to `side_unit` the fields are for windows.
struct RaggedHead {
  const float* q;  // [queries][ldq]
  const float* k;  // [keys][ldk]
  const float* v;  // [keys][ldv]
  int64_t ldq, ldk, ldv, queries, keys;
  int head_dim;
  float scale;
  float soft_cap;  // of scores; 0: none
  float* packed;   // ragged_packed_floats()
  float* scratch;  // ragged_scratch_floats()
  float* out;      // [queries][ldo]
  int64_t ldo;
  bool stream;  // past the caches where the level can: `out` and its rows begin at 64 bytes
  HeadBias bias;
  int64_t position;     // of the first query
  int64_t back, ahead;  // how far a query sees
  // The most that a query sees, and what window_pack() packs, in which all of it is. Both begin at
  // multiples of kPanelColumns.
  KeyRange own, packed_keys;
  // Keys that all queries see besides. At most one of the two is there: global keys, which are rows
  // of k and v; or side keys (ops::SideKeys). `globals` are numbers of rows, and `first_row` is the
  // one that k begins with.
  const int32_t* globals;
  int64_t global_count;
  int64_t first_row;
  const float* side_k;
  const float* side_v;
  int64_t ld_side_k, ld_side_v, side_count;
  HeadBias side_bias;
  int64_t side_unit;
  // Added to the scores, [queries][ld_table], of ragged_attend; nullptr: nothing.
  const float* table;
  int64_t ld_table;
};
constexpr int kRaggedRows = 24;  // queries at a time
// With operands of 16 bits: keys (a multiple of kPanelColumns) at a time, and the most queries.
constexpr int kRagged16Keys = 128, kRagged16Rows = 32;

// Some heads of keys of one sequence in the paged cache, and consecutive queries of the heads that
// read them. As a rule at most kPagedRows pairs of a head and a query.
constexpr int kPagedQueries = 8;
constexpr int kPagedRows = 128;
struct PagedHeads {
  int heads;  // of keys
  int group;  // heads of queries for each
  int queries;
  const float* q;  // of the first head; head h of the queries stands h * head_dim further
  int64_t ldq;
  const void* k;  // of page 0, the first head
  const void* v;
  const float* k_scales;  // of i8: as k, strides divided by head_dim
  const float* v_scales;
  int64_t page_stride;  // elements
  int64_t head_stride;  // elements
  int64_t key_stride;   // elements from key to key in a page
  const int32_t* pages;
  int block_size;
  int64_t keys;         // up to where the first query sees them
  int causal_step;      // 1: each further query sees one key more; 0: all see the same
  int64_t window_back;  // only so many before a query's own, the last one; negative: all
  int lane;             // of the first page's first key among those of a reduction
  int head_dim;
  float scale;
  float soft_cap;  // of scores; 0: none
  float* scratch;  // paged_scratch_floats()
  float* out;      // as q
  int64_t ldo;
  HeadBias bias;     // of the first head; the others' follow
  int64_t position;  // of the first query
  float* log_sums;   // as q, one a head; or nullptr
  int64_t ld_log_sums;
};

// Sequences of one query each, whose first pages are the same. Of `heads` the fields q, pages,
// keys, position, out and log_sums are not read; `queries` is the number of members. No window.
struct SharedMember {
  const float* q;
  const int32_t* pages;
  int64_t keys, position;
  float* out;
  float* log_sums;  // or nullptr
};
struct SharedHeads {
  PagedHeads heads;
  const SharedMember* members;
  int64_t shared_pages;  // at least one, full for each member
};

struct LayerNormRow {
  const float* x;
  const float* residual;  // or nullptr
  const float* weight;
  const float* bias;  // nullptr: none
  int64_t size;
  float eps;
  float* out;  // may be x or residual
  bool rms;    // the mean counts as 0
  float* sum;  // gets x + residual; nullptr: nothing does. May be x or residual
};

// As Peak of kernels/row_math.h.
struct RowPeak {
  float value;
  int64_t block;
  bool has_nan;
};

// Consecutive keys or values of one head, `stride` elements apart, and `rows` queries that read
// them. Queries are rows of scratch memory (at `x`, ldx floats apart), zero beyond head_dim up to a
// multiple of 16. kernels/layouts has keys and values anywhere in memory.
struct StridedRun {
  const void* data;
  int64_t stride, count;
  int head_dim;
  int rows;
};

// ragged_pack and ragged_attend with operands of 16 bits, without windows: bf16
// (attention_bf16.inl) or int16 (attention_i16.inl).
struct Ragged16 {
  void (*pack)(const RaggedHead&);  // nullptr, and no attend: the level does not have them
  void (*attend)(const RaggedHead&);
  int rows;  // queries at a time, at most kRagged16Rows
};

struct IsaKernels {
  GemmKernel gemm_f32, gemm_bf16, gemm_i8;
  // Rounds x to bf16 for gemm_bf16: ceil(k / 2) steps, zero beyond k.
  void (*to_bf16_steps)(const float* x, int64_t k, uint32_t* out);
  void (*to_bf16)(const float* x, int64_t n, uint16_t* out);  // as float_to_bf16
  // Rounds x to int8 for gemm_i8: ceil(k / 4) steps. Returns its scale. *offset: what the row's
  // sums of products lack, below 2^31 for k < 2^24.
  float (*to_i8_steps)(const float* x, int64_t k, uint32_t* out, int32_t* offset);
  float (*to_i8)(const float* x, int64_t n, int8_t* out);  // the same bytes, one after the other
  void (*activate)(Activation, float* x, int64_t n);
  void (*multiply)(float* x, const float* y, int64_t n);  // x = x * y
  void (*soft_cap)(float cap, float* x, int64_t n);       // x = cap * tanh(x / cap)
  void (*layer_norm_row)(const LayerNormRow&);
  void (*ragged_pack)(const RaggedHead&);    // k and v to `packed`
  void (*ragged_attend)(const RaggedHead&);  // from `packed`
  Ragged16 ragged_16;
  void (*window_pack)(const RaggedHead&);  // those that the queries see
  void (*window_attend)(const RaggedHead&);
  void (*paged_attend_f32)(const PagedHeads&);
  void (*paged_attend_bf16)(const PagedHeads&);
  void (*paged_attend_i8)(const PagedHeads&);
  void (*paged_attend_shared_f32)(const SharedHeads&);
  void (*paged_attend_shared_bf16)(const SharedHeads&);
  void (*paged_attend_shared_i8)(const SharedHeads&);
  // scores[row][j] = x[row] . key j
  void (*score_run_f32)(const StridedRun&, const float* x, int64_t ldx, float* scores, int64_t lds);
  void (*score_run_bf16)(const StridedRun&, const float* x, int64_t ldx, float* scores,
                         int64_t lds);
  // x[row] += weights[row][j] value j, j in order
  void (*add_run_f32)(const StridedRun&, float* x, int64_t ldx, float* weights, int64_t ldw);
  void (*add_run_bf16)(const StridedRun&, float* x, int64_t ldx, float* weights, int64_t ldw);
  // p[j] = exp(p[j] - *top) for n scores, *top their largest; returns the sum. Writes up to a
  // multiple of 16.
  float (*softmax)(float* p, int64_t n, float* top);
  // As in kernels/row_math.h. find_peak continues from the values in `peak`.
  void (*find_peak)(const float* x, int64_t n, RowPeak& peak);
  void (*exp_all)(const float* x, int64_t n, float top, float* out);
  double (*sum_exp)(const float* x, int64_t n, float top);
  void (*sum_blocks)(const float* x, int64_t n, float* peaks, float* sums);
  // The int4 product of few rows with a panel (gemm_i4.inl), all of K at once. `steps` are groups,
  // rows of x come from to_i4_groups, offsets are not read.
  void (*gemm_i4)(const GemmBlock&);
  // Converts to_i8_steps' result for gemm_i4: kI4GroupWords for each group.
  void (*to_i4_groups)(const uint32_t* i8_steps, int64_t k, uint32_t* out);
  // Expands groups of an int4 panel to steps of an int8 panel: [groups * kI4GroupSteps][64] words.
  void (*expand_i4)(const void* groups, int64_t count, void* out);
};

// Levels that share nothing. Only those of the build's processor exist (kernels/cpu/isa/isa.cc).
extern const IsaKernels kGenericKernels;
extern const IsaKernels kAvx2Kernels;
extern const IsaKernels kAvx512Kernels;
extern const IsaKernels kNeonKernels;
// The other levels have the kernels of the level before them, but for those that these replace.
void use_avx512_vnni(IsaKernels& kernels);
void use_avx512_bf16(IsaKernels& kernels);
void use_amx(IsaKernels& kernels);
void use_neon_dot(IsaKernels& kernels);
void use_neon_bf16(IsaKernels& kernels);

// Those of cpu_isa().
const IsaKernels& isa_kernels();

// A core's first-level data cache; 0: not known.
int64_t first_cache_bytes();
// Between ops only. For tests and benchmarks; negative: the machine's again.
void set_first_cache_bytes(int64_t bytes);

// Sizes of scratch memory, in floats; multiples of 16. With windows, `keys` is a sum of two
// numbers, each rounded up to panels. The first: keys that a call packs or that kRaggedRows queries
// see, with those before them in their panel. The second: the global keys.
int64_t ragged_packed_floats(int64_t keys, int head_dim);
int64_t ragged_scratch_floats(int64_t keys, int head_dim);
int64_t ragged_16_packed_floats(int64_t keys, int head_dim);
int64_t ragged_16_scratch_floats(int head_dim);
// For `rows` pairs of a head and a query. keys: the most that are read for one, plus `lane`.
int64_t paged_scratch_floats(int64_t rows, int64_t keys, int head_dim);

}  // namespace tandem::cpu
