// The ops of attention, their keys, values and positions. Conventions: kernels/ops.h.
#pragma once

#include <optional>

#include "kernels/core/context.h"
#include "kernels/core/tensor.h"
#include "kernels/picture_windows.h"

namespace tandem {

// --- Pages of the KV cache (FlashInfer's layouts) -----------------------------------------------

enum class KvLayout : uint8_t { kNHD, kHND };

// One layer's pages: K and V of all sequences, self- and cross-attention alike.
//   NHD: [num_blocks, 2, block_size, num_heads, head_dim]
//   HND: [num_blocks, 2, num_heads, block_size, head_dim]     2 = K, V
//
// A token's key or value of a head in 8 bits is its bytes times a scale:
// - f8 (e4m3), on CUDA: 2^(scale - 127), a byte. The largest element uses the range of the type.
// - i8: an f32, max|x| / 127. q = round(127 x / max|x|), ties to even. With a NaN or an
//   infinity, q is 0 and the scale NaN. If all elements are below 1e-30, both are 0.
struct KvPages {
  Tensor data;  // f32, bf16 or i8; on CUDA of the activations' type, i8 or f8
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
  // Works read keys that queries of other works write (PagedAttentionArgs::write).
  bool shared_keys = false;
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
// (models/blocks/attention/relative_position.h). ALiBi needs D as large as the largest distance.
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

// Keys that are none of a sequence's tokens. All of its queries see them besides their own.
// Sequence i has the rows [ranges[i][0], ranges[i][1]) of k and v; several sequences may have the
// same. `bias` goes by a distance: the key's number in its range, less the query's unit, which is
// min(position / unit, keys in the range - 1). With a unit of 0 it goes by the key's number alone.
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
  // Lets the CPU round queries, keys, values and the exponentials of scores to 16 bits: to bf16, or
  // to int16 with scales. It does so if the level has such a kernel and the sequence has neither a
  // window nor global keys. (A device goes by its activations' type.)
  bool in_16_bits = false;
  // If the keys of a sequence's queries are other tokens than these: those of sequence i are the
  // rows [kv_ranges[i][0], kv_ranges[i][1]) of k and v. Several may have the same. Then without
  // bias by distance, window and global tokens. Empty: `indptr` is of q, k, v and out.
  Tensor kv_ranges = {};  // [S, 2] i32
  // Not with global tokens. A device reads the ranges and `indptr` itself, and takes the same
  // kernel whether there are such keys or all ranges are empty.
  SideKeys side = {};
};
void ragged_attention(Context& ctx, const RaggedAttentionArgs& args);

// AttentionType ENCODER within windows of pictures. A token attends to all tokens of its window,
// padding included. For a query at (y, x) and a key at (y', x') the scaled score gains
// bias[h][(y - y' + window - 1) * (2 * window - 1) + x - x' + window - 1].
// In a shifted window it loses 100 if an edge of the picture lies between the two: such tokens are
// neighbours in the window alone.
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

// AttentionType ENCODER among tokens that have boxes on a page (UDOP, Tang et al. 2022): added to a
// scaled score are `bias`, by the numbers of query and key, and two biases by boxes. `across` goes
// by (middle_j - middle_i) * 100, cut towards 0, where the middle of a box is (left + right) / 2;
// `down` by (top + bottom) / 2. Middles and their difference are computed in double, the product in
// float.
struct BoxAttentionArgs {
  Tensor q, k, v;  // [T, num_heads * head_dim]
  Tensor indptr;   // [S + 1] i32; a device reads it itself
  int num_heads;
  int head_dim;
  float scale;
  Tensor boxes;  // [T, 4] f32, rows adjacent: left, top, right, bottom
  PositionBias bias, across, down;
  Tensor out;  // as q
};
void box_attention(Context& ctx, const BoxAttentionArgs& args);

// Causal attention over pages whose biases each query has of its own, by buckets of distances (the
// streams of ProphetNet, Qi et al. 2020). A query at position p sees the keys [0, max(p - behind,
// 0)], and its own key if there is one. Added to the scaled score of a key at position j, of the
// query in row t and head h:
//   biases[t][h * buckets + bucket_of[clamp(p + ahead - j, 0, D - 1)]]
// For the own key the distance is 0. The pages hold this step's keys already. Heads of keys are
// those of queries.
struct BucketAttentionArgs {
  Tensor q;  // [T, num_heads * head_dim]
  KvPages pages;
  // As of PagedAttentionArgs: what the CPU reads.
  Tensor qo_indptr, kv_indptr, kv_page_indices, kv_last_page_len;
  int num_heads;
  int head_dim;
  float scale;
  Tensor biases;                  // [T, num_heads * buckets]
  int buckets;                    // at least 1
  Tensor bucket_of;               // [D] i32, each in [0, buckets)
  Tensor out;                     // [T, num_heads * head_dim]
  int32_t ahead = 0, behind = 0;  // not negative
  Tensor own_k = {}, own_v = {};  // [T, num_heads * head_dim], or empty
  const DeviceAttentionPlan* plan = nullptr;
};
void bucket_attention(Context& ctx, const BucketAttentionArgs& args);

// Attention among the features of a picture instead of its tokens (DaViT, Ding et al. 2022). In
// each picture of `points` rows and each group of `width` features:
//   out[t][c] = sum over c' of softmax_c'(scale * sum over t' of q[t'][c] k[t'][c']) v[t][c']
struct ChannelAttentionArgs {
  Tensor q, k, v;  // [pictures * points, groups * width]
  int64_t points;
  int width;  // at most kMostWidth
  float scale;
  Tensor out;  // as q
  static constexpr int kMostWidth = 512;
};
void channel_attention(Context& ctx, const ChannelAttentionArgs& args);

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
