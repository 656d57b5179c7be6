// Attention over FlashInfer's layouts as they stand, for programs: docs/layouts.md. What the models
// call is in kernels/attention_ops.h: quicker, and made for what a step gives.
//
// Conventions, besides those of kernels/ops.h:
// - Wrong arguments are a caller's input, not a broken invariant: they throw InputError. Its
//   param() is the argument's name as it stands here, and the message has the index. Nothing is
//   written then.
// - Indices (indptr arrays, page tables, batch indices, positions) are int32 and lie on the host,
//   for a device too: all of them are checked.
// - Data lie on the context's device, in its type of activations. On the CPU keys and values may be
//   bf16. Only the leading dimension may be strided. A default Tensor is an absent argument.
// - Query head h reads head h / (num_heads / num_kv_heads) of keys and values.
// - A query's sums do not depend on other requests, on the number of threads or on pages.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/attention_ops.h"
#include "kernels/core/context.h"
#include "kernels/core/tensor.h"

namespace tandem {

// Keys and values in pages, in one of two forms. Shapes: NHD, and in brackets HND.
struct PagedKvCache {
  // [pages, 2, page_size, kv_heads, head_dim] ([pages, 2, kv_heads, page_size, head_dim]); or
  Tensor kv_cache = {};
  // [pages, page_size, kv_heads, head_dim] ([pages, kv_heads, page_size, head_dim]) each.
  Tensor k_cache = {}, v_cache = {};
  KvLayout layout = KvLayout::kNHD;
};

// Keys of latent attention (MLA), one head for all heads of queries: a compressed part, which is
// the value too, and a part with positions.
struct MlaCache {
  // [pages, page_size, head_dim_ckv + head_dim_kpe]; or
  Tensor mla_cache = {};
  // [pages, page_size, head_dim_ckv], [pages, page_size, head_dim_kpe].
  Tensor ckv_cache = {}, kpe_cache = {};
};

// The pages of R requests: request i has kv_indices[kv_indptr[i]] up to kv_indptr[i + 1], all full
// but for the last, which holds kv_last_page_len[i] tokens (0 where there are no pages).
struct KvPageTable {
  Tensor kv_indptr;         // [R + 1]
  Tensor kv_indices;        // [kv_indptr[R]]
  Tensor kv_last_page_len;  // [R]
};

// What becomes of the product of a query and a key: scale, soft cap, bias; then who is seen. Mask
// and bias are ragged matrices: request after request, in it row after row of queries, one element
// for each of its keys. A query that sees no key has zeros, and -infinity in lse.
struct ScoreRules {
  float scale = 1.0f;
  float soft_cap = 0.0f;           // cap * tanh(score / cap); 0: none
  bool causal = false;             // query j of n sees keys [0, j + keys - n]
  Tensor custom_mask = {};         // [total] u8: 0 hides the key; or
  Tensor packed_custom_mask = {};  // [bytes] u8: its bits, as pack_bits gives them for requests
  // [R + 1], where each request begins in the mask: its elements, or the bytes of packed ones.
  // Absent: is computed. With a bias alone: of the bias.
  Tensor mask_indptr = {};
  Tensor bias = {};  // [total] or [num_heads, total] f32; -infinity hides a key too
};

namespace ops {

// Ragged queries over ragged keys and values, each with lengths of its own.
struct AttendRaggedArgs {
  Tensor q;          // [n, num_heads, head_dim]
  Tensor k, v;       // [m, kv_heads, head_dim] (HND: [kv_heads, m, head_dim]); v of any head_dim
  Tensor qo_indptr;  // [R + 1], to n
  Tensor kv_indptr;  // [R + 1], to m
  KvLayout layout = KvLayout::kNHD;
  ScoreRules scores = {};
  Tensor out;       // [n, num_heads, head_dim of v]
  Tensor lse = {};  // [n, num_heads] f32: the logarithm of the sum of exp(score); or absent
};
void attend_ragged(Context& ctx, const AttendRaggedArgs& args);

// Ragged queries over pages: prefill and decode are the same.
struct AttendPagesArgs {
  Tensor q;          // [n, num_heads, head_dim]
  Tensor qo_indptr;  // [R + 1], to n
  PagedKvCache cache;
  KvPageTable table;
  ScoreRules scores = {};
  Tensor out;       // as q
  Tensor lse = {};  // as above
};
void attend_pages(Context& ctx, const AttendPagesArgs& args);

// Latent attention over pages: decode, or a prompt's next part (causal). score = q_nope . ckv +
// q_pe . kpe; the values are ckv.
struct AttendLatentArgs {
  Tensor q_nope;     // [n, num_heads, head_dim_ckv]
  Tensor q_pe;       // [n, num_heads, head_dim_kpe]
  Tensor qo_indptr;  // [R + 1], to n
  MlaCache cache;
  KvPageTable table;
  ScoreRules scores = {};
  Tensor out;       // [n, num_heads, head_dim_ckv]
  Tensor lse = {};  // as above
};
void attend_latent(Context& ctx, const AttendLatentArgs& args);

// One softmax over several sets of keys, from attention over each.
struct MergeStatesArgs {
  Tensor v;         // [states, n, num_heads, head_dim]
  Tensor s;         // [states, n, num_heads] f32: the lse of each; -infinity: of no key
  Tensor out;       // [n, num_heads, head_dim]
  Tensor lse = {};  // [n, num_heads] f32, or absent
};
void merge_states(Context& ctx, const MergeStatesArgs& args);

// Row r of keys and values goes to position positions[r] of request batch_indices[r]. The pages are
// in the table already. No two rows go to one place.
struct AppendPagesArgs {
  Tensor append_key, append_value;  // [n, kv_heads, head_dim]
  Tensor batch_indices, positions;  // [n]: batch_indices_positions()
  PagedKvCache cache;               // on the CPU f32 or bf16, which rounds
  KvPageTable table;
};
void append_pages(Context& ctx, const AppendPagesArgs& args);

struct AppendLatentArgs {
  Tensor append_ckv, append_kpe;    // [n, head_dim_ckv], [n, head_dim_kpe]
  Tensor batch_indices, positions;  // as above
  MlaCache cache;
  KvPageTable table;
};
void append_latent(Context& ctx, const AppendLatentArgs& args);

// Eight elements to a byte, the first in the lowest bit (numpy's packbits, little). Each segment
// begins at a byte.
struct PackBitsArgs {
  Tensor x;            // [total] u8: not 0 is a 1
  Tensor indptr = {};  // [segments + 1], to total; absent: all is one
  Tensor packed;       // [bytes] u8
};
void pack_bits(Context& ctx, const PackBitsArgs& args);

// --- Made of the ops above -----------------------------------------------------------------------

// Keys in levels, each of which cuts the queries in its own way: what many requests share is read
// once. A query sees the keys of its group in every level. Errors name "level1.kv_indices".
struct CascadeLevel {
  Tensor qo_indptr;  // [groups + 1], to n
  KvPageTable table;
};
struct AttendCascadeArgs {
  Tensor q;  // [n, num_heads, head_dim]
  PagedKvCache cache;
  std::span<const CascadeLevel> levels;  // at least one, the widest first
  float scale = 1.0f;
  float soft_cap = 0.0f;
  bool causal = false;  // in the last level; queries stand behind all others
  Tensor out;           // as q
  Tensor lse = {};      // [n, num_heads] f32, or absent
};
void attend_cascade(Context& ctx, const AttendCascadeArgs& args);

}  // namespace ops

// --- Tables, on the host -------------------------------------------------------------------------

// Where each request's mask begins: the sums of qo_len * kv_len. `packed`: in bytes.
// Throws InputError where they do not fit int32.
Tensor mask_indptr_of(const Tensor& qo_indptr, const Tensor& kv_indptr, bool packed);
// The same for pages.
Tensor mask_indptr_of(const Tensor& qo_indptr, const KvPageTable& table, int64_t page_size,
                      bool packed);
// Where segments begin after pack_bits.
Tensor packed_indptr_of(const Tensor& indptr);
// Whose the appended rows are and where they go: those of request i are the last of its
// seq_lens[i] tokens, and the rows [append_indptr[i], append_indptr[i + 1]).
struct BatchPositions {
  Tensor batch_indices, positions;  // [append_indptr[R]]
};
BatchPositions batch_indices_positions(const Tensor& append_indptr, const Tensor& seq_lens);

}  // namespace tandem
