// Every op, on one page. An op checks its shapes once (kernels/NAME.cc) and calls the device's
// implementation (kernels/NAME_cpu.cc, ...). kernels/reference.h has a plain version of each.
//
// Conventions: activations are matrices [tokens, features] of Context::activations() (float32 on
// the CPU) without padding, whose rows may be strided (Tensor::columns); indices are int32.
// `indptr` arrays have one element more than there are sequences and start at 0 (sequence i owns
// rows [indptr[i], indptr[i+1])). Outputs are given by the caller and may not alias inputs unless
// said so.
//
// Batch invariance: each output row depends on its own sequence only, bit for bit. Every sum has a
// fixed order that does not depend on the other rows, on their number, on the number of threads, on
// the page size, or on how a prompt was cut into chunks.
// (On CUDA `linear` is an exception: docs/gpu.md.)
#pragma once

#include <span>
#include <string_view>

#include "kernels/core/activation.h"
#include "kernels/core/context.h"
#include "kernels/core/quantization.h"
#include "kernels/core/tensor.h"

namespace tandem {

// --- Linear layers
// ---------------------------------------------------------------------------------

// HuggingFace's activation functions (core/activation.h) by their names in config.json.
// Throws InputError (field "activation_function") for other names.
Activation activation_from_name(std::string_view name);

// A weight as it lies in a file: [rows = output features, columns = input features], rows strided.
struct MatrixView {
  const void* data = nullptr;
  DType dtype = DType::kF32;  // f32, f16 or bf16; need not be aligned
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t row_stride = 0;  // elements
};

// So many products of int8, and 128 times the sum of so many weights, fit an int32.
constexpr int64_t kMaxI8Features = int64_t{1} << 17;

// A weight in the layout of the device's GEMM. Made once at load, read-only afterwards. On CUDA its
// type is that of the activations, quantised or not.
class PackedWeight {
 public:
  PackedWeight() = default;
  // Stacks the parts along the output features (Q, K and V become one weight). All parts have the
  // same number of columns. `dtype` is the compute type: f32, bf16 or i8. Throws InputError for i8
  // and more than kMaxI8Features columns.
  // `quantization` is of devices; on the CPU int8 is a compute type.
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
//   HND: [num_blocks, 2, num_heads, block_size, head_dim]     2 = K, V; f32 or bf16
// In f8 (e4m3, on CUDA) a token's key or value of a head is its bytes times 2^(scale - 127), chosen
// so that its largest element uses the range of the type; beside the pages lies a byte for each.
struct KvPages {
  Tensor data;  // f32 or bf16; on CUDA of the activations' type, or f8
  KvLayout layout = KvLayout::kHND;
  Tensor scales = {};  // of f8 pages: u8, the shape of `data` without head_dim
};

namespace ops {

// out[t] = activation(W x[t] + bias), bias optional (empty). With bf16 weights, x is rounded to
// bf16 and products are summed in f32.
// With i8 weights, an output feature n has the scale s_n = max_k |W_nk| / 127 and a row of x the
// scale s_t = max_k |x_tk| / 127; both are rounded to multiples of their scales, ties to even, and
// the product is s_n s_t times an exact integer sum, the same on all levels and ranges of rows. A
// row or feature with a NaN or an infinity gives NaN, one below 1e-30 in all elements counts as 0.
struct LinearArgs {
  const PackedWeight* weight;
  Tensor x;     // [T, in_features]
  Tensor bias;  // [out_features] f32 (on CUDA of the type of `out`), or empty
  Activation activation = Activation::kNone;
  Tensor out;  // [T, out_features], of the activations' type or f32
};
void linear(Context& ctx, const LinearArgs& args);

// --- Embeddings and norms
// ----------------------------------------------------------------------------

// out[t] = scale * tokens[ids[t]] + positions[position_ids[t] + position_offset]; the position
// table may be empty. Tables are f32 or bf16. Ids outside [first_id, first_id + tokens.dim(0)) give
// zero (a vocabulary shard that another rank holds).
struct EmbeddingArgs {
  Tensor ids;           // [T] i32
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
// `out` may alias x or residual; so may `sum`, but not `out`.
struct LayerNormArgs {
  Tensor x;         // [T, d]
  Tensor residual;  // [T, d], or empty
  Tensor weight;    // [d] f32
  Tensor bias;      // [d] f32
  float eps = 1e-5f;
  Tensor out;       // [T, d]
  Tensor sum = {};  // [T, d]: h, rounded to the activations' type; or empty
};
void layer_norm(Context& ctx, const LayerNormArgs& args);

// out[i] = x[rows[i]]; of activations, or of f32.
struct GatherRowsArgs {
  Tensor x;     // [T, d]
  Tensor rows;  // [R] i32
  Tensor out;   // [R, d]
};
void gather_rows(Context& ctx, const GatherRowsArgs& args);

// --- Attention (FlashInfer's layouts)
// --------------------------------------------------------------

// The plan of a step on a device (kernels/attention_plan.h), made from the same lengths as the page
// table or `indptr` beside it. The CPU needs none.
struct DeviceAttentionPlan {
  Tensor rows, tiles;       // [W, kAttentionWorkInts] i32
  Tensor tickets;           // [tickets * num_heads] i32, zero before and after each use
  int32_t partials = 0;     // slots of partial results
  int32_t row_queries = 0;  // the most queries of a work of `rows`
};

// Stores k[t], v[t] in slot slot_mapping[t] = block * block_size + offset; a negative slot is
// skipped.
struct WriteKvArgs {
  Tensor k, v;          // [T, num_heads * head_dim]
  Tensor slot_mapping;  // [T] i32
  KvPages pages;
};
void write_kv(Context& ctx, const WriteKvArgs& args);

// Added to the scores (after their scaling): of query position i, key position j and head h
// values[h][clamp(j - i + zero, 0, D - 1)]. Distances beyond either end take its value, which is
// what T5's buckets do (models/blocks/relative_position.h); ALiBi needs D as large as distances get.
struct PositionBias {
  Tensor values;     // [num_heads, D] f32, rows adjacent; empty: nothing is added
  int32_t zero = 0;  // the column of j = i
};

// AttentionType ENCODER: non-causal, every token of a sequence attends to all of it. No cache.
struct RaggedAttentionArgs {
  Tensor q, k, v;  // [T, num_heads * head_dim]
  Tensor indptr;   // [S + 1] i32
  int num_heads;
  int head_dim;
  float scale;
  Tensor out;  // [T, num_heads * head_dim]
  const DeviceAttentionPlan* plan = nullptr;
  PositionBias bias = {};  // a token's position: its number in its sequence
};
void ragged_attention(Context& ctx, const RaggedAttentionArgs& args);

// AttentionTypes DECODER (causal) and ENCODER_DECODER (not causal) over pages, which already hold
// the keys and values of this step. Query i of a sequence with q queries and n keys stands at
// position n - q + i; a causal one sees keys [0, n - q + i].
// n = block_size * (pages - 1) + kv_last_page_len; a sequence with queries has at least one key.
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
};
void paged_attention(Context& ctx, const PagedAttentionArgs& args);

// Copies whole blocks: dst[pairs[2i+1]] = src[pairs[2i]]. src and dst may be the same pool (copy on
// write) or the device's and the host's (swap).
struct CopyBlocksArgs {
  Tensor src, dst;  // [num_blocks, ...] of equal block shape and type
  Tensor pairs;     // [2 * P] i32, on the host
};
void copy_blocks(Context& ctx, const CopyBlocksArgs& args);

// --- Sampling
// --------------------------------------------------------------------------------------

// ids[i] = first index of the largest value of row i. A NaN is larger than everything (as in
// torch).
struct ArgmaxArgs {
  Tensor logits;  // [R, V] f32
  Tensor ids;     // [R] i32
};
void argmax(Context& ctx, const ArgmaxArgs& args);

// What logits processors do to single entries of a row, in the list's order. `value` is a float.
enum class LogitEdit : int32_t {
  kAdd,       // x + value
  kPenalise,  // x < 0 ? x * value : x / value
  kSet,       // value
  kFavour,    // x + |x| * value where x is finite
};
// How a row is processed: bits.
enum : int32_t {
  kRowLogSoftmax = 1,  // processors see x - log_sum rather than x
  kRowMasked = 2,      // every entry is -inf before the edits (a forced token)
};

// What a row's processors see of its sequence in SequenceMemory. Between two parts of its edits
// come the penalties, once for each distinct token of the sequence: first x < 0 ? x * repetition :
// x / repetition; then, of tokens that occur n > 0 times from first_output on, x + -(frequency *
// n), and x + -presence behind that. After all edits, what would complete an n-gram of the sequence
// for the second time is masked. Tokens outside of the row are passed over. (Both compare tokens
// with tokens: length^2 / 2 comparisons for penalties, length * ngram_size for n-grams, by all
// threads of a row's block; a decoder's 1024 tokens fit a cache.)
struct RowHistory {
  int32_t place = 0;
  int32_t length = 0;        // tokens of the sequence
  int32_t first_output = 0;  // those before it are the prompt
  int32_t edits_before = 0;  // of the row's edits, how many come before the penalties
  int32_t ngram_size = 0;    // 0: none
  float repetition = 1.0f;   // 1: no penalty
  float presence = 0.0f;     // both 0: no penalty
  float frequency = 0.0f;
};
constexpr int kRowHistoryInts = sizeof(RowHistory) / sizeof(int32_t);

// For each row: the log of the sum of its exponentials; then its processors; then the k largest of
// what is left, largest first, of equals the lower id first, a NaN before all. Processors work in
// place: `logits` of rows without any stay as they are. Edits of one entry are adjacent (in each of
// the two parts of RowHistory).
struct SelectArgs {
  Tensor logits;          // [R, V] f32
  Tensor flags;           // [R] i32
  Tensor edit_indptr;     // [R + 1] i32, into edits
  Tensor edits;           // [E, 3] i32: id, LogitEdit, the bits of the value
  int k;                  // 1 .. kMaxSelect, at most V
  Tensor log_sums;        // [R] f32: NaN for a row with a NaN or +inf, -inf where all are -inf
  Tensor edited;          // [E] f32: what the entry held before any edit
  Tensor ids;             // [R, k] i32
  Tensor values;          // [R, k] f32
  Tensor best = {};       // [at least R] i32, or empty: ids[r][0] once more
  Tensor histories = {};  // [R, kRowHistoryInts] i32, or empty
  Tensor tokens = {};     // SequenceMemory's, with `histories`
};
constexpr int kMaxSelect = 64;
void select(Context& ctx, const SelectArgs& args);

// Draws a token of each row whose rule says so, from what select() left of the logits, and puts it
// and its logit before the temperature in the place of the best. HuggingFace's warpers, in its
// order: temperature; the k largest and their equals; without the least likely that hold at most
// `tail` of what is left, of equals the lower id first; those at least min_p times as likely as the
// best. What is left is drawn from by the inverse of the cumulative distribution in the order of
// ids. A row with a NaN or +inf, or nothing left, keeps its best.
// Likelihoods are fixed-point numbers, multiples of 2^-44 of the best's: their sums do not depend
// on an order, and there is no rounding but that of exp().
struct DrawRule {
  int32_t draws = 0;          // 0: the row is left as it is
  float temperature = 1.0f;   // > 0
  int32_t top_k = 0;          // 0: all
  float tail = 0.0f;          // 1 - top_p, below 1; the least likely, which go; one entry stays
  float min_p = 0.0f;         // at most 1; 0: all
  uint32_t uniform_high = 0;  // 53 bits, times 2^-53
  uint32_t uniform_low = 0;
  int32_t unused = 0;
};
constexpr int kDrawRuleInts = sizeof(DrawRule) / sizeof(int32_t);
struct DrawArgs {
  Tensor logits;     // [R, V] f32
  Tensor rules;      // [R, kDrawRuleInts] i32
  Tensor ids;        // [R, k] i32
  Tensor values;     // [R, k] f32
  Tensor best = {};  // as in SelectArgs
};
void draw(Context& ctx, const DrawArgs& args);

// Where tokens stand in their rows: values[i] = logits[i][id] with id = chosen[rows[i]], and one
// more than there are entries above that (1 for a NaN).
struct RankTokensArgs {
  Tensor logits;  // [L, V] f32
  Tensor rows;    // [L] i32, into chosen
  Tensor chosen;  // [N] i32
  Tensor values;  // [L] f32
  Tensor ranks;   // [L] i32
};
void rank_tokens(Context& ctx, const RankTokensArgs& args);

// --- Sequences that a device knows before the host does
// ---------------------------------------------

// A place for each, by a number that the host gives.
struct SequenceMemory {
  Tensor tokens;  // [P, L] i32: the decoder's so far, its prompt first
  Tensor pages;   // [P, B] i32: of a beam: the full pages of its self-attention, in order
  Tensor scores;  // [P] f32: of a running beam
};

// Puts sequences into their places: of data[first ...] first the tokens, then the pages.
struct SequenceBegin {
  int32_t place;
  int32_t first;
  int32_t tokens, pages;  // how many
  float score;
  int32_t unused[3] = {};
};
constexpr int kSequenceBeginInts = sizeof(SequenceBegin) / sizeof(int32_t);
struct BeginSequencesArgs {
  SequenceMemory memory;
  Tensor sequences;  // [S, kSequenceBeginInts] i32
  Tensor data;       // [D] i32
};
void begin_sequences(Context& ctx, const BeginSequencesArgs& args);

// tokens[place][length] = chosen[r] with (place, length) = places[r]; a place below 0 is skipped.
struct AppendTokensArgs {
  Tensor chosen;  // [at least R] i32
  Tensor places;  // [R, 2] i32
  Tensor tokens;  // SequenceMemory's
};
void append_tokens(Context& ctx, const AppendTokensArgs& args);

// A round of beam search for each group: from the candidates of its running beams (select()'s, of
// log-softmaxed rows) to the next running beams. The decisions, ties and float32 arithmetic of
// runtime/sampling/beam_search.h, except that nobody counts steps here: the host knows when it ends.
struct BeamRound {
  int32_t first_row;       // of its beams in ids and values
  int32_t rows;            // num_beams; or 1 in the first round: all go on from that row, beam 0's
  int32_t num_beams;       // 0: nothing to do
  int32_t num_candidates;  // of each row, and of all: the best so many decide
  int32_t first_beam;      // in `beams`, and in the outputs
  int32_t length;          // tokens of each beam; the chosen one is put behind them
  int32_t full_pages;      // of each beam, once this step's tokens are in the cache
  int32_t first_end;       // in `ends`: tokens with which a beam ends
  int32_t num_ends;
  int32_t unused[3] = {};
};
constexpr int kBeamRoundInts = sizeof(BeamRound) / sizeof(int32_t);
// A beam of a round. Full pages are shared by whoever goes on from them. The one behind them, which
// is not full, is the beam's own: its contents move (move_beam_pages).
struct BeamPlace {
  int32_t place;
  int32_t page;    // behind the full ones; below 0: there are no tokens in it yet
  int32_t filled;  // the page that this step filled, the last of the full ones; below 0: none
  int32_t unused = 0;
};
constexpr int kBeamPlaceInts = sizeof(BeamPlace) / sizeof(int32_t);
constexpr int kMaxDeviceBeams = 32;
struct SearchBeamsArgs {
  Tensor ids;     // [R, k] i32
  Tensor values;  // [R, k] f32
  Tensor rounds;  // [G, kBeamRoundInts] i32
  Tensor beams;   // [N, kBeamPlaceInts] i32
  Tensor ends;    // [E] i32
  // Rows of a group's beams change places, then get their token, score and filled page.
  SequenceMemory memory;
  Tensor parents;  // [N] i32 out: which of the group's beams a beam goes on from
  Tensor chosen;   // [N] i32 out: and with which token
  Tensor best;     // [at least N] i32 out: the same tokens once more
};
void search_beams(Context& ctx, const SearchBeamsArgs& args);

// What is in the page of beam parents[i] comes to be in that of beam i, for all beams of a round at
// once; where the rounds' beams have such pages.
struct MoveBeamPagesArgs {
  std::span<const Tensor> pools;  // [num_blocks, ...] each
  Tensor rounds, beams, parents;  // as above
};
void move_beam_pages(Context& ctx, const MoveBeamPagesArgs& args);

// An index below 0 stands for a page that only the device knows: -1 - (place << 16 | i) becomes
// pages[place][i].
constexpr int kPlacePageBits = 16;
struct SubstitutePagesArgs {
  Tensor page_indices;  // [N] i32
  Tensor pages;         // SequenceMemory's
};
void substitute_pages(Context& ctx, const SubstitutePagesArgs& args);

// ids[i] below 0 becomes earlier[-1 - ids[i]]: a token that only the device knows so far.
struct SubstituteIdsArgs {
  Tensor ids;      // [T] i32
  Tensor earlier;  // [N] i32
};
void substitute_ids(Context& ctx, const SubstituteIdsArgs& args);

}  // namespace ops
}  // namespace tandem
