// An op of kernels/layouts/layout_ops.h by FlashInfer's name for it, with tensors by theirs: for
// Python (python/native/layouts.h) and for descriptors in files.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "kernels/layouts/layout_ops.h"

namespace tandem {

// Ops, their arguments and what they write (outputs are among the tensors, and are written in
// place):
//   attention_ragged             q k v qo_indptr kv_indptr                          → out lse
//   attention_paged              q qo_indptr CACHE TABLE                            → out lse
//   attention_mla                q_nope q_pe qo_indptr LATENT TABLE                 → out lse
//   attention_cascade            q CACHE level0.qo_indptr level0.TABLE level1.…     → out lse
//   merge_states                 v s                                                → out lse
//   append_paged_kv_cache        append_key append_value batch_indices positions TABLE → CACHE
//   append_paged_mla_kv_cache    append_ckv append_kpe batch_indices positions TABLE   → LATENT
//   get_batch_indices_positions  append_indptr seq_lens               → batch_indices positions
//   packbits                     x                                                  → packed
//   segment_packbits             x indptr                              → packed packed_indptr
// CACHE: kv_cache, or k_cache v_cache. LATENT: mla_cache, or ckv_cache kpe_cache. TABLE: kv_indptr
// kv_indices kv_last_page_len. The first three take custom_mask, packed_custom_mask, mask_indptr
// and bias too. lse need not be given.
struct LayoutCall {
  std::string op;
  std::map<std::string, Tensor> tensors;
  KvLayout layout = KvLayout::kNHD;
  bool causal = false;
  std::optional<float> sm_scale;  // absent: 1 / sqrt(head_dim); attention_mla must have it
  float logits_soft_cap = 0.0f;
};

// Throws InputError, which names the argument; "op" and names that the op does not have, too.
void run_layout_call(Context& ctx, const LayoutCall& call);

}  // namespace tandem
