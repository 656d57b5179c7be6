// The implementations of a device: one function per op, whose arguments are checked already. The
// CPU's table is a constant; a plugin's comes with its backend (core/device_backend.h).
#pragma once

#include <span>

#include "kernels/core/context.h"
#include "kernels/ops.h"

namespace tandem {

// The data and the scales of a PackedWeight.
struct QuantizedWeight {
  Tensor data, scales;
};

struct OpTable {
  // The data of a PackedWeight: the parts stacked, in the layout of `linear`.
  Tensor (*pack_weight)(Context&, std::span<const MatrixView> parts, DType dtype);
  // The same for a quantised one; null on the CPU.
  QuantizedWeight (*quantize_weight)(Context&, std::span<const MatrixView> parts, Quantization);
  void (*linear)(Context&, const ops::LinearArgs&);
  void (*embedding)(Context&, const ops::EmbeddingArgs&);
  void (*layer_norm)(Context&, const ops::LayerNormArgs&);
  void (*gather_rows)(Context&, const ops::GatherRowsArgs&);
  void (*write_kv)(Context&, const ops::WriteKvArgs&);
  void (*ragged_attention)(Context&, const ops::RaggedAttentionArgs&);
  void (*paged_attention)(Context&, const ops::PagedAttentionArgs&);
  void (*copy_blocks)(Context&, const ops::CopyBlocksArgs&);
  void (*argmax)(Context&, const ops::ArgmaxArgs&);
  void (*select)(Context&, const ops::SelectArgs&);
  void (*draw)(Context&, const ops::DrawArgs&);
  void (*rank_tokens)(Context&, const ops::RankTokensArgs&);
  void (*substitute_ids)(Context&, const ops::SubstituteIdsArgs&);
  void (*begin_sequences)(Context&, const ops::BeginSequencesArgs&);
  void (*append_tokens)(Context&, const ops::AppendTokensArgs&);
  void (*search_beams)(Context&, const ops::SearchBeamsArgs&);
  void (*move_beam_pages)(Context&, const ops::MoveBeamPagesArgs&);
  void (*substitute_pages)(Context&, const ops::SubstitutePagesArgs&);
};

extern const OpTable kCpuOps;

const OpTable& ops_of(const Context& ctx);

}  // namespace tandem
