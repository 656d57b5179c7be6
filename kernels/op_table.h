// The implementations of a device: one function per op, whose arguments are checked already. The
// CPU's table is a constant; a plugin registers its own.
#pragma once

#include <span>

#include "kernels/core/context.h"
#include "kernels/ops.h"

namespace tandem {

struct OpTable {
  // The data of a PackedWeight: the parts stacked, in the layout of `linear`.
  Tensor (*pack_weight)(Context&, std::span<const MatrixView> parts, DType dtype);
  void (*linear)(Context&, const ops::LinearArgs&);
  void (*embedding)(Context&, const ops::EmbeddingArgs&);
  void (*layer_norm)(Context&, const ops::LayerNormArgs&);
  void (*gather_rows)(Context&, const ops::GatherRowsArgs&);
  void (*write_kv)(Context&, const ops::WriteKvArgs&);
  void (*ragged_attention)(Context&, const ops::RaggedAttentionArgs&);
  void (*paged_attention)(Context&, const ops::PagedAttentionArgs&);
  void (*copy_blocks)(Context&, const ops::CopyBlocksArgs&);
  void (*argmax)(Context&, const ops::ArgmaxArgs&);
};

extern const OpTable kCpuOps;

// For a plugin, before the first Context of that device. The table lives as long as the process.
void register_ops(Device device, const OpTable& table);

// The table of the context's device, which must be registered.
const OpTable& ops_of(const Context& ctx);

}  // namespace tandem
