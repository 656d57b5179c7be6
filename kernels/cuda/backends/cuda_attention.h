// The attention backends of CUDA devices (kernels/backends/attention_backend.h), for the plugin's
// table. Includes no header of CUDA.
#pragma once

#include "kernels/backends/attention_backend.h"

namespace tandem::cuda {

// Null: CUDA devices do not have it.
const AttentionOps* attention_ops(AttentionBackend backend);

// "reference": plain, in double.
void reference_ragged_attention(Context& ctx, const ops::RaggedAttentionArgs& args);
void reference_paged_attention(Context& ctx, const ops::PagedAttentionArgs& args);

}  // namespace tandem::cuda
