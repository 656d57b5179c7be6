// CUDA's ops (kernels/cuda/*.cu), and what they share on the host.
#pragma once

#include <cuda_runtime.h>

#include <span>

#include "kernels/core/context.h"
#include "kernels/op_table.h"
#include "kernels/ops.h"

namespace tandem::cuda {

Tensor pack_weight(Context& ctx, std::span<const MatrixView> parts, DType dtype);
QuantizedWeight quantize_weight(Context& ctx, std::span<const MatrixView> parts,
                                Quantization quantization);
void linear(Context& ctx, const ops::LinearArgs& args);
void embedding(Context& ctx, const ops::EmbeddingArgs& args);
void layer_norm(Context& ctx, const ops::LayerNormArgs& args);
void gather_rows(Context& ctx, const ops::GatherRowsArgs& args);
void write_kv(Context& ctx, const ops::WriteKvArgs& args);
void ragged_attention(Context& ctx, const ops::RaggedAttentionArgs& args);
void paged_attention(Context& ctx, const ops::PagedAttentionArgs& args);
void copy_blocks(Context& ctx, const ops::CopyBlocksArgs& args);
void argmax(Context& ctx, const ops::ArgmaxArgs& args);
void select(Context& ctx, const ops::SelectArgs& args);
void draw(Context& ctx, const ops::DrawArgs& args);
void rank_tokens(Context& ctx, const ops::RankTokensArgs& args);
void substitute_ids(Context& ctx, const ops::SubstituteIdsArgs& args);
void begin_sequences(Context& ctx, const ops::BeginSequencesArgs& args);
void append_tokens(Context& ctx, const ops::AppendTokensArgs& args);
void search_beams(Context& ctx, const ops::SearchBeamsArgs& args);
void move_beam_pages(Context& ctx, const ops::MoveBeamPagesArgs& args);
void substitute_pages(Context& ctx, const ops::SubstitutePagesArgs& args);

// out = x w^T + bias, by cuBLASLt; w is [n, k], its rows perhaps padded. In e4m3 x and w are bytes.
// False, and nothing is done, where the library does not multiply such.
[[nodiscard]] bool multiply(Context& ctx, const Tensor& x, const Tensor& w, int64_t k,
                            const Tensor& bias, bool relu, const Tensor& out);

// In place.
void activate_rows(Context& ctx, Activation activation, const Tensor& x);

// A row of a layer norm is kept in the shared memory that every device gives without asking.
constexpr int kMaxNormFeatures = 12000;

cudaStream_t stream_of(Context& ctx);
// Stops if the launch of that op failed. (Failures inside a kernel show at synchronize().)
void after_launch(const char* op);

extern const OpTable kCudaOps;

}  // namespace tandem::cuda
