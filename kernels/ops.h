// The ops of the models, on one page. Sampling ops: kernels/sampling_ops.h. The list of all ops:
// kernels/op_list.h. An op checks its shapes once (kernels/check), then calls the device's
// implementation (kernels/cpu, kernels/cuda). Tests compare ops that sum with kernels/reference.h.
//
// Conventions:
// - Activations are matrices [tokens, features] of Context::activations() (float32 on the CPU),
//   without padding. Their rows may be strided (Tensor::columns).
// - Indices are int32.
// - `indptr` arrays start at 0 and have one element more than there are sequences. Sequence i owns
//   rows [indptr[i], indptr[i+1]).
// - The caller provides outputs. They may not alias inputs unless a comment allows it.
//
// Batch invariance: each output row depends only on its own sequence, bit for bit. Every sum has a
// fixed order. It does not depend on other rows, the number of threads, the page size, or the
// chunks of a prompt. (On CUDA `linear` is an exception: docs/gpu.md.)
#pragma once

#include <optional>
#include <span>

#include "kernels/core/activation.h"
#include "kernels/core/context.h"
#include "kernels/core/quantization.h"
#include "kernels/core/tensor.h"
#include "kernels/picture_windows.h"

namespace tandem {

// --- Linear layers -------------------------------------------------------------------------------

// A weight as it lies in a file: [rows = output features, columns = input features], rows strided.
struct MatrixView {
  const void* data = nullptr;
  DType dtype = DType::kF32;  // f32, f16 or bf16; need not be aligned
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t row_stride = 0;  // elements
};

// The sum of this many int8 products, or 128 times the sum of this many weights, fits an int32.
constexpr int64_t kMaxI8Features = int64_t{1} << 17;

// A weight in the layout of the device's GEMM. Made at load, then read-only. On CUDA its type is
// that of the activations, quantised or not.
class PackedWeight {
 public:
  PackedWeight() = default;
  // Stacks the parts along the output features (Q, K and V become one weight). All parts have the
  // same number of columns. `dtype` is the compute type: f32, bf16, i8 or i4. Throws InputError for
  // i8 and i4 and more than kMaxI8Features columns.
  // `quantization` is of devices; on the CPU int8 and int4 are compute types.
  PackedWeight(Context& ctx, std::span<const MatrixView> parts, DType dtype,
               Quantization quantization = Quantization::kNone);

  int64_t out_features() const { return n_; }
  int64_t in_features() const { return k_; }
  DType dtype() const { return dtype_; }
  Quantization quantization() const { return quantization_; }
  size_t bytes() const {
    return (data_.empty() ? 0 : data_.bytes()) + (scales_.empty() ? 0 : scales_.bytes());
  }
  const Tensor& data() const { return data_; }      // device-specific
  const Tensor& scales() const { return scales_; }  // of quantised data

 private:
  Tensor data_, scales_;
  int64_t n_ = 0, k_ = 0;
  DType dtype_ = DType::kF32;
  Quantization quantization_ = Quantization::kNone;
};

// --- Pages of the KV cache (FlashInfer's layouts) -----------------------------------------------

enum class KvLayout : uint8_t { kNHD, kHND };

// One layer's pages: K and V of all sequences, self- and cross-attention alike.
//   NHD: [num_blocks, 2, block_size, num_heads, head_dim]
//   HND: [num_blocks, 2, num_heads, block_size, head_dim]     2 = K, V
//
// A token's key or value of a head in 8 bits is its bytes times a scale:
// - On CUDA, f8 (e4m3): 2^(scale - 127), a byte. The largest element uses the range of the type.
// - On the CPU, i8: an f32, max|x| / 127. q = round(127 x / max|x|), ties to even. With a NaN or an
//   infinity, q is 0 and the scale NaN. If all elements are below 1e-30, both are 0.
struct KvPages {
  Tensor data;  // f32, bf16 or i8; on CUDA of the activations' type, or f8
  KvLayout layout = KvLayout::kHND;
  Tensor scales = {};  // of 8-bit pages, of page_scale_type(): the shape of `data` without head_dim
};

// The type of scales of such pages; absent: they have none.
constexpr std::optional<DType> page_scale_type(DType pages) {
  if (pages == DType::kI8) return DType::kF32;
  if (pages == DType::kF8E4M3) return DType::kU8;
  return std::nullopt;
}

namespace ops {

struct LayerNormArgs;

// out[t] = activation(W x[t] + bias), bias optional (empty).
// - Weights in bf16: x is rounded to bf16, products are summed in f32.
// - Weights in i8: output feature n has the scale s_n = max_k |W_nk| / 127, row t of x the scale
//   s_t = max_k |x_tk| / 127. Both are rounded to multiples of their scales, ties to even. The
//   product is s_n s_t times an exact integer sum, the same on all levels and ranges of rows. A row
//   or feature with a NaN or an infinity gives NaN; one with all elements below 1e-30 counts as 0.
// - Weights in i4: as i8, but s_n = max_k |W_nk| / 120, and W_nk is rounded to s_n f q. The factor
//   f, |f| <= 15, is common to 32 adjacent k; q is one of -8..7.
struct LinearArgs {
  const PackedWeight* weight;
  Tensor x;     // [T, in_features]
  Tensor bias;  // [out_features] f32 (on CUDA of the type of `out`), or empty
  Activation activation = Activation::kNone;
  Tensor out;  // [T, out_features], of the activations' type or f32
  // A layer_norm to run first, whose `out` is x. Null: x is computed already. A device may do both
  // at once, so there neither `out` nor `sum` may be an input of the norm.
  const LayerNormArgs* norm = nullptr;
};
void linear(Context& ctx, const LinearArgs& args);

// For the chosen rows, returns what select() would report without processors; logits are never
// stored. On a device: at most DeviceBackend::most_best_rows rows, the weight not quantised, and
// above 8 rows the rows of x begin at multiples of 16 bytes.
struct LinearBestArgs {
  const PackedWeight* weight;
  Tensor x;          // [T, in_features]
  Tensor rows;       // [R] i32, into x
  Tensor bias;       // [out_features] f32, or empty
  Tensor log_sums;   // [R] f32
  Tensor ids;        // [R, 1] i32
  Tensor values;     // [R, 1] f32
  Tensor best = {};  // [at least R] i32, or empty: the ids once more
};
void linear_best(Context& ctx, const LinearBestArgs& args);

// --- Embeddings and norms ------------------------------------------------------------------------

// out[t] = scale * tokens[ids[t]] + positions[position_ids[t] + position_offset]; the position
// table may be empty. Tables are f32 or bf16. The token table may also have the activations' type,
// beside positions in f32. Ids outside [first_id, first_id + tokens.dim(0)) give zero: another rank
// holds that shard of the vocabulary.
struct EmbeddingArgs {
  Tensor ids;           // [T] i32; or [T, 1] f32: whole numbers
  Tensor position_ids;  // [T] i32
  Tensor tokens;        // [V, d]
  Tensor positions;     // [P, d], or empty
  float scale = 1.0f;
  int32_t position_offset = 0;
  int32_t first_id = 0;
  Tensor out;  // [T, d]
  // [d] f32: out = layer_norm of that sum; or empty.
  Tensor norm_weight = {}, norm_bias = {};
  float norm_eps = 1e-5f;
};
void embedding(Context& ctx, const EmbeddingArgs& args);

// out = (h - mean) / sqrt(var + eps) * weight + bias with h = x + residual (residual may be empty).
// `out` may alias x or residual. So may `sum`, but not `out`.
// rms: out = h / sqrt(mean of h^2 + eps) * weight, without a bias.
// groups: a row is that many groups of d values, such as heads of queries or keys. Each is normed
// by itself with the same weight. No residual, no sum.
struct LayerNormArgs {
  Tensor x;         // [T, groups * d]
  Tensor residual;  // [T, d], or empty
  Tensor weight;    // [d] f32
  Tensor bias;      // [d] f32; empty if `rms`
  float eps = 1e-5f;
  Tensor out;       // [T, d]
  Tensor sum = {};  // [T, d]: h, rounded to the activations' type; or empty
  bool rms = false;
  int groups = 1;
};
void layer_norm(Context& ctx, const LayerNormArgs& args);

// out = activation(gate) * up; computed in f32. `out` may be `gate`.
struct GatedActivationArgs {
  Tensor gate, up;  // [T, d]
  Activation activation;
  Tensor out;  // [T, d]
};
void gated_activation(Context& ctx, const GatedActivationArgs& args);

// out = x + y; `out` may be x or y.
struct AddRowsArgs {
  Tensor x, y, out;  // [T, d]
};
void add_rows(Context& ctx, const AddRowsArgs& args);

// out[i] = x[rows[i]]; of activations, or of f32.
struct GatherRowsArgs {
  Tensor x;     // [T, d]
  Tensor rows;  // [R] i32
  Tensor out;   // [R, d]
};
void gather_rows(Context& ctx, const GatherRowsArgs& args);

// out[rows[i]] = x[i]; rows differ.
struct ScatterRowsArgs {
  Tensor x;     // [R, d]
  Tensor rows;  // [R] i32
  Tensor out;   // [T, d]
};
void scatter_rows(Context& ctx, const ScatterRowsArgs& args);

// out[t] = the sum of factors[t][i] * x[places[t][i]], added in order in f32; a place of -1 adds
// nothing.
struct CombineRowsArgs {
  Tensor x;        // [R, d]; empty where all places are -1
  Tensor places;   // [T, n] i32
  Tensor factors;  // [T, n] f32
  Tensor out;      // [T, d]
};
void combine_rows(Context& ctx, const CombineRowsArgs& args);

// out[i] = the sum of the rows [ranges[i][0], ranges[i][1]) of x, added in order in f32.
struct SumRangesArgs {
  Tensor x;       // [T, d]
  Tensor ranges;  // [R, 2] i32, none of them empty
  Tensor out;     // [R, d]
};
void sum_ranges(Context& ctx, const SumRangesArgs& args);

// im2col: the windows of a convolution over the rows of each sequence, to be multiplied with its
// weight [out, d, width], as it lies in a file. In row p of a sequence's `out`, feature c * width +
// k is feature c of row stride * p + k - padding, or 0 if the sequence has no such row.
struct ConvWindowsArgs {
  Tensor x;           // [rows, d], of f32 or the activations' type
  Tensor start_loc;   // [sequences + 1] i32: indptr of x
  Tensor out_starts;  // [sequences + 1] i32: indptr of out
  int width;          // of a window, at least 1
  int stride;         // at least 1
  int padding;        // rows of zeros before the first, at least 0
  Tensor out;         // [out rows, d * width]
};
void conv_windows(Context& ctx, const ConvWindowsArgs& args);

// A group norm of one group: out[t][c] = (x[t][c] - mean) / sqrt(var + eps) * weight[c] + bias[c].
// Mean and variance are over all values of t's sequence.
struct SequenceNormArgs {
  Tensor x;          // [rows, d]
  Tensor start_loc;  // [sequences + 1] i32: indptr of x
  Tensor weight;     // [d] f32
  Tensor bias;       // [d] f32
  float eps = 1e-5f;
  Tensor out;  // [rows, d]; may be x
};
void sequence_norm(Context& ctx, const SequenceNormArgs& args);

// x = cap * tanh(x / cap), in place; of f32 logits.
struct SoftCapArgs {
  Tensor x;  // [T, d] f32
  float cap;
};
void soft_cap(Context& ctx, const SoftCapArgs& args);

// --- Attention (FlashInfer's layouts) ------------------------------------------------------------

// The plan of a step on a device (kernels/attention_plan.h), made from the lengths of the page
// table or `indptr` beside it. The CPU needs none.
struct DeviceAttentionPlan {
  // [W, kAttentionWorkInts] i32; work without queries, which fills `rows` up, is the last of it.
  Tensor rows, tiles;
  Tensor tickets;           // [tickets * num_heads] i32, zero before and after each use
  int32_t partials = 0;     // slots of partial results
  int32_t row_queries = 0;  // the most queries of a work of `rows`
  int32_t row_blocks = 0;   // blocks that take `rows` in turn, for each head; 0: one for each
};

// cosines[t][i], sines[t][i] of positions[t] * frequencies[i] (in f32): once a step, for all
// layers.
struct RotaryAnglesArgs {
  Tensor positions;    // [T] i32
  Tensor frequencies;  // [r / 2] f32, radians a position
  Tensor out;          // [T, r] f32: the cosines, then the sines
};
void rotary_angles(Context& ctx, const RotaryAnglesArgs& args);

// Rotates pairs of the first r <= head_dim values of each head, in place: (a, b) becomes (a cos - b
// sin, b cos + a sin). A pair is (i, i + r / 2), or (2 i, 2 i + 1) if `interleaved`.
struct Rotary {
  Tensor angles;  // [T, r] f32, of rotary_angles; empty: nothing turns
  bool interleaved = false;
};
struct RotaryArgs {
  Tensor x;  // [T, num_heads * head_dim]
  int num_heads;
  int head_dim;
  Rotary rotary;
};
void rotary(Context& ctx, const RotaryArgs& args);

// Stores k[t], v[t] in slot slot_mapping[t] = block * block_size + offset; skips negative slots.
// Rotates keys on the way if `rotary` has angles; `k` itself is not changed.
struct WriteKvArgs {
  Tensor k, v;          // [T, num_heads * head_dim], heads of the pages
  Tensor slot_mapping;  // [T] i32
  KvPages pages;
  Rotary rotary = {};
};
void write_kv(Context& ctx, const WriteKvArgs& args);

// Added to the scaled score of query position i, key position j and head h: values[h][clamp(j - i +
// zero, 0, D - 1)]. Distances beyond either end take its value, as T5's buckets do
// (models/blocks/relative_position.h). ALiBi needs D as large as the largest distance.
struct PositionBias {
  Tensor values;     // [num_heads, D] f32, rows adjacent; empty: nothing is added
  int32_t zero = 0;  // the column of j = i
};

// The keys that a query sees: those at a distance (key position minus query position) in [-back,
// ahead]. Pages or blocks of keys that no query of a task sees are not read.
struct Window {
  static constexpr int32_t kAll = -1;
  int32_t back = kAll, ahead = kAll;
};

// Keys that are none of a sequence's tokens, which all of its queries see besides: of sequence i
// the rows [ranges[i][0], ranges[i][1]) of k and v. Several sequences may have the same. `bias`
// goes by the key's number in its range less min(position / unit, keys in the range - 1), where
// `position` is the query's; with a unit of 0 by the key's number alone.
struct SideKeys {
  Tensor k, v;    // [G, num_kv_heads * head_dim]; empty where all ranges are
  Tensor ranges;  // [S, 2] i32; empty: there are no such keys
  PositionBias bias = {};
  int32_t unit = 1;  // positions
};

// A score goes through: scale, soft cap (cap * tanh(score / cap); 0: none), bias. Query head h
// reads the keys and values of head h / (num_heads / num_kv_heads).

// AttentionType ENCODER: non-causal, every token of a sequence attends to all of it, or to a window
// and the sequence's global tokens. No cache.
struct RaggedAttentionArgs {
  Tensor q;       // [T, num_heads * head_dim]
  Tensor k, v;    // [T, num_kv_heads * head_dim]
  Tensor indptr;  // [S + 1] i32
  int num_heads;
  int head_dim;
  float scale;
  Tensor out;  // [T, num_heads * head_dim]
  const DeviceAttentionPlan* plan = nullptr;
  PositionBias bias = {};  // a token's position: its number in its sequence
  int num_kv_heads = 0;    // 0: num_heads
  float soft_cap = 0.0f;
  Window window = {};
  // Keys that all queries of their sequence see besides the window: rows of k in order, those of
  // sequence i at [global_indptr[i], global_indptr[i + 1]). Empty: none. A device reads these and
  // `indptr` itself. There a batch without such keys has a global_indptr of zeros, so that the same
  // kernel gives the same bits.
  Tensor global_rows = {};    // [G] i32
  Tensor global_indptr = {};  // [S + 1] i32
  // Lets the CPU round queries, keys, values and the exponentials of scores to bf16 and sum in f32.
  // It does so if the level has bf16 products and the sequence has neither a window nor global
  // keys. (A device goes by its activations' type.)
  bool bf16 = false;
  // If the keys of a sequence's queries are other tokens than these: those of sequence i are the
  // rows [kv_ranges[i][0], kv_ranges[i][1]) of k and v. Several may have the same. Then without
  // bias by distance, window and global tokens. Empty: `indptr` is of q, k, v and out.
  Tensor kv_ranges = {};  // [S, 2] i32
  // Not with global tokens. A device reads the ranges and `indptr` itself, and takes the same
  // kernel whether there are such keys or all ranges are empty.
  SideKeys side = {};
};
void ragged_attention(Context& ctx, const RaggedAttentionArgs& args);

// AttentionType ENCODER within windows: every token attends to all tokens of its window, those that
// fill it up as well. To the scaled score of points (y, x) and (y', x') is added
// bias[h][(y - y' + window - 1) (2 window - 1) + x - x' + window - 1], and -100 if the edge of the
// picture is between them.
struct PictureAttentionArgs {
  Tensor q, k, v;  // [pictures * height * width, num_heads * head_dim]
  PictureWindows windows;
  int num_heads;
  int head_dim;
  float scale;
  Tensor bias;  // [num_heads, (2 window - 1)^2] f32
  Tensor out;   // as q
  // [1, num_heads * head_dim]: key and value of tokens that fill up; empty if there are none.
  Tensor pad_k = {}, pad_v = {};
};
void picture_attention(Context& ctx, const PictureAttentionArgs& args);

// AttentionTypes DECODER (causal) and ENCODER_DECODER (not causal) over pages. The pages hold this
// step's keys and values already, or get them by `write`. In a sequence with q queries and n keys,
// query i has position n - q + i; a causal one sees keys [0, n - q + i]. Here n = block_size *
// (pages - 1) + kv_last_page_len. A sequence with queries has at least one key.
struct PagedAttentionArgs {
  Tensor q;  // [T, num_heads * head_dim]
  KvPages pages;
  Tensor qo_indptr;         // [R + 1] i32
  Tensor kv_indptr;         // [R + 1] i32, into kv_page_indices
  Tensor kv_page_indices;   // [kv_indptr[R]] i32
  Tensor kv_last_page_len;  // [R] i32, 1..block_size
  int num_heads;
  int head_dim;
  float scale;
  bool causal;
  Tensor out;  // [T, num_heads * head_dim]
  const DeviceAttentionPlan* plan = nullptr;
  PositionBias bias = {};  // causal only: queries of cross-attention have no place among its keys
  float soft_cap = 0.0f;
  int32_t window_back = Window::kAll;  // causal only: keys before that distance are not seen
  // [T, num_heads] f32: the logarithm of the sum of exp(score); or empty. For merge_attention.
  Tensor log_sums = {};
  // Causal only: a write_kv of the queries' tokens to these pages, to run before anything is read.
  // (A device may do both at once.) Null: the pages hold this step's keys already.
  const WriteKvArgs* write = nullptr;
};
void paged_attention(Context& ctx, const PagedAttentionArgs& args);

// FlashInfer's merge_state: one softmax over two sets of keys, from attention over each. Weights a
// and b by exp(log_sums). `out` may be a or b.
struct MergeAttentionArgs {
  Tensor a, b;                    // [T, num_heads * head_dim]
  Tensor a_log_sums, b_log_sums;  // [T, num_heads] f32
  Tensor out;                     // [T, num_heads * head_dim]
};
void merge_attention(Context& ctx, const MergeAttentionArgs& args);

// The weights themselves of cross-attention over pages, of one sequence's queries and one head:
// softmax_j(scale * q[t] . k[j]) over all keys, of which the first out.dim(1) are written.
struct AttentionWeightsArgs {
  Tensor q;  // [T, head_dim]; without a head empty
  KvPages pages;
  Tensor page_indices;  // [ceil(keys / block_size)] i32
  int64_t keys;         // of the sequence, at least 1
  int kv_head;          // of the pages; -1: zeros are written (the head is another rank's)
  float scale;
  Tensor out;  // [T, n] f32, n <= keys
};
void attention_weights(Context& ctx, const AttentionWeightsArgs& args);

// Copies whole blocks: dst[pairs[2i+1]] = src[pairs[2i]]. src and dst may be the same pool (copy on
// write) or the device's and the host's (swap).
struct CopyBlocksArgs {
  Tensor src, dst;  // [num_blocks, ...] of equal block shape and type
  Tensor pairs;     // [2 * P] i32, on the host
};
void copy_blocks(Context& ctx, const CopyBlocksArgs& args);

}  // namespace ops
}  // namespace tandem
